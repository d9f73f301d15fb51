"""Objects linked to a program that runs, whichever clang made them.

The program is static and its C library is musl, which ``zig cc`` builds from the sources in the ziglang wheel for any
x86-64, and does so once per cache folder. So the same objects give the same file on every machine. A program that is
linked with the machine's own C library would run another ``printf`` on each, and glibc's ``memcpy`` is chosen by the
processor when the program starts: what a run executes could then not be compared between machines. Objects for
``x86_64-linux-gnu`` follow the same binary interface and link as they are, as long as their sources declare what they
use of the C library instead of including the headers of another one.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from mlgo.base.files import write_atomically
from mlgo.base.scratch import scratch_directory
from mlgo.errors import LinkError, ObjectError
from mlgo.host.linker import run_linker
from mlgo.host.toolchain import zig_environment
from mlgo.objects.elf import global_symbols

# -O2 is for the C library and the compiler's own routines, which are otherwise built to be debugged; it does not touch
# the objects. -s because symbols of the library would be most of the file.
_OPTIONS = ("-static", "-O2", "-s")
_OF_CXX = (b"_Z", b"__cxa_", b"__gxx_")

FIRST_LINK_S = 600.0
"""Deadline of a link with an empty cache, in seconds: it builds the C library, perhaps that of C++, too."""


def link_program(
    linker: Path, objects: Sequence[Path], output: Path, cache_dir: Path, timeout_s: float, target: str
) -> None:
    """Link objects, one of which defines ``main``, with the C library, and with libc++ if they need that of C++.

    Args:
        linker: what `toolchain.find_linker` gives.
        objects: object files, in the order of linking.
        output: the program; replaced atomically.
        cache_dir: folder for zig's caches. The first link with an empty one builds the C library, which takes about
            half a minute; later ones take less than a tenth of a second.
        timeout_s: deadline of the link.
        target: triple of the objects, such as ``x86_64-linux-gnu``; the program is for its first part.

    Raises:
        LinkError: the linker refuses, for example because a symbol is missing.
        CompileTimeout: it took too long.
        ArtifactError: the program cannot be written.
    """
    triple = f"{target.split('-')[0]}-linux-musl"
    with scratch_directory() as directory:
        program = directory / "program"
        files = [str(path.absolute()) for path in objects]
        defined, needed = (frozenset[bytes]().union(*names) for names in zip(*_symbols(objects), strict=True))
        driver = "c++" if any(name.startswith(_OF_CXX) for name in needed - defined) else "cc"
        command = [str(linker), driver, "-target", triple, *_OPTIONS, *files, "-o", str(program)]
        run_linker(command, timeout_s, cwd=directory, env=zig_environment(cache_dir))
        write_atomically(output, lambda temporary: shutil.copy(program, temporary))


def _symbols(objects: Sequence[Path]) -> list[tuple[frozenset[bytes], frozenset[bytes]]]:
    try:
        return [global_symbols(path.read_bytes()) for path in objects]
    except ObjectError as error:
        raise LinkError(f"an object cannot be linked: {error}") from error
