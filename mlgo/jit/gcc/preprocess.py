"""Sources to preprocessed text: all that a compile needs, in one file, the same on any machine with the same headers.

``-P`` leaves the line markers out, and with them the paths of headers. On the 57 sources of data/sample and
data/programs the object of the text is that of the source, section by section; only the symbol that names the source
file differs. With markers even that would agree, but they name folders of the machine (``/usr/include/stdc-predef.h``).

``__FILE__`` and ``__LINE__`` are expanded here and so keep their values: the compiler runs in the root of the sources
and gets relative paths. Without markers three things change: ``__builtin_LINE()`` and ``std::source_location`` count
lines of the text, ``-g`` would describe them, and warnings about headers of the system are not silenced. ``__DATE__``
is 1970 in every text.
"""

from collections.abc import Sequence
from pathlib import Path

from mlgo.base.scratch import scratch_directory
from mlgo.errors import ObjectError
from mlgo.host.command_line import check_options
from mlgo.jit.gcc.find import Gcc
from mlgo.jit.gcc.invoke import run_gcc

TIMEOUT_S = 60.0


def preprocess(
    gcc: Gcc, root: Path, language: str, arguments: Sequence[str], source: str, *, timeout_s: float = TIMEOUT_S
) -> bytes:
    """Preprocess a source for `compile.compile_unit`.

    Args:
        gcc: what `find.find_gcc` gives.
        root: folder of the sources, where the compiler runs.
        language: ``c`` or ``c++``.
        arguments: options of the front end (``-std``, ``-I``, ``-D``); the compile needs them again.
        source: path relative to ``root``.
        timeout_s: deadline.

    Raises:
        CompileError: a header is missing, or it took too long.
        ConfigError: an option that could run or load other code, see `check_options`.
        ToolchainError: C++, and there is no g++.
    """
    check_options(arguments)
    with scratch_directory() as directory:
        output = directory / "unit.i"
        # Headers ask whether the compiler optimizes (__OPTIMIZE__), so the level must not be 0.
        options = ("-O2", "-E", "-P", "-w", f"-ffile-prefix-map={root.absolute()}=.", "-x", language)
        run_gcc(
            [str(gcc.driver(language)), *arguments, *options, source, "-o", str(output)],
            directory,
            timeout_s,
            cwd=root,
        )
        try:
            return output.read_bytes()
        except FileNotFoundError:
            raise ObjectError(f"the compiler ended well but wrote no preprocessed text of {source}") from None
