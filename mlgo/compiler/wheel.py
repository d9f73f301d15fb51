"""A compiler from a ziglang wheel that is not installed."""

import os
import shutil
import zipfile
from pathlib import Path

from mlgo.core.errors import ToolchainError


def unpack_compiler(wheel: Path, binary: Path) -> None:
    """Unpack a wheel so that its multi-tool is ``binary``, with its library beside it; all of it or nothing.

    Args:
        wheel: file of the package index, already verified.
        binary: ends in ``ziglang/zig``, as in the wheel; the folder above these two is replaced.

    Raises:
        ToolchainError: not a wheel of ziglang, or it cannot be stored.
    """
    folder = binary.parents[1]
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(wheel) as zipped:
            zipped.extractall(partial)
        (partial / "ziglang" / "zig").chmod(0o755)  # a zip archive's modes are not restored
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    except (zipfile.BadZipFile, FileNotFoundError) as error:
        raise ToolchainError(f"{wheel.name} is not a wheel of ziglang ({error}); check what pins it") from error
    except OSError as error:
        raise ToolchainError(f"cannot unpack {wheel.name} to {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
