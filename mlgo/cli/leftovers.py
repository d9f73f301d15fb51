"""What older settings have left in ``data/work``: it takes room, and no run will ask for it again."""

import argparse
import re
import time
from dataclasses import dataclass
from pathlib import Path

from mlgo.base.scratch import shared_folder
from mlgo.cli.program import add_options
from mlgo.corpus.store import bitcode_hashes
from mlgo.jit.cache import outdated_caches
from mlgo.pool.records import delete_key, record_files
from mlgo.pool.tree_store import outdated_folders

UNUSED_DAYS = 30
"""Response trees that were not read or written for longer are left over."""

_CHECKPOINT = re.compile(r"(?P<policy>.+)-[0-9a-f]{16}\.npz")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Leftovers:
    """Things of one kind."""

    what: str  # what they are and why no run will ask for them
    paths: tuple[Path, ...]  # files, or folders of response trees
    num_bytes: int  # their size together

    def __str__(self) -> str:
        return f"{len(self.paths)} {self.what} ({self.num_bytes / 1e6:.1f} MB)"


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--data`` and ``--work``."""
    add_options(parser, "--data")
    parser.add_argument(
        "--work",
        type=Path,
        default=shared_folder(),
        help="folder with replay/, checkpoints/ and bitcode/ (default: %(default)s)",
    )


def find_leftovers(work: Path, data: Path, settings: Path) -> list[Leftovers]:
    """List what older settings have left, kinds without any left out.

    Bitcode and downloads are looked at only where the work belongs to one working copy: others may need them.

    Args:
        work: folder with checkpoints/, replay/, bitcode/ and sdists/; several working copies may share it.
        data: folder of this working copy's results.
        settings: folder of the configuration, whose files pin what is downloaded.
    """
    found = {
        "checkpoints beside a newer one of the same policy": _older_checkpoints(work / "checkpoints"),
        "folders of response trees that this version cannot read": _outdated(work / "replay"),
        f"folders of response trees unused for {UNUSED_DAYS} days": _unused_trees(work / "replay"),
    }
    if data.is_dir() and work.resolve() == (data / "work").resolve():
        found["bitcode files of no module in the corpus"] = _unknown_bitcode(work, data)
        found["downloads that no file of the configuration pins"] = _unpinned_downloads(work / "sdists", settings)
    return [Leftovers(what, tuple(paths), sum(map(_size, paths))) for what, paths in found.items() if paths]


def delete_leftovers(leftovers: Leftovers) -> None:
    """Delete them. No run that uses the same folder should be in progress."""
    for path in leftovers.paths:
        if path.is_dir():
            delete_key(path)
        else:
            path.unlink(missing_ok=True)


def _older_checkpoints(folder: Path) -> list[Path]:
    by_policy: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.npz"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        if match := _CHECKPOINT.fullmatch(path.name):
            by_policy.setdefault(match["policy"], []).append(path)
    return sorted(path for paths in by_policy.values() for path in paths[:-1])


def _outdated(root: Path) -> list[Path]:
    return sorted([*outdated_folders(root), *outdated_caches(root)])


def _unused_trees(root: Path) -> list[Path]:
    latest = {path.parent: path.stat().st_mtime for path in record_files(root)}  # the last of each is the newest
    for folder in _outdated(root):
        latest.pop(folder, None)
    return sorted(folder for folder, used in latest.items() if used < time.time() - UNUSED_DAYS * 86_400)


def _unknown_bitcode(work: Path, data: Path) -> list[Path]:
    manifests = [
        path for child in data.iterdir() if child.is_dir() and child != work for path in child.rglob("modules.parquet")
    ]
    if not manifests:  # no corpus has been built, or `make clean` has removed it: nothing is known
        return []
    known = set().union(*(bitcode_hashes(path.parent) for path in manifests))
    found = (path for path in sorted(work.rglob("bitcode/*.bc")) if _SHA256.fullmatch(path.stem))
    return [path for path in found if path.stem not in known]


def _unpinned_downloads(folder: Path, settings: Path) -> list[Path]:
    files = list(settings.rglob("*.yaml"))
    if not files:
        return []
    pinned = {sha256 for path in files for sha256 in _SHA256.findall(path.read_text())}
    named = ((path, _SHA256.match(path.name)) for path in sorted(folder.glob("*-*")))
    return [path for path, sha256 in named if sha256 and sha256[0] not in pinned]


def _size(path: Path) -> int:
    return sum(map(_size, path.iterdir())) if path.is_dir() else path.stat().st_size
