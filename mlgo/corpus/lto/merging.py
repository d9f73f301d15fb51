"""A program's modules as one module, merged as a linker does for link-time optimization.

The linker knows what nobody outside of a program uses, makes it internal, and drops copies that do not count. lld
writes that module down before it is optimized (``--save-temps=internalize``, ``llvm/lib/LTO/LTOBackend.cpp``). Compiled
by the ordinary pipeline, it is the program.

A part of a program is merged in the same way: in that link only the part is bitcode, and objects stand for the rest. So
the linker sees what the rest needs of the part.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompilerExit, CompileTimeout, LinkError
from mlgo.host.linked import NOTHING_LEFT, LinkedFile, link_inputs, link_options
from mlgo.host.linker import link_to
from mlgo.host.process import run_bounded, without_folders
from mlgo.host.toolchain import Toolchain

MERGING = ("--lto-O0", "--lto-emit-llvm", "--save-temps=internalize")
"""Options of a link that writes down the merged module and generates no code."""
_LEVELS = (("-O0", "-Xclang", "-disable-llvm-passes"), ("-O0",))
"""Without any pass an object has exactly the symbols of its bitcode. Coroutines need some."""


def merge(linker: Path, file: LinkedFile, paths: Mapping[str, Path], output: Path, timeout_s: float) -> frozenset[str]:
    """Merge what is bitcode among the modules of a linked file, before any optimization.

    Args:
        linker: what `toolchain.find_linker` gives.
        file: what to link.
        paths: bitcode, or an object that stands for it, by name of the module.
        output: file for the module.
        timeout_s: deadline.

    Returns:
        Names of the modules that the link takes: all but members of archives that nothing needs.

    Raises:
        LinkError: the linker refuses, or nothing is left of the bitcode.
        CompileTimeout: it took too long.
    """
    with scratch_directory() as folder:
        arguments = ["--gc-sections", *MERGING, "--trace", *link_options(file, folder), *link_inputs(file, paths)]
        link_to(folder / "linked", linker, arguments, timeout_s, said=folder / "trace")
        taken = set((folder / "trace").read_text(errors="surrogateescape").splitlines())
        take_merged(folder / "linked", output)
    return frozenset(name for name in file.modules if str(paths[name]) in taken)


def take_merged(linked: Path, output: Path) -> None:
    """Move the module that a link with `MERGING` has written beside its output.

    Raises:
        LinkError: it has written none.
    """
    try:
        linked.with_name(f"{linked.name}.0.2.internalize.bc").replace(output)
    except FileNotFoundError:
        raise LinkError(NOTHING_LEFT) from None


def stand_in(toolchain: Toolchain, module: Path, output: Path, settings: CompileConfig) -> None:
    """Compile bitcode, without optimizing it, to an object with the same symbols.

    Raises:
        CompileError: it does not compile.
    """
    for level in _LEVELS:
        command = [*toolchain.back_end, *level, "-x", "ir", str(module), "-c", "-o", str(output)]
        run = run_bounded(command, settings.compile_timeout_s, max_memory_bytes=int(settings.max_memory_gb * 1e9))
        if run.returncode is None:
            raise CompileTimeout(f"no end within {settings.compile_timeout_s:g} s")
        if run.returncode == 0:
            return
    raise CompilerExit(without_folders(f"the compiler ended with status {run.returncode}: {run.stderr[-300:]}"))


def full_lto_asks(linker: Path, modules: Sequence[Path], folder: Path, timeout_s: float) -> bool:
    """Whether the linker asks over the interactive channel while it optimizes a whole program.

    It is told of a channel that is not there. Only an advisor that wants to ask finds out.

    Args:
        linker: what `toolchain.find_linker` gives.
        modules: bitcode before optimization.
        folder: for the linked file.
        timeout_s: deadline.

    Raises:
        LinkError: without any channel it does not link either.
        CompileTimeout: it took too long.
    """
    arguments = ["-shared", *map(str, modules)]
    link_to(folder / "linked", linker, arguments, timeout_s)
    channel = ("-mllvm", "-enable-ml-inliner=release", "-mllvm", f"-inliner-interactive-channel-base={folder}/none")
    try:
        link_to(folder / "linked", linker, [*channel, *arguments], timeout_s)
    except LinkError:
        return True
    return False
