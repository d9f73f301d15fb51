"""Fetch a compiler: a wheel of ziglang, unpacked.

Example:
    python scripts/fetch_compiler.py --compiler llvm19 --downloads data/work/sdists \
        --output data/work/compilers/llvm19/ziglang/zig
"""

import platform
import zipfile
from pathlib import Path

from mlgo.base.config import CompilerWheel
from mlgo.base.files import write_atomically
from mlgo.base.packages import Package, fetch_package
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.errors import ToolchainError


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--compiler", required=True, help="its name in generalisation.compilers")
    parser.add_argument("--downloads", type=Path, required=True, help="folder of downloads, shared by all runs")
    parser.add_argument("--output", type=Path, required=True, help="the multi-tool, ends in ziglang/zig")
    args = parser.parse_args()

    key, machine = f"generalisation.compilers.{args.compiler}", platform.machine()
    wheel = settings_of(args).section(key, CompilerWheel)
    if machine not in wheel.sha256:
        raise ToolchainError(
            f"no wheel of ziglang {wheel.version} is pinned for {machine}; add its sha256 to generalisation.compilers"
        )
    package = Package("ziglang", wheel.version, wheel.sha256[machine], "wheel")
    unpack_compiler(fetch_package(package, args.downloads), args.output)


def unpack_compiler(wheel: Path, binary: Path) -> None:
    """Unpack a wheel so that its multi-tool is ``binary``, with its library beside it; all of it or nothing.

    Args:
        wheel: file of the package index, already verified.
        binary: ends in ``ziglang/zig``, as in the wheel; the folder above these two is replaced.
    """

    def extract(folder: Path) -> None:
        try:
            with zipfile.ZipFile(wheel) as zipped:
                zipped.extractall(folder)
            (folder / "ziglang" / "zig").chmod(0o755)  # a zip archive's modes are not restored
        except (zipfile.BadZipFile, FileNotFoundError) as error:
            raise ToolchainError(f"{wheel.name} is not a wheel of ziglang ({error}); check what pins it") from error

    write_atomically(binary.parents[1], extract, is_folder=True)


if __name__ == "__main__":
    run_program(main)
