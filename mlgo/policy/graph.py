"""A graph of TensorFlow Lite, asked one question at a time.

Such a graph is a flatbuffer with one signature, which names inputs and outputs. The interpreter is that of the package
``ai-edge-litert``: it takes a tenth of a second and 34 MB, so processes that host compiles can hold it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, ConfigError


def import_interpreter() -> Any:
    """The module of the interpreter, which is an extra of this package.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from ai_edge_litert import interpreter
    except ImportError as error:
        raise ConfigError(
            "imported policies are asked by ai-edge-litert, which is not installed; run make setup EXTRA=import, or "
            "pip install 'ai-edge-litert>=2.3,<3'"
        ) from error
    return interpreter


class Graph:
    """A graph that is ready to be asked, in one thread; it holds memory of its own and cannot be pickled.

    Attributes:
        inputs: what it takes, by name.
        outputs: what it gives, by name.

    Args:
        content: the flatbuffer.

    Raises:
        ConfigError: the interpreter is not installed.
        ArtifactError: it is not a graph with one signature.
    """

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
            reason = " ".join(str(error).split())[:200]
            raise ArtifactError(f"this is no graph of TensorFlow Lite that can be asked ({reason})") from error
        found = signature.get_input_details(), signature.get_output_details()
        self._places = {name: one["index"] for part in found for name, one in part.items()}
        self.inputs, self.outputs = ({name: _spec(name, one) for name, one in part.items()} for part in found)

    def asking(self, names: Sequence[str], output: str) -> Callable[[Iterable[np.ndarray]], Any]:
        """Bind to some inputs; all others are zero.

        Args:
            names: inputs.
            output: a single number.

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
