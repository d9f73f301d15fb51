"""A trained policy for questions whose answer is a priority, of which only the order counts."""

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign, log1p
from typing import TypeVar

import numpy as np

from mlgo.core.errors import PolicyError
from mlgo.policy.advisors import answer_dtype
from mlgo.policy.features import CLIP, check_features
from mlgo.policy.network import logits
from mlgo.policy.policy import Policy
from mlgo.tasks import Decide, Responder
from mlgo.tasks.regalloc_priority import MAX_PRIORITY, NUM_STAGES, STAGE, WEIGHT, WEIGHT_OF_UNSPILLABLE
from mlgo.wire.log import Header

_HALF = MAX_PRIORITY / np.float32(2.0)

Outputs = TypeVar("Outputs", np.ndarray, np.float32)


def priority_of(outputs: Outputs) -> Outputs:
    """Map a network's outputs to priorities: ``x / (1 + |x|)``, from [-1, 1] to [0, `MAX_PRIORITY`], order kept.

    LLVM drops what is behind the decimal point. So outputs between -3 and 3 are told apart if they differ by 2e-6, and
    at 20 if they differ by 6e-5, where a sigmoid would have them all equal.

    Args:
        outputs: float32 [...].

    Returns:
        float32 [...].
    """
    return _HALF + _HALF * (outputs / (np.float32(1.0) + np.abs(outputs)))


def output_of(priorities: np.ndarray) -> np.ndarray:
    """The output that `priority_of` maps to a priority between 0 and `MAX_PRIORITY`, both exclusive; float32 [...]."""
    shares = (priorities.astype(np.float64) - _HALF) / _HALF
    return (shares / (1.0 - np.abs(shares))).astype(np.float32)


def range_inputs(features: np.ndarray, raw: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Inputs of the network: for each stage 1 and the other features, all 0 in other stages; and is it unspillable?

    So even a linear network has a function of its own for each stage.

    Args:
        features: float32 [..., num_features], normalised.
        raw: float32 [..., num_features], as the compiler sends them.
        names: of the features; the stage must be among them.

    Returns:
        float32 [..., NUM_STAGES * num_features + 1].
    """
    position = names.index(STAGE)
    own = features.copy()
    own[..., position] = 1.0
    stages = np.clip(raw[..., position].astype(np.int64), 0, NUM_STAGES - 1)
    of_stages = own[..., None, :] * (stages[..., None, None] == np.arange(NUM_STAGES)[:, None])
    inputs = np.zeros((*features.shape[:-1], PriorityPolicy.num_inputs(len(names))), np.float32)
    inputs[..., :-1] = of_stages.reshape(inputs[..., :-1].shape)
    if WEIGHT in names:
        inputs[..., -1] = raw[..., names.index(WEIGHT)] >= WEIGHT_OF_UNSPILLABLE
    return inputs


def record_of(features: tuple[str, ...], header: Header) -> np.dtype:
    """Layout of an observation: the features by name, where they lie among the compiler's.

    Raises:
        PolicyError: the compiler does not offer a feature, or more than a number for it.
    """
    check_features(features, [spec.name for spec in header.features], "the compiler")
    specs = [header.features[header.index(name)] for name in features]
    if odd := [spec.name for spec in specs if spec.num_elements != 1]:
        raise PolicyError(f"the compiler offers features that are not one number: {', '.join(odd[:5])}")
    return np.dtype(
        {
            "names": list(features),
            "formats": [spec.dtype for spec in specs],
            "offsets": [header.offset(name) for name in features],
            "itemsize": header.payload_bytes,
        }
    )


@dataclass(frozen=True)
class PriorityPolicy(Policy):
    """Answers `priority_of` what the network gives for `range_inputs`."""

    @staticmethod
    def learnt(answers: np.ndarray) -> np.ndarray:
        """The outputs that stand behind priorities, float32 [num_steps]; those at the ends as if just inside."""
        inside = np.clip(answers, np.float32(1.0), MAX_PRIORITY - np.float32(1.0))
        return output_of(inside)

    @staticmethod
    def num_inputs(num_features: int) -> int:
        """See `range_inputs`."""
        return NUM_STAGES * num_features + 1

    def inputs_for(self, header: Header) -> Callable[[np.ndarray], np.ndarray]:
        """Inputs of the network, float32 [num_steps, num_inputs]; see `Policy.inputs_for`."""
        scaling, record = self.normalisation, record_of(self.normalisation.features, header)

        def inputs(payloads: np.ndarray) -> np.ndarray:
            rows = np.ascontiguousarray(payloads).view(record)[:, 0]
            columns = [rows[name].astype(np.float32) for name in scaling.features]
            values = np.stack(columns, axis=1)
            return range_inputs(scaling(values), values, scaling.features)

        return inputs

    def outputs(self, values: np.ndarray) -> np.ndarray:
        """Outputs of the network, float32 [...], for numbers float32 [..., num_features] as the compiler sends them."""
        scaling = self.normalisation
        inputs = range_inputs(scaling(values), values, scaling.features)
        return logits(self.architecture.unflatten(self.weights), inputs)

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name.

        Raises:
            PolicyError: a feature is missing or more than a number, or the answer is no floating-point number.
        """
        advice, output = answer_dtype(header), self.output_for(header)
        if advice.kind != "f":
            raise PolicyError(f"the compiler expects {advice} as its answer, a priority is a floating-point number")
        return lambda payload: advice.type(priority_of(output(payload))).tobytes()

    def output_for(self, header: Header) -> Callable[[bytes], np.float32]:
        """Bind to the compiler's features: maps one observation to the network's output; raises as `record_of`.

        The same as `outputs` but for rounding, and several times faster: of the first layer only the part is computed
        that belongs to the stage, and plain numbers are quicker than arrays of three.
        """
        scaling = self.normalisation
        names, record = scaling.features, record_of(scaling.features, header)
        (first, bias), *rest = self.architecture.unflatten(self.weights)
        of_stage = first[:-1].reshape(NUM_STAGES, len(names), -1)
        of_unspillable = bias + first[-1]
        position, weight = names.index(STAGE), names.index(WEIGHT) if WEIGHT in names else None
        units = [1.0] * len(names) if scaling.unit is None else scaling.unit.tolist()
        scales = list(zip(units, scaling.centre.tolist(), scaling.scale.tolist(), strict=True))

        def output(payload: bytes) -> np.float32:
            raw = np.frombuffer(payload, record).item()
            features = [_normalised(value, *scale) for value, scale in zip(raw, scales, strict=True)]
            features[position] = 1.0
            stage = min(max(int(raw[position]), 0), NUM_STAGES - 1)
            unspillable = weight is not None and raw[weight] >= WEIGHT_OF_UNSPILLABLE
            values = np.array(features, np.float32) @ of_stage[stage] + (of_unspillable if unspillable else bias)
            return logits(rest, np.maximum(values, 0.0)) if rest else values[0]  # type: ignore[return-value]

        return output

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations, float32 [num_steps], equal to those of `respond_to`.

        They are given one by one, because a product of matrices may round otherwise than one of a vector and a matrix.
        """
        advice, respond = answer_dtype(header), self.respond_to(header)
        return lambda payloads: np.frombuffer(b"".join(respond(row.tobytes()) for row in payloads), advice)


def _normalised(value: float, unit: float, centre: float, scale: float) -> float:
    """What `Normalisation` does to one number, taken in a unit."""
    size = (copysign(log1p(abs(value / unit)), value) - centre) / scale
    return min(max(size, -CLIP), CLIP)
