"""From the folder of a SavedModel to a policy, without TensorFlow in this process."""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import provenance
from mlgo.base.files import content_hash, file_sha256
from mlgo.base.scratch import scratch_directory
from mlgo.deploy.convert_model import Converted, read_converted
from mlgo.errors import ArtifactError, ConfigError, PolicyError
from mlgo.host.process import run_bounded
from mlgo.policy.imported import ImportedPolicy, import_interpreter

TIMEOUT_S = 600.0
"""Of TensorFlow; it takes about 5 s."""

_MAX_DIFFERING = 0.01
"""Share of drawn questions. Sums are rounded otherwise in TensorFlow Lite, so a close call may go the other way."""
_SLACK = 1e-4
"""By which answers that are continuous may differ, as a share."""


@dataclass(frozen=True)
class ConversionCheck:
    """A graph compared with the model that it was made of."""

    questions: int  # drawn ones, asked of both
    differing: int  # of them, those with different answers
    distinct: int  # different answers of the model


def check_importable(saved_model: Path) -> None:
    """Refuse what cannot be imported at all, before anything long begins."""
    if not (saved_model / "saved_model.pb").is_file():
        raise ArtifactError(f"{saved_model} holds no saved_model.pb; give the folder of a SavedModel")
    if find_spec("tensorflow") is None:
        raise ConfigError("TensorFlow reads the model and is not installed; run pip install 'tensorflow>=2.21,<2.22'")
    import_interpreter()


def convert_apart(saved_model: Path, task: str) -> Converted:
    """Run `convert` in a process of its own."""
    with scratch_directory() as folder:
        command = [sys.executable, "-P", "-m", "mlgo.deploy.convert_model", str(saved_model), task, str(folder)]
        run = run_bounded(command, TIMEOUT_S)
        if run.returncode is None:
            raise ArtifactError(f"TensorFlow did not convert {saved_model} within {TIMEOUT_S:g} s")
        if run.returncode != 0:
            last = run.stderr.strip().splitlines()[-1:]
            raise ArtifactError(f"TensorFlow ended with status {run.returncode} over {saved_model}: {''.join(last)}")
        return read_converted(folder)


def policy_of(converted: Converted, saved_model: Path) -> ImportedPolicy:
    """The policy that a converted model makes."""
    files = sorted(path for path in saved_model.rglob("*") if path.is_file())
    hashes = [[str(path.relative_to(saved_model)), file_sha256(path)] for path in files]
    origin = provenance(algorithm="import", model=saved_model.resolve().name, model_hash=content_hash(hashes))
    return ImportedPolicy(converted.task, converted.features, converted.graph, origin)


def compare_answers(policy: ImportedPolicy, converted: Converted) -> ConversionCheck:
    """Ask the graph what TensorFlow was asked."""
    found, wanted = policy.answers(converted.questions), converted.answers
    if policy.actions.yes_or_no:
        wanted = (wanted != 0).astype(wanted.dtype)
    if wanted.dtype.kind == "f":
        equal = np.isclose(found, wanted, rtol=_SLACK, atol=0.0, equal_nan=True)
    else:
        equal = found == wanted
    differing = int((~equal).sum())
    if differing > _MAX_DIFFERING * len(wanted):
        raise PolicyError(
            f"the converted model answers {differing} of {len(wanted)} questions otherwise than TensorFlow runs it; "
            "a model that draws its answers cannot be imported, one with Keras inside may have lost its weights when "
            "it was saved"
        )
    return ConversionCheck(len(wanted), differing, len(np.unique(wanted)))
