"""Several estimates as one network that departs from the heuristic only where they agree.

For estimates g_1 .. g_M of the logit, their mean g, their mean absolute deviation d, and the heuristic's answer s (1
for inlining, -1 for not):

    logit = g + caution * s * d

So an answer other than the heuristic's needs a mean that exceeds the deviation ``caution`` times. All of it is
piecewise linear, hence again a perceptron with ReLU, one hidden layer deeper than the estimates: s is a clipped, steep
linear clone of the heuristic, and s * d is made of units that are open for one sign of s only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mlgo.base.packages import import_extra
from mlgo.errors import PolicyError
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture, flatten, logits
from mlgo.policy.policy import Policy

Layer = tuple[np.ndarray, np.ndarray]

_STEEPNESS = 50.0
"""Median size of the steep clone; between -1 and 1 it is not clear what the heuristic would answer."""
_GATE = 1000.0
"""Closes a unit: no deviation is as large."""


def gated_shape(member: Architecture, num_members: int) -> Architecture:
    """Widths of the joint network."""
    inputs, *hidden, _ = member.widths
    return Architecture((inputs, *(num_members * units + 2 for units in hidden), 4 * num_members + 2, 1))


def gated_ensemble(members: Sequence[np.ndarray], shape: Architecture, heuristic: Layer, caution: float) -> np.ndarray:
    """Join estimates, float32 [num_params] of ``shape`` each, to float32 [num_params of `gated_shape`].

    ``shape`` has a hidden layer. ``heuristic`` is a linear clone, matrix [num_features, 1] and bias [1], see `steep`;
    an answer other than its own needs ``caution`` mean deviations.
    """
    networks = [shape.unflatten(member) for member in members]
    matrix, bias = heuristic
    # First layer: all members side by side, and the two units whose difference, less 1, is s = clip(h, -1, 1).
    joined = [
        (
            np.concatenate([network[0][0] for network in networks] + [matrix, matrix], axis=1),
            np.concatenate([network[0][1] for network in networks] + [bias + 1.0, bias - 1.0]),
        )
    ]
    num_hidden = len(shape.shapes) - 1
    for depth in range(1, num_hidden):
        joined.append(_side_by_side([network[depth] for network in networks], sharpen=depth == 1))
    joined += _deviations([network[-1] for network in networks], caution, sign_scale=1.0 if num_hidden == 1 else 2.0)
    return flatten(joined)


def gated_members(joint: np.ndarray, shape: Architecture, num_members: int) -> np.ndarray:
    """The estimates that `gated_ensemble` has joined, but for rounding: float32 [num_members, num_params]."""
    *body, (deviations, offsets), _ = gated_shape(shape, num_members).unflatten(joint)
    apart = 2 + 2 * num_members  # first column of those that the heuristic's yes leaves open: deviations as they are
    members = []
    for number in range(num_members):
        layers = []
        for depth, (matrix, bias) in enumerate(body):
            columns = _block(number, shape.widths[depth + 1])
            rows = _block(number, shape.widths[depth]) if depth else slice(None)
            layers.append((matrix[rows, columns], bias[columns]))
        rows, column = _block(number, shape.widths[-2]), apart + number
        output = deviations[rows, 0] + deviations[rows, column]
        layers.append((output[:, None], offsets[:1] + offsets[column : column + 1]))
        members.append(flatten(layers))
    return np.stack(members)


def _block(number: int, size: int) -> slice:
    return slice(number * size, (number + 1) * size)


def steep(heuristic: Layer, inputs: np.ndarray) -> Layer:
    """Scale a linear clone, matrix [num_features, 1] and bias [1], so that its output leaves [-1, 1] almost everywhere.

    ``inputs`` are typical questions, float32 [num_questions, num_features].
    """
    (layer,) = scaled([heuristic], inputs, _STEEPNESS)
    return layer


def scaled(layers: Sequence[Layer], inputs: np.ndarray, size: float) -> list[Layer]:
    """Scale the last layer so that the logits' median size is ``size``, which changes no answer.

    Args:
        layers: matrix and bias of each layer, float32.
        inputs: float32 [num_questions, num_features], typical questions.
        size: median of the logits without their sign.
    """
    *hidden, (matrix, bias) = layers
    median = float(np.median(np.abs(logits(layers, inputs))))
    scale = np.float32(size / max(median, 1e-6))
    return [*hidden, (scale * matrix, scale * bias)]


def _side_by_side(layers: Sequence[Layer], sharpen: bool) -> Layer:
    """Block-diagonal layer of the members, and two units whose difference is (s + 1) / 2."""
    block_diag = import_extra("scipy.linalg", "train", "an ensemble").block_diag
    joined = block_diag(*(matrix for matrix, _ in layers), np.zeros((2, 2)))
    bias = np.concatenate([*(part for _, part in layers), np.zeros(2)])
    if sharpen:  # clip again: the difference of two large units has been rounded, and the gate would show it
        joined[-2:, -2:] = [[1.0, 1.0], [-1.0, -1.0]]
        bias[-2:] = -0.5, -1.5
    else:
        joined[-2:, -2:] = np.eye(2)
    return joined, bias


def _deviations(outputs: Sequence[Layer], caution: float, sign_scale: float) -> list[Layer]:
    """The last hidden layer, (g, -g) and the gated deviations, and the output."""
    block_diag = import_extra("scipy.linalg", "train", "an ensemble").block_diag
    count = len(outputs)
    each = np.concatenate([block_diag(*(matrix for matrix, _ in outputs)), np.zeros((2, count))])
    offset = np.array([float(bias[0]) for _, bias in outputs])
    mean, mean_offset = each.mean(axis=1, keepdims=True), offset.mean(keepdims=True)
    apart, apart_offset = each - mean, offset - mean_offset
    sign = np.zeros((len(each), 1))
    sign[-2:, 0] = sign_scale, -sign_scale  # s + 1
    open_for_yes, open_for_no = _GATE * sign, -_GATE * sign
    hidden = np.concatenate(
        [mean, -mean, apart + open_for_yes, -apart + open_for_yes, apart + open_for_no, -apart + open_for_no], axis=1
    )
    shut = 2.0 * _GATE  # s - 1 is (s + 1) - 2
    bias = np.concatenate(
        [mean_offset, -mean_offset, apart_offset - shut, -apart_offset - shut, apart_offset, -apart_offset]
    )
    share = caution / count
    output = np.concatenate([[1.0, -1.0], np.full(2 * count, share), np.full(2 * count, -share)])
    return [(hidden, bias), (output[:, None], np.zeros(1))]


def mean_shape(member: Architecture, num_members: int) -> Architecture:
    """Widths and groups of the joint network."""
    inputs, *hidden, _ = member.widths
    return Architecture((inputs, *(num_members * units for units in hidden), 1), num_members)


def mean_of(members: Sequence[np.ndarray], shape: Architecture) -> np.ndarray:
    """Join estimates: float32 [num_params of `mean_shape`]."""
    layers = list(zip(*(shape.unflatten(member) for member in members), strict=True))
    (first, *between), last = layers[:-1], layers[-1]
    count = np.float32(len(members))
    return flatten(
        [
            (np.concatenate([matrix for matrix, _ in first], axis=1), np.concatenate([bias for _, bias in first])),
            *((np.stack([matrix for matrix, _ in one]), np.concatenate([bias for _, bias in one])) for one in between),
            (np.concatenate([matrix for matrix, _ in last]) / count, np.mean([bias for _, bias in last], axis=0)),
        ]
    )


def mean_members(joint: np.ndarray, shape: Architecture, num_members: int) -> np.ndarray:
    """Estimates float32 [num_members, num_params] that `mean_of` joined, with the mean of their own last biases."""
    first, *between, (last, last_bias) = mean_shape(shape, num_members).unflatten(joint)
    # A single member has no groups, so its matrices lack their axis.
    blocks = (matrix.reshape(num_members, *matrix.shape[-2:]) for matrix, _ in between)
    matrices = [np.split(first[0], num_members, axis=1), *blocks]
    biases = [np.split(bias, num_members) for _, bias in (first, *between)]
    outputs = np.split(num_members * last, num_members)

    def member(number: int) -> np.ndarray:
        hidden = [(matrix[number], bias[number]) for matrix, bias in zip(matrices, biases, strict=True)]
        return flatten([*hidden, (outputs[number], last_bias)])

    return np.stack([member(number) for number in range(num_members)])


def joint_shape(member: Architecture, num_members: int, caution: float) -> Architecture:
    """Of the joint network."""
    return mean_shape(member, num_members) if caution == 0.0 else gated_shape(member, num_members)


def join(members: Sequence[np.ndarray], shape: Architecture, heuristic: Layer | None, caution: float) -> np.ndarray:
    """Weights of the joint network, float32 [num_params of `joint_shape`]; without caution no heuristic is needed."""
    if caution == 0.0:
        return mean_of(members, shape)
    assert heuristic is not None
    return gated_ensemble(members, shape, heuristic, caution)


def members_of(joint: np.ndarray, shape: Architecture, num_members: int, caution: float) -> np.ndarray:
    """The members that `join` was given, float32 [num_members, num_params]; see `mean_members`, `gated_members`."""
    return (mean_members if caution == 0.0 else gated_members)(joint, shape, num_members)


def rejoin(policies: Mapping[str, Policy], caution: float, cautious: tuple[str, Policy] | None = None) -> Policy:
    """Join all members of some policies. A clone of the heuristic says where caution pulls to.

    Args:
        policies: by what to call them in messages; of any learner. One that ``marginal`` has not trained is one member.
        caution: as of `gated_ensemble`; 0 takes the mean.
        cautious: name and policy of ``marginal`` that holds the clone; the first of ``policies`` if None.

    Returns:
        The joint policy, with the first one's provenance but for the settings ``hidden``, ``caution`` and ``members``
        of an ensemble; the mean of linear policies is a linear one.
    """
    (name, first), *_ = policies.items()
    parts = {other: _members_in(other, policy) for other, policy in policies.items()}
    shape, members = parts[name][0], [member for _, each, _ in parts.values() for member in each]
    for other, policy in policies.items():
        if parts[other][0] != shape or not _alike(policy, first):
            raise PolicyError(
                f"{other} and {name} differ in task, languages, features, their scales, or hidden layers; join "
                "policies of one corpus and one configuration"
            )
    if len(shape.widths) == 2:
        if caution == 0.0:
            return replace(first, weights=np.mean(members, axis=0))
        members = [_two_units(shape, member) for member in members]
        shape = Architecture((shape.num_inputs, 2, 1))
    heuristic = _clone_in(*(cautious or (name, first)), first) if caution > 0.0 else None
    settings = {
        **first.origin.get("marginal", {}),
        "hidden": list(shape.widths[1:-1]),
        "caution": caution,
        "members": len(members),
    }
    return replace(
        first,
        architecture=joint_shape(shape, len(members), caution),
        weights=join(members, shape, heuristic, caution),
        origin={**first.origin, "marginal": settings},
    )


def _alike(policy: Policy, other: Policy) -> bool:
    """Whether both see the same inputs: task, languages, features, and centre, scale and unit of each."""

    def scales(of: Policy) -> np.ndarray:
        scaling = of.normalisation
        assert isinstance(scaling, Normalisation)  # as of every network
        unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
        return np.stack([scaling.centre, scaling.scale, unit])

    one, two = ((each.task, each.features, each.origin.get("languages")) for each in (policy, other))
    return one == two and np.array_equal(scales(policy), scales(other))


def _clone_in(name: str, policy: Policy, first: Policy) -> Layer:
    """The steep clone that `gated_ensemble` was given, but for rounding; for inputs as the first policy's."""
    if _members_in(name, policy)[2] == 0.0:
        raise PolicyError(
            f"{name} holds no clone of the heuristic; give caution 0, or a policy of learner marginal with "
            "marginal.caution above 0"
        )
    if not _alike(policy, first):
        raise PolicyError(
            f"the clone of the heuristic in {name} has other languages, features or scales than the members; train "
            "both on one corpus with the same train.languages"
        )
    matrix, bias = policy.layers[0]
    return matrix[:, -1:], bias[-1:] + np.float32(1.0)


def _two_units(shape: Architecture, member: np.ndarray) -> np.ndarray:
    """A linear policy as a network with one hidden layer: x = relu(x) - relu(-x)."""
    ((matrix, bias),) = shape.unflatten(member)
    units = (np.concatenate([matrix, -matrix], axis=1), np.concatenate([bias, -bias]))
    return flatten([units, (np.array([[1.0], [-1.0]]), np.zeros(1))])


def _members_in(name: str, policy: Policy) -> tuple[Architecture, np.ndarray, float]:
    """Layer widths of a member, members float32 [num_members, num_params], and the caution they are joined with."""
    settings, network = policy.origin.get("marginal"), policy.architecture
    if policy.overrides:
        raise PolicyError(f"{name} was tuned to a program; join the policy that it was made from")
    if settings is None and isinstance(network, Architecture):
        shape, weights = network.ungrouped(policy.weights)
        return shape, weights[None], 0.0
    if isinstance(settings, dict) and {"hidden", "members", "caution"} <= settings.keys():
        shape = Architecture((policy.num_inputs, *settings["hidden"], 1))
        count, caution = settings["members"], settings["caution"]
        if policy.architecture == joint_shape(shape, count, caution):
            return shape, members_of(policy.weights, shape, count, caution), caution
    raise PolicyError(f"{name} is neither a network nor what marginal has joined on modules")
