"""A policy that was trained elsewhere: a graph that takes raw features and gives the answer itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlgo.base.types import TensorSpec
from mlgo.errors import PolicyError
from mlgo.host.actions import ActionSpace, Observation
from mlgo.host.actions.reading import answer_dtype, check_features
from mlgo.host.log import Header
from mlgo.host.tasks.task import Decide, Responder, get_task
from mlgo.policy.graph import Graph


@dataclass(frozen=True)
class ImportedPolicy:
    """An advisor whose answers depend on the observation alone. Nothing is known of it but what it answers.

    Attributes:
        task: decision problem that it answers.
        features: inputs of the graph that the compiler fills, in the order in which they are fed; others are zero.
        graph: of TensorFlow Lite, see `Graph`; the output that is named as the task's decision is the answer.
        origin: provenance.
    """

    task: str
    features: tuple[str, ...]
    graph: bytes
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def actions(self) -> ActionSpace:
        """What it chooses from."""
        return get_task(self.task).actions

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name.

        Raises:
            PolicyError: the compiler does not offer a feature, or of another type or size, or expects another kind of
                answer.
            ConfigError: what runs the graph is not installed.
        """
        reply, answer = self.actions.reply(answer_dtype(header)), self._answers_for(header)
        return lambda payload: reply(answer(payload))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        answer, dtype = self._answers_for(header), self.actions.dtype
        return lambda payloads: np.array([answer(payload.tobytes()) for payload in payloads], dtype)

    def answers(self, questions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Answers to questions that are given by feature, each [num] or [num, num_columns].

        Returns:
            int64 or float32 [num]; 1 for yes.
        """
        ask, columns = self._asking(Graph(self.graph)), [questions[name] for name in self.features]
        return np.array([ask(tensors) for tensors in zip(*columns, strict=True)], self.actions.dtype)

    def logits(self, observation: Observation) -> np.ndarray:
        """1 for yes and -1 for no, float32 [num_steps]: all answers are as sure, since the graph tells no margin."""
        columns = np.asarray(observation.values).T
        answers = self.answers(dict(zip(self.features, columns, strict=True)))
        return np.where(answers != 0, np.float32(1.0), np.float32(-1.0))

    def _asking(self, graph: Graph) -> Callable[[Any], Any]:
        """Maps tensors in the order of the features to an action."""
        ask = graph.asking(self.features, get_task(self.task).decision)
        return (lambda tensors: ask(tensors) != 0) if self.actions.yes_or_no else ask

    def _answers_for(self, header: Header) -> Callable[[bytes], Any]:
        """Maps a raw observation to an action."""
        check_features(self.features, [spec.name for spec in header.features], "the compiler")
        graph, frombuffer = Graph(self.graph), np.frombuffer
        offered = [header.features[header.index(name)] for name in self.features]
        if odd := [one for one in offered if _form(one) != _form(graph.inputs[one.name])]:
            sent = ", ".join(f"{one.name} as {_said(one)}, not {_said(graph.inputs[one.name])}" for one in odd[:5])
            raise PolicyError(f"the compiler sends {sent}; the policy was trained for another task or LLVM version")
        ask = self._asking(graph)
        parts = [(one.dtype, one.num_elements, header.offset(one.name)) for one in offered]
        return lambda payload: ask([frombuffer(payload, *part) for part in parts])


def _form(spec: TensorSpec) -> tuple[np.dtype[Any], int]:
    """Type and size: LLVM does not tell [1] from [], nor [33] from [1, 33]."""
    return spec.dtype, spec.num_elements


def _said(spec: TensorSpec) -> str:
    return f"{spec.num_elements} {spec.dtype}"
