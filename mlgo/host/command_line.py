"""Command lines of C and C++ compilers and of linkers: options with values, and options that may come from others.

Options whose value may be the next word are those of the drivers of clang 22 (kinds ``Separate`` and
``JoinedOrSeparate`` of clang/include/clang/Driver/Options.td) and of GCC 15 (gcc/common.opt, gcc/c-family/c.opt), and
those of lld 22 (lld/ELF/Options.td) and GNU ld. The driver of ``mlgo cc`` is made with the same tables.

A compiler can be told to load a plug-in, to run another program in place of its parts, or to read further options from
a file. So only options of known kinds are taken from recipes and tables: macros, headers, the language, warnings, the
machine, and code generation. They have the same names in GCC and in clang.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mlgo.errors import CompilerExit, ConfigError


def words(text: str) -> tuple[str, ...]:
    """The words of a text: a table of options."""
    return tuple(text.split())


SOURCE_OPTIONS = ("-D", "-U", "-I", "-iquote", "-isystem", "-idirafter", "-include", "-imacros")
"""Macros, folders and headers of a source, which recipes may give."""

DEPENDENCY_OPTIONS = ("-MF", "-MT", "-MQ", "-MJ", "-dependency-file", "-dependency-dot", "-module-dependency-dir")

PASSED_ON_OPTIONS = words(
    """
    -Xclang -Xpreprocessor -Xassembler -mllvm -mmlir -Xclangas -Xanalyzer -Xarch_host -Xarch_device -Xcuda-fatbinary
    -Xcuda-ptxas -Xopenmp-target -Xoffload-linker"""
)
"""Their value is an option for a part of the compiler."""

LINK_OPTIONS = words(
    """
    -L -l -T -u -z -e -h -R -b -init -rpath -Xlinker --for-linker --force-link --library-directory -framework
    -reexport_framework -weak_framework -lazy_framework -force_load -weak_library -lazy_library -reexport_library
    -bundle_loader -install_name -dylinker_install_name -dylib_file -current_version -compatibility_version
    -exported_symbols_list -unexported_symbols_list -alias_list -filelist -undefined -umbrella -allowable_client
    -client_name -sub_library -sub_umbrella -image_base -pagezero_size -multiply_defined -multiply_defined_unused
    -read_only_relocs -weak_reference_mismatches -seg1addr -seg_addr_table -seg_addr_table_filename -segs_read_only_addr
    -segs_read_write_addr"""
)

_OTHER_OPTIONS = words(
    """
    -o --output -x --language -target -arch -arch_only -A -B -F -G -V --param --config --sysroot -isysroot --prefix
    -specs --specs -wrapper -resource-dir --resource --std --stdlib --rtlib -aux-info -dumpdir -dumpbase -dumpbase-ext
    -iprefix -iwithprefix -iwithprefixbefore -iwithsysroot -imultilib -imultiarch -iframework -iframeworkwithsysroot
    -isystem-after -cxx-isystem -stdlib++-isystem -include-pch -ivfsoverlay -vfsoverlay --vfsoverlay --define-macro
    --undefine-macro --include-directory --assert --include-directory-after --include-prefix --include-with-prefix
    --include-with-prefix-after --include-with-prefix-before --system-header-prefix --no-system-header-prefix
    -working-directory -serialize-diagnostics --serialize-diagnostics --analyzer-output -object-file-name -dsym-dir
    -fdebug-compilation-dir -fnew-alignment -ftrapv-handler -fmodule-implementation-of -fmodules-user-build-path
    -iapinotes-modules -gen-cdb-fragment-path -mthread-model -meabi -darwin-target-variant -darwin-target-variant-triple
    -ccc-gcc-name -ccc-install-dir --dyld-prefix"""
)

WITH_VALUE = frozenset((*SOURCE_OPTIONS, *DEPENDENCY_OPTIONS, *PASSED_ON_OPTIONS, *LINK_OPTIONS, *_OTHER_OPTIONS))
"""Options of compilers whose value is the next word. Many may have it in the same word, too."""

WITHOUT_CODE = frozenset(
    words("-E -M -MM -fsyntax-only --version -### --analyze -dumpversion -dumpmachine -emit-ast --help")
)
"""With one of these a compiler ends before it optimizes code."""

LINKER_LETTERS = frozenset("-" + letter for letter in "AFGILORTabefhlmouyz")
LINKER_NAMES = frozenset(
    words(
        """
    Map Tbss Tdata Ttext android-memtag-mode auxiliary call-graph-ordering-file chroot compress-debug-sections
    compress-sections default-script defsym dependency-file dynamic-linker dynamic-list entry error-handling-script
    error-limit exclude-libs export-dynamic-symbol export-dynamic-symbol-list filter fini format hash-style image-base
    in-implib init irpgo-profile just-symbols keep-unique library library-path load-pass-plugin mips-got-size mllvm
    oformat opt-remarks-filename opt-remarks-format opt-remarks-passes orphan-handling out-implib output pack-dyn-relocs
    plugin plugin-opt print-symbol-order remap-inputs remap-inputs-file reproduce retain-symbols-file rpath rpath-link
    rsp-quoting script section-start shuffle-sections soname sort-section symbol-ordering-file sysroot target2 threads
    thinlto-cache-policy trace-symbol undefined undefined-glob unresolved-symbols version-script why-extract why-live
    wrap"""
    )
).union(option.strip("-") for option in LINK_OPTIONS)
"""Long options of linkers whose value is the next word or stands behind ``=``; one or two dashes begin them."""

SOURCE_LANGUAGES = {
    **dict.fromkeys((".c", ".i"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".cp", ".CPP", ".C", ".ii"), "c++"),
    **dict.fromkeys((".s", ".S", ".sx", ".asm"), "assembler"),
    **dict.fromkeys((".m", ".mi"), "objective-c"),
    **dict.fromkeys((".mm", ".M", ".mii"), "objective-c++"),
    **dict.fromkeys((".f", ".F", ".for", ".f90", ".F90", ".f95"), "fortran"),
    ".cu": "cuda",
    ".go": "go",
    ".d": "d",
    ".adb": "ada",
}
"""Languages of sources by suffix, as drivers of GCC and clang have them."""

_KINDS = {
    "macro": r"[^\W\d][\s\S]*",
    "path": r"(?![-@])[^\0]+",
    "target": r"\w[\w.+-]*",
    "standard": r"\w[\w+:]*",
    "level": r"-O(?:[0-3sgz]|fast)?",
    "name": r"[\w!][\w.,:+!-]*",
    "symbol": r"[^\W\d][\w.$]*",
    "number": r"-?\d+(?::\d+)*",
    "map": r"(?!@)[^=\0]*=[^\0]*",
}
"""What a value of each kind looks like. None begins as an option does, or with the ``@`` of a file of options: drivers
hand the values of many options to clang's own front end as words of their own, and it opens such files, too."""

_WITH_KIND = {
    **dict.fromkeys(("-D", "-U"), "macro"),
    **dict.fromkeys(("-I", "-iquote", "-isystem", "-idirafter", "-include", "-imacros"), "path"),
    "-std=": "standard",
    **dict.fromkeys((f"-f{of}-prefix-map=" for of in ("file", "macro", "debug", "coverage", "profile")), "map"),
    **dict.fromkeys(("-ftrapv-handler=", "-fconstant-string-class=", "-ftrap-function="), "symbol"),
    **dict.fromkeys(
        words(
            """
    -fabi-compat-version= -fabi-version= -falign-functions= -falign-jumps= -falign-labels= -falign-loops=
    -fbracket-depth= -fcaret-diagnostics-max-lines= -fchecking= -fconcepts-diagnostics-depth=
    -fconstexpr-backtrace-limit= -fconstexpr-cache-depth= -fconstexpr-depth= -fconstexpr-loop-limit=
    -fconstexpr-ops-limit= -fconstexpr-steps= -fdebug-default-version= -fdiagnostics-minimum-margin-width=
    -ferror-limit= -finline-limit= -finline-max-stacksize= -flifetime-dse= -fmacro-backtrace-limit= -fmax-errors=
    -fmax-include-depth= -fmax-tokens= -fmax-type-align= -fmessage-length= -fnew-alignment= -fopenmp-version=
    -foperator-arrow-depth= -fpack-struct= -fprofile-function-groups= -fprofile-selected-function-group=
    -fsanitize-address-field-padding= -fsanitize-memory-track-origins= -fsanitize-undefined-strip-path-components=
    -fsched-stalled-insns-dep= -fsched-stalled-insns= -fspell-checking-limit= -fstack-limit-register=
    -fstrict-flex-arrays= -ftabstop= -ftemplate-backtrace-limit= -ftemplate-depth= -ftrack-macro-expansion=
    -ftree-parallelize-loops= -ftrivial-auto-var-init-max-size= -ftrivial-auto-var-init-stop-after=
    -fxray-function-groups= -fxray-instruction-threshold= -fxray-selected-function-group="""
        ),
        "number",
    ),
    **dict.fromkeys(
        words(
            """
    -faligned-new= -fasan-shadow-offset= -fasynchronous-unwind-tables= -fbasic-block-sections= -fbinutils-version=
    -fc++-abi= -fc++-static-destructors= -fcf-protection= -fclang-abi-compat= -fcomment-block-commands=
    -fcomplex-arithmetic= -fdenormal-fp-math-f32= -fdenormal-fp-math= -fdiagnostics-color=
    -fdiagnostics-show-location= -fdiagnostics-urls= -femit-dwarf-unwind= -femit-struct-debug-detailed=
    -fexcess-precision= -fexec-charset= -fexperimental-sanitize-metadata= -fextend-arguments=
    -fextend-variable-liveness= -ffp-contract= -ffp-eval-method= -ffp-exception-behavior= -ffp-model=
    -fgnuc-version= -finput-charset= -finstrument-functions-exclude-function-list= -fira-algorithm= -fira-region=
    -flax-vector-conversions= -flive-patching= -flto-partition= -flto= -fmatrix-memory-layout=
    -fms-compatibility-version= -fms-runtime-lib= -fmsc-version= -fno-experimental-sanitize-metadata=
    -fno-sanitize-annotate-debug-info= -fno-sanitize-coverage= -fno-sanitize-merge= -fno-sanitize-recover=
    -fno-sanitize-trap= -fno-sanitize= -fobjc-runtime= -fopenmp= -fpatchable-function-entry=
    -fpermitted-flt-eval-methods= -fprofile-update= -frandom-seed= -frandomize-layout-seed=
    -freorder-blocks-algorithm= -fsanitize-address-destructor= -fsanitize-address-use-after-return=
    -fsanitize-annotate-debug-info= -fsanitize-coverage= -fsanitize-debug-trap-reasons= -fsanitize-hwaddress-abi=
    -fsanitize-kcfi-hash= -fsanitize-memtag-mode= -fsanitize-merge= -fsanitize-recover= -fsanitize-sections=
    -fsanitize-trap= -fsanitize= -fshow-overloads= -fsimd-cost-model= -fsso-struct= -fstack-check=
    -fstack-limit-symbol= -fstack-reuse= -fstrong-eval-order= -fswift-async-fp= -ftls-model=
    -ftrivial-auto-var-init= -funwind-tables= -fveclib= -fvect-cost-model= -fvisibility-dllexport=
    -fvisibility-externs-dllimport= -fvisibility-externs-nodllstorageclass= -fvisibility-global-new-delete=
    -fvisibility-nodllstorageclass= -fvisibility= -fvtable-verify= -fwhole-program-vtables= -fwide-exec-charset=
    -fwinx64-eh-unwindv2= -fxray-instrumentation-bundle= -fxray-modes= -fzero-call-used-regs="""
        ),
        "name",
    ),
}
"""Kinds of values, by option; options whose value names a file that is read, written or run are missing. Values of
options of the machine (``-m...=``) are names."""

PROFILES = ("-fprofile-use=", "-fprofile-instr-use=", "-fprofile-sample-use=", "-fauto-profile=")
"""Beginnings of options that name a profile."""

_OF_BUILD = {
    **dict.fromkeys(("--target=", "-target"), "target"),
    **dict.fromkeys(("--sysroot=", "--sysroot", "-isysroot", *PROFILES), "path"),
}
"""The same for options that only the compiler of the build itself may take again."""
_WITH_KIND_OF_BUILD = _WITH_KIND | _OF_BUILD

_WITHOUT_VALUE = re.compile(
    r"-(?:ansi|nostdinc(?:\+\+)?|pedantic(?:-errors)?|pthread|trigraphs|undef|w|g[0-3]?|O(?:\w*)|W[\w+#=.-]*|[fm][\w+.-]+)"
)
_RUNS = words(
    """
    @ -B --prefix -specs --specs -wrapper -iplugindir -fplugin -fpass-plugin -load -plugin -add-plugin -Xclang
    -Xpreprocessor -Xassembler -Xlinker -Xarch -Wp, -Wa, -Wl, -mllvm -mmlir -cc1 --config -fmodule -fuse-ld -foffload
    -ccc-"""
)
"""Beginnings of what loads or runs other code, or passes anything on to a part of the compiler that can."""

_NOT_ALONE = WITH_VALUE | WITHOUT_CODE
_WRITES = words(
    """
    -fdump -fdbg-cnt -fopt-info -fsave-optimization -foptimization-record -ftime-trace -ftest-coverage -fproc-stat
    -fstack-usage -fcallgraph-info -fcrash-diagnostics -fcxx-modules -fimplicit-module -fbuiltin-module -fembed-offload
    -fprofile-note -frecord-gcc -fself-test -fdriver-only -fthinlto-distributor"""
)
"""Beginnings of options without a value that make a compiler write further files, or run programs, none the less."""


@dataclass(frozen=True)
class Option:
    """A compiler option that came from outside: its name, and its value, which is of the kind that the name wants."""

    name: str
    value: str = ""

    @property
    def word(self) -> str:
        """The option as one word of a command line."""
        return self.name + self.value

    @classmethod
    def read(cls, arguments: Sequence[str], *, of_build: bool = False) -> "Option":
        """Read one word, or two where the second is the value of the first; ConfigError for what may not pass.

        Options ``of_build`` may name a machine and files that are read, too.
        """
        first = arguments[0]
        if first.startswith(_RUNS):
            raise ConfigError(f"compiler option {first} can make the compiler run or load other code; leave it out")
        stem = f"{first.partition('=')[0]}="
        kinds = _WITH_KIND_OF_BUILD if of_build else _WITH_KIND
        names = [one for one in (stem, *SOURCE_OPTIONS, *_OF_BUILD) if one in kinds or one.startswith("-m")]
        name = max(filter(first.startswith, names), key=len, default="")
        if not name:
            if not _WITHOUT_VALUE.fullmatch(first) or first.startswith(_WRITES) or first in _NOT_ALONE:
                known = ", ".join((*SOURCE_OPTIONS, "-std=", "-O", "-W", "-f", "-m"))
                raise ConfigError(f"compiler option {first} is not allowed here; allowed are {known} and the like")
            return cls(first)
        value = arguments[1] if len(arguments) > 1 and first == name else first[len(name) :]
        if not value:
            raise ConfigError(f"compiler option {first} has no value")
        return cls(name, checked(kinds.get(name, "name"), value, f"compiler option {name}"))


def checked(kind: str, value: str, what: str) -> str:
    """A value from outside; ConfigError where it does not look like one of its kind, see `_KINDS`."""
    if re.fullmatch(_KINDS[kind], value) is None:
        hint = "; a path may begin with ./" if kind == "path" else ""
        raise ConfigError(f"{what}: {value[:100]} is no value of kind {kind}{hint}")
    return value


def source_word(path: str) -> str:
    """The name of a source or a module as a word of a command line.

    Raises:
        CompilerExit: the name of the file begins with ``@``; clang gives it to its own front end as a word of its own,
            which would open it as a file of options.
    """
    if not path or PurePosixPath(path).name.startswith("@"):
        raise CompilerExit(
            f"{path or 'a source without a name'}: clang takes names with @ for files of options; rename it"
        )
    return f"./{path}" if path.startswith(("-", "@")) else path


def language_words(source: str, language: str) -> tuple[str, ...]:
    """What says the language of a source, ``c`` or ``c++``, to a compiler; nothing where the name alone does."""
    return () if SOURCE_LANGUAGES.get(PurePosixPath(source).suffix) == language else ("-x", language)


def by_option(command: Iterable[str]) -> Iterator[list[str]]:
    """Group a compiler's words: an option with its value if that is the next word, every other word alone."""
    rest = iter(command)
    for word in rest:
        value = next(rest, None) if word in WITH_VALUE else None
        yield [word] if value is None else [word, value]


def linker_takes_value(word: str) -> bool:
    """Whether the word behind an option of a linker is its value."""
    return word in LINKER_LETTERS or (word.startswith("-") and word.lstrip("-") in LINKER_NAMES)


def check_options(arguments: Iterable[str]) -> list[str]:
    """Options, each as one word; ConfigError for those that could run or load other code, or write files."""
    return [Option.read(some).word for some in by_option(arguments)]
