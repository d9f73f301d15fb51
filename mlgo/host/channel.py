"""A FIFO pair in a directory of its own, opened so that neither side can block the other.

``BASE.in`` carries answers, ``BASE.out`` observations. The compiler opens ``.in`` for reading, then ``.out`` for
writing. This side opens ``.in`` for reading and writing (so the compiler never meets an end of file there, on
which it would spin for ever) and ``.out`` non-blocking (so opening needs no compiler).
"""

import os
from pathlib import Path

from mlgo.base.scratch import Closing
from mlgo.errors import ChannelError

_READ_BYTES = 1 << 16


class Channel(Closing):
    """Host's end of one interactive channel.

    Attributes:
        base: what to pass as the compiler's channel base.
        out_fd: descriptor to poll for observations.
    """

    def __init__(self, directory: Path) -> None:
        self.base = directory / "channel"
        self._in_path, self._out_path = Path(f"{self.base}.in"), Path(f"{self.base}.out")
        os.mkfifo(self._in_path, 0o600)
        os.mkfifo(self._out_path, 0o600)
        self._in_fd = os.open(self._in_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.out_fd = os.open(self._out_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def read(self) -> bytes | None:
        """Return what has arrived, ``b""`` at the compiler's end of file, ``None`` when nothing is there."""
        try:
            return os.read(self.out_fd, _READ_BYTES)
        except BlockingIOError:
            return None

    def answer(self, advice: bytes) -> None:
        """Send one answer."""
        try:
            written = os.write(self._in_fd, advice)
        except BlockingIOError:
            written = 0
        if written != len(advice):
            raise ChannelError("the compiler does not read its answers")

    def answer_ahead(self, advice: bytes) -> bytes:
        """Send answers to questions that will come; return what the pipe has no room for yet."""
        try:
            return advice[os.write(self._in_fd, advice) :] if advice else advice
        except BlockingIOError:
            return advice

    def close(self) -> None:
        """Close both ends and remove the FIFOs; safe to call twice."""
        for fd in (self._in_fd, self.out_fd):
            if fd >= 0:
                os.close(fd)
        self._in_fd = self.out_fd = -1
        self._in_path.unlink(missing_ok=True)
        self._out_path.unlink(missing_ok=True)
