"""Fetch a compiler: a wheel of ziglang, unpacked.

Example:
    python scripts/fetch_compiler.py --compiler llvm19 --downloads data/work/sdists \
        --output data/work/compilers/llvm19/ziglang/zig
"""

import platform
from pathlib import Path

from mlgo.base.config import CompilerWheel
from mlgo.base.packages import Package, fetch_package
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.errors import ToolchainError
from mlgo.host.toolchain import unpack_compiler


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


if __name__ == "__main__":
    run_program(main)
