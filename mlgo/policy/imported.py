"""A policy that was trained elsewhere: a graph that takes raw features and gives the answer itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlgo.base.packages import import_extra
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, PolicyError, in_one_line
from mlgo.host.actions import ActionSpace, Observation, answer_dtype, check_features
from mlgo.host.log import Header
from mlgo.host.tasks.task import Decide, Responder, get_task


def import_interpreter() -> Any:
    """The module of the interpreter, which is an extra of this package."""
    return import_extra("ai_edge_litert.interpreter", "import", "an imported policy")


class Graph:
    """A graph that is ready to be asked, in one thread; it holds memory of its own and cannot be pickled."""

    def __init__(self, content: bytes) -> None:
        module = import_interpreter()
        try:
            self._interpreter = module.Interpreter(
                model_content=content,
                num_threads=1,
                # Those that are left out announce themselves on stderr, and round otherwise on other processors.
                experimental_op_resolver_type=module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
            self._interpreter.allocate_tensors()
            signature = self._interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            raise ArtifactError(f"no graph of TensorFlow Lite that can be asked ({in_one_line(error)})") from error
        found = signature.get_input_details(), signature.get_output_details()
        self._places = {name: one["index"] for part in found for name, one in part.items()}
        self.inputs, self.outputs = ({name: _spec(name, one) for name, one in part.items()} for part in found)

    def asking(self, names: Sequence[str], output: str) -> Callable[[Iterable[np.ndarray]], Any]:
        """Bind to some inputs; all others are zero.

        Returns:
            Maps tensors in the order of the names, of their dtypes and numbers of elements, to the output, a number.
        """
        interpreter, place = self._interpreter, self._places[output]
        for name, spec in self.inputs.items():
            interpreter.set_tensor(self._places[name], np.zeros(spec.shape, spec.dtype))
        targets = [(self._places[name], self.inputs[name].shape) for name in names]

        def ask(tensors: Iterable[np.ndarray]) -> Any:
            for (index, shape), tensor in zip(targets, tensors, strict=True):
                interpreter.set_tensor(index, tensor.reshape(shape))
            interpreter.invoke()
            return interpreter.get_tensor(place).item()

        return ask


def _spec(name: str, details: dict[str, Any]) -> TensorSpec:
    return TensorSpec(name, np.dtype(details["dtype"]), tuple(int(length) for length in details["shape"]))


@dataclass(frozen=True)
class ImportedPolicy:
    """An advisor whose answers depend on the observation alone. Nothing is known of it but what it answers."""

    task: str
    # Inputs of the graph that the compiler fills, in the order in which they are fed; others are zero.
    features: tuple[str, ...]
    graph: bytes  # of TensorFlow Lite, see `Graph`; the output that is named as the task's decision is the answer
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def actions(self) -> ActionSpace:
        """What it chooses from."""
        return get_task(self.task).actions

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features, by name."""
        reply, answer = self.actions.reply(answer_dtype(header)), self._answers_for(header)
        return lambda payload: reply(answer(payload))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once, equal to those of `respond_to`."""
        answer, dtype = self._answers_for(header), self.actions.dtype
        return lambda payloads: np.array([answer(payload.tobytes()) for payload in payloads], dtype)

    def answers(self, questions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Answers to questions by feature, each [num] or [num, num_columns]: int64 or float32 [num], 1 for yes."""
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
        pairs = [(one.name, _form(one), _form(graph.inputs[one.name])) for one in offered]
        if odd := [f"{name} as {sent}, not {wanted}" for name, sent, wanted in pairs if sent != wanted]:
            sent = ", ".join(odd[:5])
            raise PolicyError(f"the compiler sends {sent}; the policy was trained for another task or LLVM version")
        ask = self._asking(graph)
        parts = [(one.dtype, one.num_elements, header.offset(one.name)) for one in offered]
        return lambda payload: ask([frombuffer(payload, *part) for part in parts])


def _form(spec: TensorSpec) -> str:
    """Size and type: LLVM does not tell [1] from [], nor [33] from [1, 33]."""
    return f"{spec.num_elements} {spec.dtype}"
