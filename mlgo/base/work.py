"""Where work that several working copies may share lies: response trees, downloads, bitcode, caches, checkpoints.

All of it is named by content and safe for processes that write at the same time. Logs, times and TensorBoard's files
are named by policy; they stay with their working copy.
"""

import os
from pathlib import Path

SHARED = "MLGO_SHARED"
"""Environment variable that names the folder."""

_EXPERIMENTS = (".dvc", "tmp", "exps")
_WORK = Path("data", "work")


def shared_folder(work: Path = _WORK) -> Path:
    """Folder of what working copies share.

    That is the one `SHARED` names; in a copy that DVC has made for an experiment, and deletes after it, ``data/work``
    of the working copy that it was made from; else ``work``.

    Args:
        work: the working copy's own folder for what is neither in Git nor in DVC.
    """
    named = os.environ.get(SHARED)
    if named:
        return Path(named)
    origin = experiment_origin(Path.cwd())
    return work if origin is None else origin / _WORK


def experiment_origin(folder: Path) -> Path | None:
    """The working copy that DVC made an experiment's copy from; None for a folder that is no such copy."""
    parts = folder.resolve().parts
    for end in range(len(parts) - 1, len(_EXPERIMENTS), -1):  # the innermost
        if parts[end - len(_EXPERIMENTS) : end] == _EXPERIMENTS:
            return Path(*parts[: end - len(_EXPERIMENTS)])
    return None
