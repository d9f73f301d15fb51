r"""LLVM's log format: header, contexts, observations, outcomes.

Format (llvm/lib/Analysis/TrainingLogger.cpp, llvm/lib/Analysis/InteractiveModelRunner.cpp)::

    stream      = header LF { context | observation }
    header      = '{"features":[SPEC,...],"advice":SPEC}'       interactive, or ..."score":SPEC in a training log
    context     = '{"context":"NAME"}' LF
    observation = '{"observation":N}' LF tensor... LF [ '{"outcome":N}' LF score LF ]

Tensors follow each other raw, row-major, in the byte order of the machine; lengths come from the header. LLVM writes
its lines as above, without blanks; lines of others may be any JSON object with these keys.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from mlgo.base.types import C_TYPES, MAX_TENSOR_BYTES, TensorSpec
from mlgo.errors import ProtocolError

_LINE_FEED = 0x0A
_MAX_LINE_BYTES = 1 << 20
_KINDS = ("context", "observation", "outcome")


@dataclass(frozen=True)
class Header:
    """What the compiler will send, in wire order, and expects back.

    A training log has no advice, the interactive channel no score, which is the reward.
    """

    features: tuple[TensorSpec, ...]
    advice: TensorSpec | None = None
    score: TensorSpec | None = None

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of one observation's tensors, without the closing line feed."""
        return sum(spec.num_bytes for spec in self.features)

    @cached_property
    def record(self) -> np.dtype:
        """Layout of an observation; a feature of several numbers is a field of shape [num_elements]."""
        shapes = [() if spec.num_elements == 1 else (spec.num_elements,) for spec in self.features]
        formats = [(spec.dtype, shape) for spec, shape in zip(self.features, shapes, strict=True)]
        return np.dtype({"names": [spec.name for spec in self.features], "formats": formats})  # a name may be empty

    def index(self, name: str) -> int:
        """Position of a feature; ProtocolError without such a one."""
        for position, spec in enumerate(self.features):
            if spec.name == name:
                return position
        raise ProtocolError(f"the compiler does not offer feature {name!r}")

    def offset(self, name: str) -> int:
        """Byte offset of a feature within an observation's payload; ProtocolError without such a one."""
        return sum(spec.num_bytes for spec in self.features[: self.index(name)])

    def unpack(self, payload: bytes | bytearray) -> dict[str, np.ndarray]:
        """Split a payload into arrays by name, of the header's dtypes and shapes [...].

        They are views, writable if the payload is.
        """
        row = np.ndarray((), self.record, payload)
        return {spec.name: row[spec.name].reshape(spec.shape) for spec in self.features}

    def blocks(self) -> list[tuple[np.dtype[Any], int, int]]:
        """Runs of features of one type: dtype, number of features, byte offset; ProtocolError if some is an array."""
        if odd := [spec.name for spec in self.features if spec.num_elements != 1]:
            raise ProtocolError(f"features that are not one number: {', '.join(odd[:5])}")
        found, offset = [], 0
        for dtype, specs in groupby(self.features, lambda spec: spec.dtype):
            found.append((dtype, count := sum(1 for _ in specs), offset))
            offset += count * dtype.itemsize
        return found

    def numbers(self, payloads: np.ndarray, names: Sequence[str] = ()) -> np.ndarray:
        """Take payloads, uint8 [..., payload_bytes], for numbers, [..., num_features]: of some features, or of all.

        All are a view where their type is one, which is kept; else float32. ProtocolError if a feature is an array.
        """
        parts = [
            np.ascontiguousarray(payloads[..., start : start + count * dtype.itemsize]).view(dtype)
            for dtype, count, start in self.blocks()
        ]
        found = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe")
        return found[..., [self.index(name) for name in names]] if names else found

    def scalars(self, payloads: bytes) -> np.ndarray:
        """Take concatenated payloads for numbers, ``[num_steps, num_features]``; types and errors as of `numbers`."""
        return self.numbers(np.frombuffer(payloads, np.uint8).reshape(-1, self.payload_bytes))


@dataclass(frozen=True)
class Context:
    """Start or resumption of a named scope of decisions."""

    name: str


class RawObservation(NamedTuple):
    """One question: its number within the context and its raw tensors. A tuple, because there are so many."""

    number: int
    payload: bytes


@dataclass(frozen=True)
class Outcome:
    """Reward of an observation in a training log."""

    number: int
    payload: bytes


Event = Header | Context | RawObservation | Outcome


def parse_header(line: bytes) -> Header:
    """Parse the first line of a stream; ProtocolError if it is no header, or tensors are of absurd size."""
    record = _parse_json(line, "header")
    features = record.get("features")
    if not isinstance(features, list) or not features:
        raise ProtocolError(f"header without features: {line[:200]!r}")
    advice, score = record.get("advice"), record.get("score")
    header = Header(
        tuple(TensorSpec.from_json(spec) for spec in features),
        None if advice is None else TensorSpec.from_json(advice),
        None if score is None else TensorSpec.from_json(score),
    )
    names = [spec.name for spec in header.features]
    if len(set(names)) != len(names):
        raise ProtocolError("header names a feature twice")
    if header.payload_bytes > MAX_TENSOR_BYTES:
        raise ProtocolError(f"header claims {header.payload_bytes} bytes an observation")
    return header


class LogParser:
    """Incremental parser: feed it bytes as they come, get complete events.

    RawObservation numbers must start at 0 in each context and rise by one, also across a context that is resumed.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self._buffer = b""
        self._context = ""
        self._next_numbers: dict[str, int] = {}

    @property
    def pending_bytes(self) -> int:
        """Bytes of an event that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes and return the events they complete, in order; ProtocolError if they are not the log format."""
        self._buffer = self._buffer + data if self._buffer else data
        events: list[Event] = []
        while self._buffer:
            # By far the most frequent: the observations that are due, without a JSON parser.
            self._take_observations(events)
            event = self._take_other() if self._buffer else None
            if event is None:
                break
            events.append(event)
        return events

    def _take_observations(self, events: list[Event]) -> None:
        """Move complete observations of the expected numbers from the buffer to the events."""
        if self.header is None:
            return
        buffer, width, position = self._buffer, self.header.payload_bytes, 0
        number = self._next_numbers.get(self._context, 0)
        while buffer.startswith(line := b'{"observation":%d}\n' % number, position):
            start = position + len(line)
            end = start + width
            if len(buffer) <= end:
                break
            if buffer[end] != _LINE_FEED:
                raise ProtocolError("tensors are not followed by a line feed: lengths and header disagree")
            events.append(RawObservation(number, buffer[start:end]))
            number, position = number + 1, end + 1
        self._next_numbers[self._context] = number
        self._buffer = buffer[position:]

    def _take_other(self) -> Event | None:
        """Take any one event from the buffer; None when it is not complete."""
        line, line_feed, rest = self._buffer.partition(b"\n")
        if len(line) > _MAX_LINE_BYTES:
            raise ProtocolError(f"a line of more than {_MAX_LINE_BYTES} bytes: {line[:80]!r}")
        if not line_feed:
            return None
        if self.header is None:
            self.header, self._buffer = parse_header(line), rest
            return self.header
        number = self._next_numbers.get(self._context, 0)
        if line == b'{"observation":%d}' % number:  # the one that is due, cut short
            return None
        record = _parse_json(line, "line")
        kinds = [kind for kind in _KINDS if kind in record]
        kind = kinds[0] if len(kinds) == 1 else ""
        value: Any = record.get(kind)
        wanted: type[Any] = str if kind == "context" else int
        if not kind or type(value) is not wanted:
            raise ProtocolError(f"unexpected line {line[:200]!r}")
        if kind == "context":
            self._context, self._buffer = value, rest
            return Context(value)
        if kind == "observation":
            if value != number:
                raise ProtocolError(f"observation {value} where {number} was due in context {self._context!r}")
            width, what = self.header.payload_bytes, "tensors are"
        elif self.header.score is not None:
            width, what = self.header.score.num_bytes, "a score is"
        else:
            raise ProtocolError(f"unexpected line {line[:200]!r}: the header names no score")
        if len(rest) <= width:
            return None
        if rest[width] != _LINE_FEED:
            raise ProtocolError(f"{what} not followed by a line feed: lengths and header disagree")
        self._buffer = rest[width + 1 :]
        if kind == "outcome":
            return Outcome(value, rest[:width])
        self._next_numbers[self._context] = number + 1
        return RawObservation(number, rest[:width])


def write_header(header: Header) -> bytes:
    """Encode a header as LLVM does: compact JSON and a line feed."""

    def encode(spec: TensorSpec) -> dict[str, object]:
        return {"name": spec.name, "type": C_TYPES[spec.dtype], "port": 0, "shape": list(spec.shape)}

    answers = {"advice": header.advice, "score": header.score}
    record: dict[str, object] = {"features": [encode(spec) for spec in header.features]}
    record |= {kind: encode(spec) for kind, spec in answers.items() if spec is not None}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def write_context(name: str) -> bytes:
    """Encode a context line."""
    return json.dumps({"context": name}, separators=(",", ":")).encode() + b"\n"


def write_observation(number: int, payload: bytes) -> bytes:
    """Encode an observation with its raw tensors."""
    return b'{"observation":%d}\n%b\n' % (number, payload)


def write_outcome(number: int, payload: bytes) -> bytes:
    """Encode a reward record of a training log."""
    return b'{"outcome":%d}\n%b\n' % (number, payload)


def _parse_json(line: bytes, what: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what} is not JSON: {line[:200]!r}") from error
    if not isinstance(record, dict):
        raise ProtocolError(f"{what} is not a JSON object: {line[:200]!r}")
    return record
