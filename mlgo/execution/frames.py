"""What an experiment and a server of workers tell each other.

Jobs and results are pickled by the experiment and its workers alone; the server hands them on as they are.
"""

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

_HEADER = struct.Struct("<BQQ")


class Kind(IntEnum):
    """What a message says; what its body holds."""

    HELLO = 1
    """An experiment introduces itself; JSON."""
    MAKER = 2
    """Makes the handlers of all its workers; pickled."""
    CALL = 3
    """A worker has something to do; tickets, and jobs after their tickets, pickled; both pickled."""
    CANCEL = 4
    """Nobody wants the result of a call any more."""
    RELEASE = 5
    """A worker is no longer needed."""
    STATUS = 6
    """Question and answer: who uses what; JSON."""
    STOP = 7
    """End the server."""
    WELCOME = 8
    """Answer to `HELLO`; JSON."""
    STARTED = 9
    """A worker has begun a call."""
    ANSWER = 10
    """A worker has done a call; `mlgo.execution.worker.Answer`, pickled."""
    GONE = 11
    """A worker is no more; JSON."""
    REFUSED = 12
    """What was asked for cannot be done; JSON."""
    BEAT = 13
    """The server lives; sent now and then to experiments that wait for results."""


@dataclass(frozen=True)
class Frame:
    """One message.

    Attributes:
        kind: what it says.
        worker: number of the worker in its experiment.
        ticket: of the call's first job, or of the one to cancel.
        body: see `Kind`.
    """

    kind: Kind
    worker: int = 0
    ticket: int = 0
    body: bytes = b""

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return _HEADER.pack(self.kind, self.worker, self.ticket) + self.body

    @classmethod
    def from_bytes(cls, data: bytes) -> "Frame":
        """As it was received.

        Raises:
            ValueError: it is none.
        """
        if len(data) < _HEADER.size:
            raise ValueError("a message is cut short")
        kind, worker, ticket = _HEADER.unpack_from(data)
        return cls(Kind(kind), worker, ticket, data[_HEADER.size :])

    @classmethod
    def of_json(cls, kind: Kind, content: Any, worker: int = 0, ticket: int = 0) -> "Frame":
        """A message whose body is JSON."""
        return cls(kind, worker, ticket, json.dumps(content).encode())

    def json(self) -> Any:
        """The body of such a message."""
        return json.loads(self.body)
