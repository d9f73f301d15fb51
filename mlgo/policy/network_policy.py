"""A trained policy: network, normalisation and provenance; as an advisor and on disk."""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.errors import ArtifactError, PolicyError
from mlgo.files import read_json, write_bytes, write_json
from mlgo.policy.advisors import answer_dtype
from mlgo.policy.features import Normalisation, feature_columns
from mlgo.policy.network import Architecture, logits
from mlgo.tasks import Decide, Responder
from mlgo.wire.log import Header

_FORMAT = 1
_ROUNDING = 1e-4  # of the sum of all terms; float32 sums of some hundred terms are good to 1e-5


@dataclass(frozen=True)
class NetworkPolicy:
    """Inlines where the network's output is above 0.

    Attributes:
        task: decision problem it was trained for.
        normalisation: from raw features to the network's inputs.
        architecture: layer widths.
        weights: float32 [num_params].
        origin: provenance.
    """

    task: str
    normalisation: Normalisation
    architecture: Architecture
    weights: np.ndarray
    origin: dict[str, Any] = field(default_factory=dict)

    def with_weights(self, weights: np.ndarray) -> "NetworkPolicy":
        """The same policy with other weights, ``float32 [num_params]``."""
        return replace(self, weights=weights.astype(np.float32))

    def decide(self, observations: np.ndarray) -> np.ndarray:
        """Map ``int64 [num_steps, num_features]``, columns in the policy's order, to logits ``float32 [num_steps]``."""
        return logits(self.architecture.unflatten(self.weights), self.normalisation(observations))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`.

        A product of matrices may round otherwise than one of a vector and a matrix, so logits close to zero are
        computed again one by one.
        """
        columns = self._columns(header)
        layers, normalise = self.architecture.unflatten(self.weights), self.normalisation
        magnitudes = [(np.abs(matrix), np.abs(bias)) for matrix, bias in layers]

        def decide(payloads: np.ndarray) -> np.ndarray:
            rows = normalise(np.ascontiguousarray(payloads).view(np.int64)[:, columns])
            values = logits(layers, rows)
            for i in np.flatnonzero(np.abs(values) < _ROUNDING * logits(magnitudes, np.abs(rows))):
                values[i] = logits(layers, rows[i])
            return (values > 0.0).astype(np.int64)

        return decide

    def _columns(self, header: Header) -> np.ndarray:
        offered = [spec.name for spec in header.features]
        columns = feature_columns(self.normalisation.features, offered, "the compiler")
        if odd := header.not_one_int64:  # no compile of this task can succeed, so it is no failure of a single one
            raise PolicyError(f"the compiler offers features that are not one int64: {', '.join(odd[:5])}")
        return columns

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name.

        Raises:
            PolicyError: a feature is missing, or one is not a single int64.
        """
        advice = answer_dtype(header)
        yes, no = advice.type(1).tobytes(), advice.type(0).tobytes()
        logit = self.logit_of(header)
        return lambda payload: yes if logit(payload) > 0.0 else no

    def logit_of(self, header: Header) -> Callable[[bytes], float]:
        """Bind to the compiler's features: maps one observation's raw tensors to the logit; raises as `respond_to`."""
        columns = self._columns(header)
        layers, normalise = self.architecture.unflatten(self.weights), self.normalisation
        frombuffer, int64 = np.frombuffer, np.int64
        return lambda payload: logits(layers, normalise(frombuffer(payload, int64)[columns]))  # type: ignore[return-value]


def save_policy(policy: NetworkPolicy, folder: Path) -> None:
    """Write ``policy.json`` and ``weights.npy``; the same policy gives the same bytes."""
    buffer = io.BytesIO()
    np.save(buffer, policy.weights)
    write_bytes(folder / "weights.npy", buffer.getvalue())
    scaling = policy.normalisation
    write_json(
        folder / "policy.json",
        {
            "format": _FORMAT,
            "task": policy.task,
            "widths": list(policy.architecture.widths),
            "features": list(scaling.features),
            "centre": [float(value) for value in scaling.centre],
            "scale": [float(value) for value in scaling.scale],
            "provenance": policy.origin,
        },
    )


def load_policy(folder: Path) -> NetworkPolicy:
    """Read a policy.

    Raises:
        ArtifactError: files are missing or damaged.
        PolicyError: the files contradict each other, or a weight is not a finite number.
    """
    record = read_json(folder / "policy.json")
    try:
        if record["format"] != _FORMAT:
            raise PolicyError(f"{folder} has policy format {record['format']}, this version reads {_FORMAT}")
        weights = np.load(folder / "weights.npy", allow_pickle=False)
        policy = NetworkPolicy(
            record["task"],
            Normalisation(
                tuple(record["features"]),
                np.array(record["centre"], np.float32),
                np.array(record["scale"], np.float32),
            ),
            Architecture(tuple(record["widths"])),
            weights,
            record["provenance"],
        )
        if not isinstance(weights, np.ndarray) or weights.dtype != np.float32:
            raise ValueError("weights.npy is not a float32 array")
        if not all(type(width) is int and width > 0 for width in record["widths"]):
            raise ValueError(f"unusable widths {record['widths']}")
        if not isinstance(record["features"], list):
            raise ValueError("features is not a list")
    except (KeyError, TypeError, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ArtifactError(f"{folder} does not hold a readable policy ({error})") from error
    scaling, widths = policy.normalisation, policy.architecture.widths
    if len(widths) < 2 or widths[-1] != 1:
        raise PolicyError(f"{folder}: layers {widths} do not end in one output")
    policy.architecture.unflatten(weights)
    if not np.isfinite(weights).all():
        raise PolicyError(f"{folder}: {int((~np.isfinite(weights)).sum())} weights are not numbers; train it again")
    if policy.architecture.widths[0] != len(policy.normalisation.features):
        raise PolicyError(f"{folder}: {policy.architecture.widths[0]} inputs for {len(record['features'])} features")
    fits = len(scaling.features) == scaling.centre.size == scaling.scale.size and np.all(scaling.scale > 0)
    if not fits or not np.isfinite([*scaling.centre, *scaling.scale]).all():
        raise PolicyError(f"{folder}: centre and scale do not fit {len(scaling.features)} features")
    return policy
