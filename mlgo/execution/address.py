"""Where a server of workers listens, and who may talk to it."""

import contextlib
import os
import secrets
import socket
import struct
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

from mlgo.core.errors import WorkerError

DEFAULT_ADDRESS = "data/work/workers.sock"

_HANDSHAKE_S = 10.0
_LONGEST_PATH = 107  # bytes that the kernel allows
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


@dataclass(frozen=True)
class Address:
    """A Unix socket, or host and port for other machines of a network that can be trusted: nothing is encrypted.

    Whoever knows the key may run anything as the server's user, so its file is for that user alone.

    Attributes:
        text: as users write it, a path or ``HOST:PORT``.
        key_path: file with the key; beside a Unix socket by default.
    """

    text: str
    key_path: Path

    @classmethod
    def of(cls, text: str, key_path: Path | None = None) -> "Address":
        """Read an address.

        Raises:
            WorkerError: a path too long for a socket, or a host without a key's file.
        """
        if _host_and_port(text) is None:
            if len(os.fsencode(text)) > _LONGEST_PATH:
                raise WorkerError(f"{text} is too long for a socket ({_LONGEST_PATH} bytes at most); choose another")
            return cls(text, key_path or Path(f"{text}.key"))
        if key_path is None:
            raise WorkerError(f"{text} can be reached by others; name the file with its key, too")
        return cls(text, key_path)

    @property
    def is_path(self) -> bool:
        """Whether it is a Unix socket."""
        return _host_and_port(self.text) is None

    def __str__(self) -> str:
        return self.text

    def read_key(self) -> bytes:
        """The key that the server has written.

        Raises:
            WorkerError: it cannot be read, since no server runs or it is another user's.
        """
        try:
            key = self.key_path.read_bytes()
        except OSError as error:
            remedy = "start it with 'mlgo workers serve', or copy the key of one that runs elsewhere"
            what = f"{self.key_path}: {error.strerror}"
            raise WorkerError(f"no workers at {self}: {what}; {remedy}") from error
        if not key:
            raise WorkerError(f"no workers at {self}: {self.key_path} is empty; is the server just starting?")
        return key

    def make_key(self) -> bytes:
        """Write a new key for its user alone, or read the one that is there."""
        self.key_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.key_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            if os.fstat(descriptor).st_mode & 0o077:
                raise WorkerError(f"{self.key_path} can be read by others; run chmod 600 {self.key_path}")
            if not (key := file.read()):
                key = secrets.token_hex(32).encode()
                file.write(key)
        return key

    def remove(self) -> None:
        """Remove the socket, and the key that lies beside it."""
        if self.is_path:
            Path(self.text).unlink(missing_ok=True)
            if self.key_path == Path(f"{self.text}.key"):
                self.key_path.unlink(missing_ok=True)

    def listen(self) -> socket.socket:
        """A socket that experiments can connect to.

        Raises:
            WorkerError: somebody else is there, or the address cannot be had.
        """
        one = socket.socket(socket.AF_UNIX if self.is_path else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if self.is_path:
                Path(self.text).parent.mkdir(parents=True, exist_ok=True)
                self._bind_path(one)
            else:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(_host_and_port(self.text) or self.text)
            one.listen(64)
        except OSError as error:
            one.close()
            raise WorkerError(f"cannot serve at {self}: {error.strerror or error}; choose another address") from error
        except WorkerError:
            one.close()
            raise
        return one

    def _bind_path(self, one: socket.socket) -> None:
        path = Path(self.text)
        if path.exists() and not path.is_socket():
            raise WorkerError(f"cannot serve at {self}: it is a file; choose another address")
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(_HANDSHAKE_S)
                with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):  # left by a server that was killed
                    probe.connect(self.text)
                    raise WorkerError(f"workers are already served at {self}; stop them or choose another address")
            path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            one.bind(self.text)
        finally:
            os.umask(before)

    def connect(self) -> Connection:
        """Connect to the server and prove to know the key, as it does.

        Raises:
            WorkerError: nobody is there, or it has another key.
        """
        key = self.read_key()
        one = socket.socket(socket.AF_UNIX if self.is_path else socket.AF_INET, socket.SOCK_STREAM)
        try:
            one.settimeout(_HANDSHAKE_S)
            one.connect(_host_and_port(self.text) or self.text)
            connection = as_connection(one)
        except OSError as error:
            one.close()
            why = error.strerror or str(error)
            raise WorkerError(f"no workers at {self}: {why}; start them with 'mlgo workers serve'") from error
        try:
            answer_challenge(connection, key)
            deliver_challenge(connection, key)
        except AuthenticationError as error:
            connection.close()
            raise WorkerError(f"the workers at {self} have another key than {self.key_path}") from error
        except (OSError, EOFError, AssertionError) as error:
            connection.close()
            raise WorkerError(f"{self} does not answer as a server of workers does; is it another's?") from error
        return connection


def welcome(one: socket.socket, key: bytes) -> Connection:
    """The server's side of `Address.connect`; what it raises is of no interest to anybody but the one refused.

    Raises:
        OSError: the other side is silent or has gone.
        AuthenticationError: it does not know the key.
    """
    connection = as_connection(one)
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
        wait_for_ever(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def as_connection(one: socket.socket) -> Connection:
    """Make a connected socket speak in messages; each part of one must come and go within a deadline."""
    one.settimeout(None)
    if one.family == socket.AF_INET:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            one.setsockopt(socket.IPPROTO_TCP, option, value)
    _set_deadline(one, _HANDSHAKE_S)
    return Connection(one.detach())


def wait_for_ever(connection: Connection) -> None:
    """Lift the deadline: the other side may think for as long as it likes."""
    with socket.socket(fileno=os.dup(connection.fileno())) as one:
        _set_deadline(one, 0.0)


def hang_up(connection: Connection) -> None:
    """End a connection that other threads read or write, which wakes them."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as one:
        one.shutdown(socket.SHUT_RDWR)


def _set_deadline(one: socket.socket, seconds: float) -> None:
    value = struct.pack("ll", int(seconds), 0)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def _host_and_port(text: str) -> tuple[str, int] | None:
    host, colon, port = text.rpartition(":")
    return (host, int(port)) if colon and host and port.isdigit() and "/" not in text else None
