"""A trained policy, features, a model and an action space that says what its outputs mean; and advisors around it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.actions import ROUNDING, ActionSpace, Observation, Scaling, answer_dtype, check_features
from mlgo.host.log import Header
from mlgo.host.tasks.task import Decide, PureAdvisor, Responder, get_task
from mlgo.policy.network import Architecture, Layers


class Model(Protocol):
    """Gives one number for each row of inputs, the logit of an action."""

    def logits(self, inputs: np.ndarray) -> Any:
        """Map ``[..., num_inputs]`` to ``float32 [...]``."""

    def terms(self, inputs: np.ndarray) -> Any:
        """Sum of all terms without signs, ``float32 [...]``: rounding is a share of it; 0 where nothing is rounded."""

    def quick(self, actions: ActionSpace, header: Header, scaling: Scaling) -> Callable[[bytes], Any] | None:
        """A quicker way from one raw observation to its logit, to the same bit; None without one."""


class Shape(Protocol):
    """What all models of a kind and size have in common; the rest is one flat vector."""

    @property
    def num_inputs(self) -> int: ...

    @property
    def num_params(self) -> int: ...

    def model(self, vector: np.ndarray) -> Model:
        """Make a model of a flat vector, float32 [num_params]."""
        ...


_IMPOSSIBLE = np.float32(-np.inf)


@dataclass(frozen=True)
class Policy:
    """An advisor with weights, whose answers depend on the observation alone."""

    task: str  # decision problem it was trained for; its action space is this policy's
    normalisation: Scaling
    architecture: Shape  # of the model: layer widths of a network, or the size of a tree
    weights: np.ndarray  # float32 [num_params], the numbers of the model
    origin: dict[str, Any] = field(default_factory=dict)
    overrides: "Overrides | None" = None  # what it answers otherwise than its model

    @property
    def actions(self) -> ActionSpace:
        """What it chooses from."""
        return get_task(self.task).actions

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features that it looks at, those of its model first."""
        told_apart = self.overrides.features if self.overrides else ()
        return tuple(dict.fromkeys((*self.normalisation.features, *told_apart)))

    @property
    def base(self) -> "Policy":
        """The same without overrides."""
        return replace(self, overrides=None)

    @property
    def num_inputs(self) -> int:
        """Inputs of a model for these features."""
        return self.actions.num_inputs(len(self.normalisation.features))

    @property
    def model(self) -> Model:
        """What scores the actions."""
        return self.architecture.model(self.weights)

    @property
    def layers(self) -> Layers:
        """Matrix and bias of each layer of a network; raises as `network`."""
        return self.network().unflatten(self.weights)

    def network(self) -> Architecture:
        """Layer widths, for what works with networks alone."""
        if self.overrides:
            raise PolicyError("this needs a network, and the policy was tuned to a program; take its base")
        if not isinstance(self.architecture, Architecture):
            teacher = f", {self.origin['teacher']}" if "teacher" in self.origin else ""
            raise PolicyError(
                f"this needs a network, and the policy is a decision tree; take the one it was distilled from{teacher}"
            )
        return self.architecture

    def with_weights(self, weights: np.ndarray) -> "Policy":
        """The same policy with other weights, ``float32 [num_params]``."""
        return replace(self, weights=weights.astype(np.float32))

    def inputs_for(self, header: Header) -> Callable[[np.ndarray], np.ndarray]:
        """Maps raw observations, uint8 [num_steps, payload_bytes], to what learners see, float32 [num_steps, ...]."""
        read = self.actions.reader(header, self.normalisation.features)
        return lambda payloads: self.actions.learner_inputs(read(payloads), self.normalisation)

    def logits(self, observation: Observation) -> np.ndarray:
        """Logits of observations, float32 [num_steps] or [num_steps, num_actions]; illegal actions minus infinity."""
        outputs = self.model.logits(self.actions.encode(np, observation, self.normalisation))
        return outputs if observation.legal is None else np.where(observation.legal, outputs, _IMPOSSIBLE)

    def logits_for(self, header: Header) -> Callable[[bytes], Any]:
        """Bind to the compiler's features: maps one raw observation to its logits; raises as `inputs_for`."""
        actions, scaling, model = self.actions, self.normalisation, self.model
        if (quick := model.quick(actions, header, scaling)) is not None:
            return quick
        read, encode = actions.reader(header, scaling.features), actions.encode

        def of_one(payload: bytes) -> Any:
            observation = read(np.frombuffer(payload, np.uint8))
            outputs = model.logits(encode(np, observation, scaling))
            return outputs if observation.legal is None else np.where(observation.legal, outputs, _IMPOSSIBLE)

        return of_one

    def logits_of(self, questions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logits of questions by feature, each [num] or [num, num_columns], as `logits`; 1 or -1 where overridden."""
        found = self.logits(self.actions.pack(np, questions, self.normalisation.features))
        if self.overrides:
            known = self.overrides.by_row
            rows = np.stack([questions[name] for name in self.overrides.features], axis=-1).astype(np.int64)
            for i, row in enumerate(rows):
                answer = known.get(row.tobytes())
                found[i] = found[i] if answer is None else 2 * answer - 1
        return found

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name."""
        if self.overrides:
            return self.overrides.over(self.base, header).respond_to(header)
        reply, greedy, of_one = self.actions.reply(answer_dtype(header)), self.actions.greedy, self.logits_for(header)
        return lambda payload: reply(greedy(np, of_one(payload)))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`.

        A product of matrices may round otherwise than one of a vector and a matrix, so actions that are close to others
        are found again one by one.
        """
        if self.overrides:
            return self.overrides.over(self.base, header).decide_for(header)
        actions, scaling, model = self.actions, self.normalisation, self.model
        read, of_one = actions.reader(header, scaling.features), self.logits_for(header)

        def decide(payloads: np.ndarray) -> np.ndarray:
            observation = read(payloads)
            inputs = actions.encode(np, observation, scaling)
            found, terms = model.logits(inputs), model.terms(inputs)
            if observation.legal is not None:
                found, terms = np.where(observation.legal, found, _IMPOSSIBLE), terms.max(axis=1)
            chosen: np.ndarray = actions.greedy(np, found).astype(actions.dtype)
            for i in np.flatnonzero(actions.margin(found) < ROUNDING * terms):
                chosen[i] = actions.greedy(np, of_one(payloads[i].tobytes()))
            return chosen

        return decide


_KEY_BYTES = 16


@dataclass(frozen=True)
class OverridingAdvisor:
    """Gives the recorded answer where there is one for what it sees, else the base's answer.

    Questions are told apart by what they hold, not by their number: after one answer has changed, the compiler asks
    other questions, and a question that comes again must be known again. So the advisor is a pure function of the
    observation, and response trees answer for it.
    """

    base: PureAdvisor
    # Answer by key of the observation, see `observation_keys`.
    answers: Mapping[bytes, int] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def with_answers(self, answers: Mapping[bytes, int]) -> "OverridingAdvisor":
        """The same with further answers, which replace older ones."""
        return OverridingAdvisor(self.base, {**self.answers, **answers}, self.ignored)

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        decide, answers = self.base.decide_for(header), self.answers

        def override(payloads: np.ndarray) -> np.ndarray:
            found = [answers.get(key) for key in observation_keys(header, payloads, self.ignored)]
            others = np.array([one is None for one in found], bool)
            values = np.array([one or 0 for one in found], answer_dtype(header))
            values[others] = decide(payloads[others])
            return values

        return override if answers else decide

    def respond_to(self, header: Header) -> Responder:
        """Bind both to the compiler's features."""
        respond, answers, dtype = self.base.respond_to(header), self.answers, answer_dtype(header)
        parts = _parts(header, self.ignored)

        def override(payload: bytes) -> bytes:
            answer = answers.get(_key(payload, parts))
            return respond(payload) if answer is None else dtype.type(answer).tobytes()

        return override if answers else respond


def observation_keys(header: Header, payloads: np.ndarray, ignored: tuple[str, ...] = ()) -> list[bytes]:
    """Hash of each observation's features, 16 bytes; payloads are uint8 [num, payload_bytes].

    Names of ignored features that the compiler does not offer have no effect.
    """
    parts = _parts(header, ignored)
    return [_key(row.tobytes(), parts) for row in payloads]


def _parts(header: Header, ignored: tuple[str, ...]) -> list[slice]:
    """Bytes of an observation that count, as few slices as possible."""
    parts: list[slice] = []
    start = 0
    for spec in header.features:
        end = start + spec.num_bytes
        if spec.name not in ignored:
            if parts and parts[-1].stop == start:
                parts[-1] = slice(parts[-1].start, end)
            else:
                parts.append(slice(start, end))
        start = end
    return parts


def _key(payload: bytes, parts: list[slice]) -> bytes:
    digest = hashlib.blake2b(digest_size=_KEY_BYTES)
    for part in parts:
        digest.update(payload[part])
    return digest.digest()


@dataclass(frozen=True)
class Overrides:
    """Other answers to some questions of yes and no, which are known by what they hold."""

    features: tuple[str, ...]  # that tell questions apart, each one number
    questions: np.ndarray  # int64 [num, num_features], each row once
    answers: np.ndarray  # int64 [num]

    def over(self, base: PureAdvisor, header: Header) -> OverridingAdvisor:
        """An advisor for a compiler with these features and perhaps others; PolicyError where it lacks some."""
        check_features(self.features, [spec.name for spec in header.features], "the compiler")
        rows = np.zeros(len(self.questions), header.record)
        for name, column in zip(self.features, self.questions.T, strict=True):
            rows[name] = column
        ignored = tuple(spec.name for spec in header.features if spec.name not in self.features)
        payloads = rows.view(np.uint8).reshape(len(rows), header.payload_bytes)
        answers = dict(zip(observation_keys(header, payloads, ignored), self.answers.tolist(), strict=True))
        return OverridingAdvisor(base, answers, ignored)

    @property
    def by_row(self) -> dict[bytes, int]:
        """Answers by the bytes of a row of questions."""
        return {row.tobytes(): answer for row, answer in zip(self.questions, self.answers.tolist(), strict=True)}


@dataclass(frozen=True)
class ExploringAdvisor:
    """Samples the actions of a policy; what is random comes from a hash of the observation (`ActionSpace.sampler`)."""

    policy: Policy
    temperature: float  # of its distribution; 0 takes the policy's own action
    flip_share: float
    seed: int  # of the hash; compiles with different seeds differ

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features; see `Policy.respond_to`."""
        actions, logits = self.policy.actions, self.policy.logits_for(header)
        sample = actions.sampler(self.temperature, self.flip_share, self.seed)
        reply = actions.reply(answer_dtype(header))
        return lambda payload: reply(sample(payload, logits(payload)))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        actions, logits = self.policy.actions, self.policy.logits_for(header)
        sample = actions.sampler(self.temperature, self.flip_share, self.seed)

        def decide(payloads: np.ndarray) -> np.ndarray:
            rows = [payload.tobytes() for payload in payloads]
            return np.array([sample(row, logits(row)) for row in rows], actions.dtype)

        return decide
