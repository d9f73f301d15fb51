"""A Ray cluster: one that is there, or one started here for as long as somebody uses it."""

import contextlib
import ipaddress
import os
import platform
import queue
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from mlgo.base.files import place, source_hash
from mlgo.base.packages import import_extra
from mlgo.errors import PackageError, WorkerError
from mlgo.host.process import Child

LOCAL_INSTEAD = "or set workers.kind: local to use the processes of this machine"
"""End of every message about a cluster that cannot be had."""

_CONNECT_TIMEOUT_S = 10.0
_HEAD_ASKED_S = 5.0
_HEAD_GONE_S = 30.0
"""Without its head, Ray's core ends the driver's process after 60 s."""

_MODE = "RAY_AUTH_MODE"
_REFUSED = 3
# Asks who is in the cluster, without a token.
_STRANGER = f"""
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    GcsClient(address=sys.argv[1]).get_all_node_info(timeout={_CONNECT_TIMEOUT_S})
except AuthenticationError:
    sys.exit({_REFUSED})
"""
_STRANGER_ASKS_S = 60.0

_PACKAGE = Path(__file__).parent.parent
_connections = 0
_started_here = False


def connect(address: str, files: Literal["send", "shared"], **local: Any) -> ModuleType:
    """Join a cluster, which `disconnect` leaves again; calls may be nested.

    Args:
        address: ``host:port`` of its head, ``auto`` for the cluster that this machine belongs to; empty starts one on
            this machine.
        files: whether nodes are sent our code, or find it where we do.
        **local: of ``ray.init``, for a cluster that is started here.

    Returns:
        The module ``ray``, connected.
    """
    global _connections, _started_here
    try:
        ray = import_extra("ray", "ray", "a Ray cluster")
    except PackageError as error:
        raise WorkerError(f"{error}, {LOCAL_INSTEAD}") from error
    if not ray.is_initialized():
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        os.environ.setdefault("RAY_worker_niceness", "0")  # as local workers; where a cluster is started here
        if address not in ("", "auto"):  # where nobody listens Ray's core ends the whole process after some time
            try:
                _touch(address, _CONNECT_TIMEOUT_S)
            except ValueError as error:
                raise WorkerError(f"workers.address is host:port, auto or empty, not {address!r}") from error
            except OSError as error:
                start = "start one with ray start --head"
                raise WorkerError(f"no Ray cluster at {address}: {error}; {start}, {LOCAL_INSTEAD}") from error
        _authenticate(ray, address)
        options: dict[str, Any] = {"address": address}
        if not address:  # Ray's own default would be a cluster that somebody else has started on this machine
            options = {"address": "local", "include_dashboard": False, **local}
        our_code = (
            {"py_modules": [str(_PACKAGE)], "excludes": ["**/__pycache__/**"]}
            if files == "send"
            else {"env_vars": {"PYTHONPATH": str(_PACKAGE.parent)}}
        )
        at_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
                namespace="mlgo",
                runtime_env=our_code,
                **options,
            )
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, at_sigterm)  # Ray's would end the process with another status
        except ray.exceptions.AuthenticationError as error:
            raise WorkerError(
                f"the Ray cluster asks for another token; copy ~/.ray/auth_token of its head to here, {LOCAL_INSTEAD}"
            ) from error
        except ConnectionError as error:
            where = "on this machine" if address == "auto" else f"at {address}"
            raise WorkerError(
                f"no Ray cluster {where}: {first_line(error)}; see ray status, "
                f"copy its ~/.ray/auth_token, {LOCAL_INSTEAD}"
            ) from error
        except (RuntimeError, ValueError, OSError) as error:
            raise WorkerError(f"cannot join the Ray cluster: {first_line(error)}; {LOCAL_INSTEAD}") from error
        _started_here = not address
        _connections = 0
    _connections += 1
    return ray


def _authenticate(ray: ModuleType, address: str) -> None:
    """Show a token to the cluster; refuse one that is open to a network, as whoever is in it could run code here.

    ``RAY_AUTH_MODE=disabled`` of the user says that nobody else is in that network.
    """
    if os.environ.get(_MODE, "token").lower() == "disabled":
        return
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if not address:  # Ray makes a token for it, which all users of this machine could read
        with contextlib.suppress(OSError):
            place(token, secrets.token_hex(32).encode(), 0o600)
            token.chmod(0o600)
        return
    if address == "auto":
        with contextlib.suppress(ConnectionError):  # there is none, as joining it will say
            address = ray._private.services.canonicalize_bootstrap_address_or_die(address)
    host, is_loopback = address.rpartition(":")[0].strip("[]"), False
    with contextlib.suppress(ValueError):
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    if not is_loopback or token.exists() or "RAY_AUTH_TOKEN" in os.environ:
        os.environ[_MODE] = "token"
        ray._raylet.Config.initialize("")  # it has read the variable when it was imported
    if is_loopback or address == "auto":
        return
    stranger = Child([sys.executable, "-c", _STRANGER, address], env=os.environ | {_MODE: "disabled"})
    run = stranger.finish(_STRANGER_ASKS_S)
    if run.returncode == 0:
        raise WorkerError(
            f"the Ray cluster at {address} lets in whoever reaches it, and they could run code here; start all of it "
            f"with {_MODE}=token, or set {_MODE}=disabled if nobody else is in its network, {LOCAL_INSTEAD}"
        )
    if run.returncode != _REFUSED:
        reason = (run.stderr.strip().splitlines() or ["no answer"])[-1][:300]
        raise WorkerError(f"no Ray cluster at {address}: {reason}; see ray status, {LOCAL_INSTEAD}")


def _touch(address: str, timeout_s: float) -> None:
    """Connect to ``host:port`` and hang up; `ValueError` where it is none, `OSError` where nobody listens."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout_s).close()


def is_listening(address: str) -> bool:
    """Whether somebody listens at ``host:port``."""
    try:
        _touch(address, _HEAD_ASKED_S)
    except (OSError, ValueError):
        return False
    return True


class Inbox:
    """What calls of actors come to, in the order in which it comes, for as long as the cluster has its head.

    Args:
        head: ``host:port``.
    """

    def __init__(self, head: str) -> None:
        self._head, self._next, self._heard = head, 0.0, time.monotonic()
        self._arrivals: queue.SimpleQueue[tuple[Any, Future[Any]]] = queue.SimpleQueue()

    def expect(self, reference: Any, about: Any) -> None:
        """Have a result delivered, with whatever tells what it is."""
        reference.future().add_done_callback(lambda future: self._arrivals.put((about, future)))

    def take(self, *limits: float | None) -> list[tuple[Any, "Future[Any]"]]:
        """All that has come; waits for the first, but none of the limits in seconds, and some seconds at most."""
        self._look_at_head()
        seconds = min(one for one in (*limits, self._next - time.monotonic()) if one is not None)
        arrivals = []
        with contextlib.suppress(queue.Empty):
            arrivals.append(self._arrivals.get(timeout=max(0.0, seconds)))
            while True:
                arrivals.append(self._arrivals.get_nowait())
        return arrivals

    def _look_at_head(self) -> None:
        """See that the cluster's head is still there, if it is time for that."""
        if time.monotonic() < self._next:
            return
        try:
            _touch(self._head, _HEAD_ASKED_S)
            self._heard = time.monotonic()
        except OSError as error:
            if time.monotonic() - self._heard >= _HEAD_GONE_S:
                raise WorkerError(
                    f"the head of the Ray cluster at {self._head} is gone ({error}); start the cluster and run "
                    f"again to go on from the last checkpoint, {LOCAL_INSTEAD}"
                ) from error
        self._next = time.monotonic() + _HEAD_ASKED_S


def on_this_machine(ray: ModuleType) -> Any:
    """Scheduling strategy for an actor that must see what the driver sees."""
    node = ray.get_runtime_context().get_node_id()
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def disconnect() -> None:
    """Leave the cluster when nobody uses it any more; one that was started here ends, and its folder goes."""
    global _connections
    import ray

    _connections -= 1
    if _connections > 0 or not ray.is_initialized():
        return
    session = Path(ray._private.worker._global_node.get_session_dir_path()) if _started_here else None
    ray.shutdown()
    if session is not None:
        shutil.rmtree(session, ignore_errors=True)


def versions() -> dict[str, str]:
    """What driver and nodes must have in common for results to be the same to the last bit, and where this is."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "mlgo": source_hash(),
    }


def check_versions(here: dict[str, str], there: dict[str, str], node: str) -> None:
    """See that a node has what the driver has."""
    different = [f"{name} {there.get(name)} instead of {one}" for name, one in here.items() if there.get(name) != one]
    if different:
        raise WorkerError(
            f"node {node} has {', '.join(different)}, so results could differ; install the same there, {LOCAL_INSTEAD}"
        )


def first_line(error: BaseException) -> str:
    """What an error says first, to be followed by more."""
    return next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), type(error).__name__)
