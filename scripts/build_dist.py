"""Build the source distribution and the wheel of this package, the same bytes each time.

Only files that Git knows get in. The wheel is built from the source distribution.

Example:
    python scripts/build_dist.py -o dist
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from setuptools import build_meta

from mlgo.base.files import write_bytes
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import run_program
from mlgo.deploy.release import FORMATS

EPOCH = "315532800"
"""Time of every file, in seconds: ZIP knows none before 1980."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), help="folder (default: %(default)s)")
    output = parser.parse_args().output.absolute()
    os.environ["SOURCE_DATE_EPOCH"] = EPOCH
    os.umask(0o022)  # modes of files are in the archives
    with scratch_directory() as folder:
        copy_tracked(Path.cwd(), folder / "tracked")
        sdist = in_folder(folder / "tracked", build_meta.build_sdist, folder / "sdist")
        files = read_files(sdist)
        write_bytes(output / sdist.name, FORMATS[".tar.gz"](files))
        for path, content in files.items():
            write_bytes(folder / "unpacked" / path, content)
        (top,) = (folder / "unpacked").iterdir()
        wheel = in_folder(top, build_meta.build_wheel, folder / "wheel")
        write_bytes(output / wheel.name, wheel.read_bytes())
    print(*(output / one.name for one in (sdist, wheel)), sep="\n")


def copy_tracked(root: Path, folder: Path) -> None:
    """Copy the files that Git knows, as they are now; links stay links."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, stdout=subprocess.PIPE, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, folder / name, follow_symlinks=False)


def in_folder(folder: Path, build: Callable[[str], str], output: Path) -> Path:
    """Run a hook of the build system (PEP 517), which works on the current folder and may print what it likes."""
    output.mkdir()
    with contextlib.chdir(folder), contextlib.redirect_stdout(sys.stderr):
        return output / build(str(output))


def read_files(sdist: Path) -> dict[str, bytes]:
    """Content of all files by path."""
    with tarfile.open(sdist) as archive:
        members = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        return {name: file.read() for name, file in sorted(members.items()) if file is not None}


if __name__ == "__main__":
    run_program(main)
