"""A folder with SuperPMI and a JIT, and whether they can do what is asked of them here."""

import os
from collections.abc import Iterable
from pathlib import Path

from mlgo.errors import SuperPmiError
from mlgo.jit.superpmi.client import SuperPmiClient
from mlgo.jit.superpmi.metrics import MethodMetrics
from mlgo.jit.superpmi.outcome import ENDING, JIT_FAILED_TO_START
from mlgo.jit.superpmi.process import COLLECTION_SUFFIXES

_PROGRAMS = ("superpmi", "superpmi.exe")
_JITS = ("libclrjit.so", "libclrjit.dylib", "clrjit.dll")
_HOW_TO_BUILD = "build one with `./build.sh -subset clr -c Checked` in dotnet/runtime"
_NUM_TRIED = 64


def find_core_root(folder: Path) -> tuple[Path, Path]:
    """Find SuperPMI and the JIT.

    Args:
        folder: made by ``src/tests/build.sh`` of dotnet/runtime.

    Returns:
        The replay tool, and the JIT it shall load.

    Raises:
        SuperPmiError: the folder, or one of the two, is missing.
    """
    if not folder.is_dir():
        raise SuperPmiError(f"{folder} is no folder; give a core_root of dotnet/runtime")
    superpmi = next((folder / name for name in _PROGRAMS if os.access(folder / name, os.X_OK)), None)
    if superpmi is None or not superpmi.is_file():
        raise SuperPmiError(f"{folder} has no program superpmi; {_HOW_TO_BUILD}")
    jit = next((folder / name for name in _JITS if (folder / name).is_file()), None)
    if jit is None:
        raise SuperPmiError(f"{folder} has no JIT ({', '.join(_JITS)}); {_HOW_TO_BUILD}")
    return superpmi, jit


def find_collection(path: Path) -> Path:
    """Check that a path can be a collection of recorded methods.

    Raises:
        SuperPmiError: it is missing, empty, or has a suffix that SuperPMI does not take.
    """
    if not path.is_file():
        raise SuperPmiError(f"no collection {path}; `superpmi.py download` in dotnet/runtime fetches some")
    if path.suffix not in COLLECTION_SUFFIXES:
        raise SuperPmiError(f"{path} is no collection: its suffix must be one of {', '.join(COLLECTION_SUFFIXES)}")
    if path.stat().st_size == 0:
        raise SuperPmiError(f"collection {path} is empty; fetch it again")
    return path


def check_jit(client: SuperPmiClient, indices: Iterable[int] = range(1, _NUM_TRIED + 1)) -> tuple[str, ...]:
    """Check that the JIT takes decisions and tells features, by methods until one has a candidate.

    Args:
        client: what to check.
        indices: which methods to try; the first must be in the collection.

    Returns:
        Names of the features that this JIT tells, in order.

    Raises:
        SuperPmiError: the JIT cannot be loaded or is of another interface version, is a Release build, ignores
            decisions, the collection cannot be read, or no method tried has a candidate.
    """
    jit, collection = client.superpmi.jit, client.superpmi.collection
    kinds: set[str] = set()
    for index in indices:
        outcome = client.compile(index, (), feature_names=True)
        if isinstance(outcome, MethodMetrics):
            if outcome.candidates and not outcome.feature_names:
                raise SuperPmiError(f"{jit} tells features without their names; take a newer Checked build")
            if outcome.candidates:
                return outcome.feature_names
            kinds.add("ok")
            continue
        if outcome.returncode == JIT_FAILED_TO_START:
            raise SuperPmiError(
                f"{jit} does not start under SuperPMI: it cannot be loaded, or its JIT-EE interface version is "
                f"not that of {collection}; take a collection and a JIT of one version{_reason(outcome.stderr)}"
            )
        if outcome.kind == "unknown_method" and kinds:
            break  # the collection has no more
        if outcome.kind == "unknown_method":
            raise SuperPmiError(
                f"collection {collection} cannot be read: it is cut short or no collection; fetch it again"
                f"{_reason(outcome.stderr)}"
            )
        if outcome.kind in ENDING and not kinds:
            raise SuperPmiError(f"SuperPMI with {jit} and {collection}: {outcome.message}")
        kinds.add(outcome.kind)
    if "no_metrics" in kinds and "ok" not in kinds:
        raise SuperPmiError(f"{jit} prints no metrics: it is a Release build; {_HOW_TO_BUILD}")
    raise SuperPmiError(f"no method tried of {collection} has a candidate; name others")


def _reason(stderr: str) -> str:
    lines = stderr.split("\n")
    return f" ({lines[0]})" if lines[0] else ""
