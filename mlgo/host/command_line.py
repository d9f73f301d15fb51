"""Command lines of C and C++ compilers and of linkers: options with values, and options that may come from others.

Options whose value may be the next word are those of the drivers of clang 22 (kinds ``Separate`` and
``JoinedOrSeparate`` of clang/include/clang/Driver/Options.td) and of GCC 15 (gcc/common.opt, gcc/c-family/c.opt), and
those of lld 22 (lld/ELF/Options.td) and GNU ld. All kinds are in one table; the driver of ``mlgo cc`` has it.

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


_TABLE = """
# Macros, folders and headers of a source, which recipes may give; like all up to `others` with a value behind them.
source: -D -U -I -iquote -isystem -idirafter -include -imacros
# Of files that say what a source depends on.
dependency: -MF -MT -MQ -MJ -dependency-file -dependency-dot -module-dependency-dir
# Their value is an option for a part of the compiler.
passed_on: -Xclang -Xpreprocessor -Xassembler -mllvm -mmlir -Xclangas -Xanalyzer -Xarch_host -Xarch_device
 -Xcuda-fatbinary -Xcuda-ptxas -Xopenmp-target -Xoffload-linker
# Of the link.
link: -L -l -T -u -z -e -h -R -b -init -rpath -Xlinker --for-linker --force-link --library-directory -framework
 -reexport_framework -weak_framework -lazy_framework -force_load -weak_library -lazy_library -reexport_library
 -bundle_loader -install_name -dylinker_install_name -dylib_file -current_version -compatibility_version
 -exported_symbols_list -unexported_symbols_list -alias_list -filelist -undefined -umbrella -allowable_client
 -client_name -sub_library -sub_umbrella -image_base -pagezero_size -multiply_defined -multiply_defined_unused
 -read_only_relocs -weak_reference_mismatches -seg1addr -seg_addr_table -seg_addr_table_filename -segs_read_only_addr
 -segs_read_write_addr
others: -o --output -x --language -target -arch -arch_only -A -B -F -G -V --param --config --sysroot -isysroot --prefix
 -specs --specs -wrapper -resource-dir --resource --std --stdlib --rtlib -aux-info -dumpdir -dumpbase -dumpbase-ext
 -iprefix -iwithprefix -iwithprefixbefore -iwithsysroot -imultilib -imultiarch -iframework -iframeworkwithsysroot
 -isystem-after -cxx-isystem -stdlib++-isystem -include-pch -ivfsoverlay -vfsoverlay --vfsoverlay --define-macro
 --undefine-macro --include-directory --assert --include-directory-after --include-prefix --include-with-prefix
 --include-with-prefix-after --include-with-prefix-before --system-header-prefix --no-system-header-prefix
 -working-directory -serialize-diagnostics --serialize-diagnostics --analyzer-output -object-file-name -dsym-dir
 -fdebug-compilation-dir -fnew-alignment -ftrapv-handler -fmodule-implementation-of -fmodules-user-build-path
 -iapinotes-modules -gen-cdb-fragment-path -mthread-model -meabi -darwin-target-variant -darwin-target-variant-triple
 -ccc-gcc-name -ccc-install-dir --dyld-prefix
# With one of these a compiler ends before it optimizes code.
without_code: -E -M -MM -fsyntax-only --version -### --analyze -dumpversion -dumpmachine -emit-ast --help
# Of the link alone, without a value.
link_words: -shared -static -static-pie -pie -no-pie -rdynamic -nostdlib -nostartfiles -nodefaultlibs -s -r
 -static-libgcc -static-libstdc++ -shared-libgcc
# Beginnings of what loads or runs other code, or reads further options; and of what passes anything on to a part of
# the compiler that can.
runs: @ -B --prefix -specs --specs -wrapper -iplugindir -fplugin -fpass-plugin -load -plugin -add-plugin --config
passes: -Xclang -Xpreprocessor -Xassembler -Xlinker -Xarch -Wp, -Wa, -Wl, -mllvm -mmlir -cc1 -fmodule -fuse-ld -foffload
 -ccc-
# Beginnings of options without a value that make a compiler write further files, or run programs, none the less.
writes: -fdump -fdbg-cnt -fopt-info -fsave-optimization -foptimization-record -ftime-trace -ftest-coverage -fproc-stat
 -fstack-usage -fcallgraph-info -fcrash-diagnostics -fcxx-modules -fimplicit-module -fbuiltin-module -fembed-offload
 -fprofile-note -frecord-gcc -fself-test -fdriver-only -fthinlto-distributor
# What may stand between `-f` and `=` before a name or a number, and names no file.
named: abi-compat-version abi-version align-functions align-jumps align-labels align-loops aligned-new
 asan-shadow-offset asynchronous-unwind-tables basic-block-sections binutils-version bracket-depth c++-abi
 c++-static-destructors caret-diagnostics-max-lines cf-protection checking clang-abi-compat comment-block-commands
 complex-arithmetic concepts-diagnostics-depth constexpr-backtrace-limit constexpr-cache-depth constexpr-depth
 constexpr-loop-limit constexpr-ops-limit constexpr-steps debug-default-version denormal-fp-math denormal-fp-math-f32
 diagnostics-color diagnostics-minimum-margin-width diagnostics-show-location diagnostics-urls emit-dwarf-unwind
 emit-struct-debug-detailed error-limit excess-precision exec-charset experimental-sanitize-metadata extend-arguments
 extend-variable-liveness fp-contract fp-eval-method fp-exception-behavior fp-model gnuc-version inline-limit
 inline-max-stacksize input-charset instrument-functions-exclude-function-list ira-algorithm ira-region
 lax-vector-conversions lifetime-dse live-patching lto lto-partition macro-backtrace-limit matrix-memory-layout
 max-errors max-include-depth max-tokens max-type-align message-length ms-compatibility-version ms-runtime-lib
 msc-version new-alignment no-experimental-sanitize-metadata no-sanitize no-sanitize-annotate-debug-info
 no-sanitize-coverage no-sanitize-merge no-sanitize-recover no-sanitize-trap objc-runtime openmp openmp-version
 operator-arrow-depth pack-struct patchable-function-entry permitted-flt-eval-methods profile-function-groups
 profile-selected-function-group profile-update random-seed randomize-layout-seed reorder-blocks-algorithm sanitize
 sanitize-address-destructor sanitize-address-field-padding sanitize-address-use-after-return
 sanitize-annotate-debug-info sanitize-coverage sanitize-debug-trap-reasons sanitize-hwaddress-abi sanitize-kcfi-hash
 sanitize-memory-track-origins sanitize-memtag-mode sanitize-merge sanitize-recover sanitize-sections sanitize-trap
 sanitize-undefined-strip-path-components sched-stalled-insns sched-stalled-insns-dep show-overloads simd-cost-model
 spell-checking-limit sso-struct stack-check stack-limit-register stack-limit-symbol stack-reuse strict-flex-arrays
 strong-eval-order swift-async-fp tabstop template-backtrace-limit template-depth tls-model track-macro-expansion
 tree-parallelize-loops trivial-auto-var-init trivial-auto-var-init-max-size trivial-auto-var-init-stop-after
 unwind-tables veclib vect-cost-model visibility visibility-dllexport visibility-externs-dllimport
 visibility-externs-nodllstorageclass visibility-global-new-delete visibility-nodllstorageclass vtable-verify
 whole-program-vtables wide-exec-charset winx64-eh-unwindv2 xray-function-groups xray-instruction-threshold
 xray-instrumentation-bundle xray-modes xray-selected-function-group zero-call-used-regs
# That leave code generation to the link; modules are compiled one by one.
link_time: -flto -fno-lto -ffat-lto-objects -fthin-link-bitcode -fthinlto-index -fwhole-program-vtables
# Beginnings of options with -f that are not about code.
not_of_code: -fdiagnostics -fno-diagnostics -fdump -fuse- -fdebug
# Warnings that are errors in clang; what the compiler of a build has taken is taken.
tolerated: narrowing c++11-narrowing c++11-narrowing-const-reference implicit-function-declaration implicit-int
 int-conversion incompatible-function-pointer-types incompatible-pointer-types return-type return-mismatch register
 reserved-user-defined-literal enum-constexpr-conversion
# Of a linker, which change what is linked and no more: those without a value, and those with one.
linker_alone: allow-multiple-definition allow-shlib-undefined as-needed Bdynamic Bgroup Bsymbolic Bsymbolic-functions
 Bstatic build-id color-diagnostics copy-dt-needed-entries demangle disable-new-dtags discard-all discard-locals dn dy E
 eh-frame-hdr enable-new-dtags end-group end-lib export-dynamic fatal-warnings gc-sections gdb-index icf no-add-needed
 no-allow-shlib-undefined no-as-needed no-copy-dt-needed-entries no-dynamic-linker no-eh-frame-hdr no-export-dynamic
 no-fatal-warnings no-gc-sections no-keep-memory no-pie no-relax no-threads no-undefined no-undefined-version
 no-warn-mismatch no-whole-archive noinhibit-exec pic-executable pie pop-state push-state r reduce-memory-overheads
 relax relocatable s S shared sort-common start-group start-lib static strip-all strip-debug thread-count
 undefined-version warn-common warn-once warn-shared-textrel whole-archive x X
linker_values: I L O R T Tbss Tdata Ttext compress-debug-sections defsym dynamic-linker dynamic-list e entry
 exclude-libs export-dynamic-symbol fini h hash-style image-base init keep-unique l library library-path m
 pack-dyn-relocs rpath require-defined rpath-link section-start soname sort-section threads u undefined
 unresolved-symbols version-script wrap z
# Where a linker writes its output and what else it writes or prints; a link that is done again writes elsewhere.
linker_files: Map dependency-file o output
linker_prints: cref print-map stats t trace
# Of a linker, with a value behind them, too.
linker_others: A F G a android-memtag-mode auxiliary b call-graph-ordering-file chroot compress-sections default-script
 error-handling-script error-limit export-dynamic-symbol-list f filter format in-implib irpgo-profile just-symbols
 load-pass-plugin mips-got-size mllvm oformat opt-remarks-filename opt-remarks-format opt-remarks-passes orphan-handling
 out-implib plugin plugin-opt print-symbol-order remap-inputs remap-inputs-file reproduce retain-symbols-file
 rsp-quoting script shuffle-sections symbol-ordering-file sysroot target2 thinlto-cache-policy trace-symbol
 undefined-glob why-extract why-live y
"""
OPTIONS = {kind: words(text) for kind, text in re.findall(r"^(\w+):(.*(?:\n .*)*)", _TABLE, re.MULTILINE)}
SOURCE_OPTIONS, DEPENDENCY_OPTIONS, PASSED_ON_OPTIONS = OPTIONS["source"], OPTIONS["dependency"], OPTIONS["passed_on"]
LINK_OPTIONS, LINK_WORDS, RUNS_CODE = OPTIONS["link"], frozenset(OPTIONS["link_words"]), OPTIONS["runs"]
_RUNS = (*RUNS_CODE, *OPTIONS["passes"])
WITHOUT_CODE = frozenset(OPTIONS["without_code"])
WITH_VALUE = frozenset((*SOURCE_OPTIONS, *DEPENDENCY_OPTIONS, *PASSED_ON_OPTIONS, *LINK_OPTIONS, *OPTIONS["others"]))
"""Options of compilers whose value is the next word. Many may have it in the same word, too."""
LINKER_WITH_VALUE = frozenset((*OPTIONS["linker_values"], *OPTIONS["linker_files"], *OPTIONS["linker_others"])).union(
    option.strip("-") for option in LINK_OPTIONS
)
"""Options of linkers whose value is the next word or stands behind ``=``; long ones have one or two dashes."""

SOURCE_LANGUAGES = {
    **dict.fromkeys((".c", ".i"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".cp", ".CPP", ".C", ".ii"), "c++"),
    **dict.fromkeys((".s", ".S", ".sx", ".asm"), "assembler"),
    **dict.fromkeys((".m", ".mi"), "objective-c"),
    **dict.fromkeys((".mm", ".M", ".mii"), "objective-c++"),
    **dict.fromkeys((".f", ".F", ".for", ".f90", ".F90", ".f95"), "fortran"),
    ".cu": "cuda",
    ".go": "go",
    ".rs": "rust",
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
    "name": r"(?:[\w!]|-\d)[\w.,:+!-]*",
    "symbol": r"[^\W\d][\w.$]*",
    "map": r"(?!@)[^=\0]*=[^\0]*",
}
"""What a value of each kind looks like. None begins as an option does, or with the ``@`` of a file of options: drivers
hand the values of many options to clang's own front end as words of their own, and it opens such files, too."""

IN_NO_WORD = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""NUL and halves of characters; bytes that are no UTF-8 are `\\udc80` to `\\udcff`."""

_WITH_KIND = {
    **dict.fromkeys(("-D", "-U"), "macro"),
    **dict.fromkeys(("-I", "-iquote", "-isystem", "-idirafter", "-include", "-imacros"), "path"),
    "-std=": "standard",
    **dict.fromkeys((f"-f{of}-prefix-map=" for of in ("file", "macro", "debug", "coverage", "profile")), "map"),
    **dict.fromkeys(("-ftrapv-handler=", "-fconstant-string-class=", "-ftrap-function="), "symbol"),
    **dict.fromkeys((f"-f{name}=" for name in OPTIONS["named"]), "name"),
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
    r"-(?:ansi|nostdinc(?:\+\+)?|pedantic(?:-errors)?|pthread|trigraphs|undef|w|g[0-3]?|gdwarf-[345]|O(?:\w*)|W[\w+#=.-]*|[fm][\w+.-]+)"
)


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
            if (
                not _WITHOUT_VALUE.fullmatch(first)
                or first.startswith(OPTIONS["writes"])
                or first in WITH_VALUE
                or first in WITHOUT_CODE
            ):
                known = ", ".join((*SOURCE_OPTIONS, "-std=", "-O", "-W", "-f", "-m"))
                raise ConfigError(f"compiler option {first} is not allowed here; allowed are {known} and the like")
            return cls(first)
        value = arguments[1] if len(arguments) > 1 and first == name else first[len(name) :]
        if not value:
            raise ConfigError(f"compiler option {first} has no value")
        return cls(name, checked(kinds.get(name, "name"), value, f"compiler option {name}"))


def checked(kind: str, value: str, what: str) -> str:
    """A value from outside; ConfigError where it does not look like one of its kind, see `_KINDS`."""
    if re.fullmatch(_KINDS[kind], value) is None or IN_NO_WORD.search(value):
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


def by_part(command: Iterable[str]) -> Iterator[list[str]]:
    """As `by_option`; each part of ``-Wl,`` stands behind a word ``-Xlinker`` of its own."""
    for some in by_option(command):
        if some[0].startswith("-Wl,"):
            yield from (["-Xlinker", part] for part in some[0].split(",")[1:])
        else:
            yield some


def linker_takes_value(word: str) -> bool:
    """Whether the word behind an option of a linker is its value."""
    return word.startswith("-") and word.lstrip("-") in LINKER_WITH_VALUE


def check_options(arguments: Iterable[str]) -> list[str]:
    """Options, each as one word; ConfigError for those that could run or load other code, or write files."""
    return [Option.read(some).word for some in by_option(arguments)]


_LINKED_AGAIN = frozenset((*OPTIONS["linker_alone"], *OPTIONS["linker_values"]))
_JOINED = re.compile(r"-(?:l(?!to-)|[LORTIz]|m(?=elf|aarch64|arm)|[ueh](?=\w+$)).+|-[()]")
_DRIVER = re.compile(r"-fuse-ld=\w+|--?target=[\w.-]+|-(?:stdlib|rtlib|unwindlib)=[\w+-]+|--coverage|-pipe|-v|-x\w*")
_LEFT_OUT = re.compile(r"-o.*|-M[DMPGFTQJ]*|-fprofile-[\w-]+=.*")


def link_words(arguments: Sequence[str], *, through_compiler: bool) -> list[str]:
    """The words with which a link may be done again: those of known kinds, without what is written.

    Raises:
        ConfigError: a word could run or load other code, or write a file, or is unknown.
    """
    if responses := [word for word in arguments if word.startswith("@")]:
        raise ConfigError(f"{responses[0]} is read by the tool itself")
    if not through_compiler:
        return _to_linker(arguments)
    found: list[str] = []
    for group in by_option(arguments):
        word = group[0]
        if word.startswith("-Wl,"):
            if passed := _to_linker(word.split(",")[1:]):
                found.append(f"-Wl,{','.join(passed)}")
        elif word == "-Xlinker":
            found += [part for one in _to_linker(group[1:]) for part in (word, one)]
        elif word[:2] in ("-l", "-L", "-z", "-u", "-e", "-T") or word == "-rpath" or not word.startswith("-"):
            found += _to_linker(group)
        elif not _LEFT_OUT.fullmatch(word):
            found += group if word in LINK_WORDS or _DRIVER.fullmatch(word) else check_options(group)
    return found


def _to_linker(arguments: Iterable[str]) -> list[str]:
    found, rest = [], iter(arguments)
    for word in rest:
        name, equals, _ = word.lstrip("-").partition("=")
        if word.startswith("-") and (
            name in (*OPTIONS["linker_files"], *OPTIONS["linker_prints"]) or word.startswith("-o")
        ):
            if not equals and linker_takes_value(word):
                next(rest, None)
        elif word.startswith("@") or (word[:1] == "-" and name not in _LINKED_AGAIN and not _JOINED.fullmatch(word)):
            raise ConfigError(f"linker option {word} could run other code or write files, or is unknown")
        else:
            found.append(word)
    return found


_ARM_VERSIONS = words("7 8 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 8.9 9 9.1 9.2 9.3 9.4 9.5")
ZIG_WORDS = {
    "-march=native": "-mcpu=native",
    "-march=corei7-avx": "-mcpu=sandybridge",
    "-march=core-avx-i": "-mcpu=ivybridge",
    "-march=core-avx2": "-mcpu=haswell",
    **{f"-march=armv{one}-a": f"-mcpu=generic+v{one.replace('.', '_')}a" for one in _ARM_VERSIONS},
    "-march=": "-mcpu=",
    "-mcpu=cortex-": "-mcpu=cortex_",
    "-mcpu=neoverse-": "-mcpu=neoverse_",
    **dict.fromkeys(("-mtune=generic", "-mtune=native"), ""),
    "-mtune=": "-Xclang -tune-cpu -Xclang ",
    **dict.fromkeys(("-flto=auto", "-flto=jobserver"), "-flto"),
    **dict.fromkeys(("-fno-pic", "-fno-PIC"), "-Xclang -mrelocation-model -Xclang static -Xclang -pic-level -Xclang 0"),
}
"""Beginnings of clang's options that zig's driver reads in another way or refuses, and what stands in their place; the
first that fits counts. In a name of a machine behind ``-mcpu=`` zig has ``_`` for dashes."""


def for_zig(arguments: Iterable[str]) -> list[str]:
    """Options of a compile by clang for zig's driver; ``mlgo/deploy/driver/zig.h`` does the same."""
    taken: list[str] = []
    for word in without_passing_on(arguments):
        begins = next(filter(word.startswith, ZIG_WORDS), "")
        rest = word[len(begins) :].replace("-", "_") if begins == "-march=" else word[len(begins) :]
        taken += (ZIG_WORDS[begins] + rest).split() if begins else [word]
    return taken


def without_passing_on(arguments: Iterable[str]) -> Iterator[str]:
    """A compiler's words, those for its preprocessor (``-Wp,``) as words of its own."""
    for word in arguments:
        for part in word.split(",")[1:] if word.startswith("-Wp,") else (word,):
            yield part
            if word.startswith("-Wp,") and part in ("-MD", "-MMD"):  # whose file is the next part
                yield "-MF"
