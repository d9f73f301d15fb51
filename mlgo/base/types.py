"""Tensor specifications as LLVM writes them, and the one table of its data types."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.errors import ProtocolError

# Type names of llvm/lib/Analysis/TensorSpec.cpp, in the byte order of the machine.
DTYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "int8_t": np.dtype(np.int8),
    "uint8_t": np.dtype(np.uint8),
    "int16_t": np.dtype(np.int16),
    "uint16_t": np.dtype(np.uint16),
    "int32_t": np.dtype(np.int32),
    "uint32_t": np.dtype(np.uint32),
    "int64_t": np.dtype(np.int64),
    "uint64_t": np.dtype(np.uint64),
}

C_TYPES = {dtype: name for name, dtype in DTYPES.items()}
"""The same names by data type."""

# No tensor of a real task comes near this; a header that asks for more is damaged.
MAX_TENSOR_BYTES = 1 << 24


@dataclass(frozen=True)
class TensorSpec:
    """Name, element type and shape of one tensor on the wire."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def num_elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Size on the wire in bytes."""
        return self.num_elements * self.dtype.itemsize

    @classmethod
    def from_json(cls, spec: Any) -> "TensorSpec":
        """Read a spec of a log header, for example ``{"name": "a", "type": "int64_t", "port": 0, "shape": [1]}``.

        Raises:
            ProtocolError: a key is missing, the type is unknown or the shape is not usable.
        """
        try:
            name, type_name, shape = spec["name"], spec["type"], spec["shape"]
        except (TypeError, KeyError) as error:
            raise ProtocolError(f"tensor spec without name, type or shape: {str(spec)[:200]}") from error
        if not isinstance(type_name, str) or type_name not in DTYPES:
            raise ProtocolError(f"tensor {name!r} has unknown type {type_name!r}")
        if not isinstance(shape, list) or not all(type(n) is int and 0 < n <= MAX_TENSOR_BYTES for n in shape):
            raise ProtocolError(f"tensor {name!r} has unusable shape {str(shape)[:200]}")
        result = cls(str(name), DTYPES[type_name], tuple(shape))
        if result.num_bytes > MAX_TENSOR_BYTES:
            raise ProtocolError(f"tensor {name!r} claims more than {MAX_TENSOR_BYTES} bytes: {str(shape)[:200]}")
        return result
