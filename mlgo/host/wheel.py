"""A compiler from a ziglang wheel that is not installed."""

import zipfile
from pathlib import Path

from mlgo.base.files import write_folder
from mlgo.errors import ToolchainError


def unpack_compiler(wheel: Path, binary: Path) -> None:
    """Unpack a wheel so that its multi-tool is ``binary``, with its library beside it; all of it or nothing.

    Args:
        wheel: file of the package index, already verified.
        binary: ends in ``ziglang/zig``, as in the wheel; the folder above these two is replaced.

    Raises:
        ToolchainError: not a wheel of ziglang.
        ArtifactError: it cannot be stored.
    """

    def extract(folder: Path) -> None:
        try:
            with zipfile.ZipFile(wheel) as zipped:
                zipped.extractall(folder)
            (folder / "ziglang" / "zig").chmod(0o755)  # a zip archive's modes are not restored
        except (zipfile.BadZipFile, FileNotFoundError) as error:
            raise ToolchainError(f"{wheel.name} is not a wheel of ziglang ({error}); check what pins it") from error

    write_folder(binary.parents[1], extract)
