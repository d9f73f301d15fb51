"""Which options of a compiler's front end are taken from recipes and tables, which may come from others.

A compiler can be told to load a plug-in, to run another program in place of its parts, or to read further options from
a file. So only options of known kinds pass: what is defined and included, the language, warnings, the machine, and
code generation. They have the same names in GCC and in clang.
"""

import re
from collections.abc import Iterable, Iterator

from mlgo.errors import ConfigError

_WITH_VALUE = ("-D", "-U", "-I", "-iquote", "-isystem", "-idirafter", "-include", "-imacros")
"""Their value stands in the same word, or in the next."""

_WORDS = (
    *("-ansi", "-g", "-nostdinc", "-nostdinc++", "-pedantic", "-pedantic-errors", "-pthread", "-trigraphs", "-undef"),
    "-w",
)
_KINDS = re.compile(r"-(?:std=|[OW]|g[0-3]$|f|m)")

_LOADING = (
    *("@", "-B", "--prefix", "-specs", "--specs", "-wrapper", "-iplugindir", "-fplugin", "-fpass-plugin", "-load"),
    *("-Xclang", "-Xpreprocessor", "-Xassembler", "-Xlinker", "-Xarch", "-Wp,", "-Wa,", "-Wl,", "-mllvm", "-cc1"),
    *("--config", "-fmodule", "-fuse-ld", "-foffload", "-ccc-"),
)
"""Beginnings of what loads or runs other code, or passes anything on to a part of the compiler that can."""

_WRITING = ("-fdump", "-fdbg-cnt", "-fopt-info", "-fsave-optimization", "-foptimization-record", "-ftime-trace")
_MAPS = ("-ffile-prefix-map=", "-fmacro-prefix-map=", "-fdebug-prefix-map=")


def check_options(arguments: Iterable[str]) -> None:
    """Refuse options that could make a compiler run or load other code, or write files.

    Args:
        arguments: of the front end, in order.

    Raises:
        ConfigError: names the first that is not allowed.
    """
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith(_LOADING):
            raise ConfigError(f"compiler option {argument} can make the compiler run or load other code; leave it out")
        if argument in _WITH_VALUE:
            _check_value(argument, rest)
        elif not _is_known(argument):
            kinds = ", ".join((*_WITH_VALUE, "-std=", "-O", "-W", "-f", "-m"))
            raise ConfigError(f"compiler option {argument} is not allowed here; allowed are {kinds} and the like")


def _check_value(option: str, rest: Iterator[str]) -> None:
    value = next(rest, None)
    if value is None:
        raise ConfigError(f"compiler option {option} has no value")
    if value.startswith(("-", "@")):  # a compiler may take it for an option, and reads @FILE wherever it stands
        raise ConfigError(f"compiler option {option}: {value} is no value; a path may begin with ./")


def _is_known(argument: str) -> bool:
    if argument.startswith(_WITH_VALUE) or argument in _WORDS:
        return True
    if argument.startswith(_WRITING) or not _KINDS.match(argument):
        return False
    # The value of no other option of code generation is a path, unless something is read, written or run there.
    return not (argument.startswith("-f") and "/" in argument and not argument.startswith(_MAPS))
