"""Command lines of C and C++ compilers and of linkers: options with values, and options that may come from others.

Options whose value may be the next word are those of the drivers of clang 22 (kinds ``Separate`` and
``JoinedOrSeparate`` of clang/include/clang/Driver/Options.td) and of GCC 15 (gcc/common.opt, gcc/c-family/c.opt), and
those of lld 22 (lld/ELF/Options.td) and GNU ld. The driver of ``mlgo cc`` is made with the same tables.

A compiler can be told to load a plug-in, to run another program in place of its parts, or to read further options from
a file. So only options of known kinds are taken from recipes and tables: macros, headers, the language, warnings, the
machine, and code generation. They have the same names in GCC and in clang.
"""

import re
from collections.abc import Iterable, Iterator

from mlgo.errors import ConfigError


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

_ALONE = words("-ansi -g -nostdinc -nostdinc++ -pedantic -pedantic-errors -pthread -trigraphs -undef -w")
_KINDS = re.compile(r"-(?:std=|[OW]|g[0-3]$|f|m)")

_LOADING = words(
    """
    @ -B --prefix -specs --specs -wrapper -iplugindir -fplugin -fpass-plugin -load -Xclang -Xpreprocessor -Xassembler
    -Xlinker -Xarch -Wp, -Wa, -Wl, -mllvm -cc1 --config -fmodule -fuse-ld -foffload -ccc-"""
)
"""Beginnings of what loads or runs other code, or passes anything on to a part of the compiler that can."""

_WRITING = ("-fdump", "-fdbg-cnt", "-fopt-info", "-fsave-optimization", "-foptimization-record", "-ftime-trace")
_MAPS = ("-ffile-prefix-map=", "-fmacro-prefix-map=", "-fdebug-prefix-map=")


def by_option(command: Iterable[str]) -> Iterator[list[str]]:
    """Group a compiler's words: an option with its value if that is the next word, every other word alone."""
    rest = iter(command)
    for word in rest:
        value = next(rest, None) if word in WITH_VALUE else None
        yield [word] if value is None else [word, value]


def linker_takes_value(word: str) -> bool:
    """Whether the word behind an option of a linker is its value."""
    return word in LINKER_LETTERS or (word.startswith("-") and word.lstrip("-") in LINKER_NAMES)


def check_options(arguments: Iterable[str]) -> None:
    """Refuse options that could make a compiler run or load other code, or write files."""
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith(_LOADING):
            raise ConfigError(f"compiler option {argument} can make the compiler run or load other code; leave it out")
        if argument in SOURCE_OPTIONS:
            value = next(rest, None)
            if value is None:
                raise ConfigError(f"compiler option {argument} has no value")
            if value.startswith(("-", "@")):  # a compiler may take it for an option, and reads @FILE wherever it stands
                raise ConfigError(f"compiler option {argument}: {value} is no value; a path may begin with ./")
        elif not _is_known(argument):
            kinds = ", ".join((*SOURCE_OPTIONS, "-std=", "-O", "-W", "-f", "-m"))
            raise ConfigError(f"compiler option {argument} is not allowed here; allowed are {kinds} and the like")


def _is_known(argument: str) -> bool:
    if argument.startswith(SOURCE_OPTIONS) or argument in _ALONE:
        return True
    if argument.startswith(_WRITING) or not _KINDS.match(argument):
        return False
    # The value of no other option of code generation is a path, unless something is read, written or run there.
    return not (argument.startswith("-f") and "/" in argument and not argument.startswith(_MAPS))
