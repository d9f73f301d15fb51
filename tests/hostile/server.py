"""A Python that has imported the command line of a checkout, and runs each input in a fork, within limits.

It runs by itself in any checkout of mlgo, also an older one, so it imports nothing of these tests. Requests and answers
are pickles on the standard streams. It takes orphans of what it has run, so what an input leaves running is seen.
"""

import ctypes
import importlib
import json
import os
import pickle
import resource
import runpy
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("<Q")
MEMORY_BYTES, ADDRESS_BYTES, FILE_BYTES = 1600 << 20, 12 << 30, 1 << 30
"""Most that an input may have: resident with all that it starts, addresses of a process, and bytes of a file."""
_COMMANDS = (
    "doctor capture corpus compile_module cc ld evaluate import_model replay configure size_diff publish combine"
)
_SUBREAPER = 36
_PAGE = resource.getpagesize()


def artifacts() -> Any:
    """The module with the schemas of tables."""
    for name in ("mlgo.base.artifacts", "mlgo.core.artifacts"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise RuntimeError("this checkout has no schemas of tables")


def write_rows(path: str, schema: str, rows: list[dict[str, Any]], origin: dict[str, Any]) -> None:
    """Write a table by the checkout's own writer; columns that a row lacks get an empty value."""
    fields = getattr(artifacts(), schema)
    empty = {"string": "", "bool": False, "int64": 0, "int32": 0, "double": 0.0}
    rows = [{one.name: row.get(one.name, _empty(one, empty)) for one in fields} for row in rows]
    artifacts().write_rows(Path(path), rows, fields, {**artifacts().provenance(), **origin})


def _empty(field: Any, empty: dict[str, Any]) -> Any:
    return None if field.nullable else empty.get(str(field.type), [])


def read_rows(path: str, schema: str) -> list[dict[str, Any]]:
    """Rows of a table by the checkout's own reader."""
    found: list[dict[str, Any]] = artifacts().read_table(Path(path), getattr(artifacts(), schema)).to_pylist()
    return found


def read_origin(path: str) -> dict[str, Any]:
    """Provenance of a table."""
    found: dict[str, Any] = artifacts().read_provenance(Path(path))
    return found


def read_policy(path: str) -> tuple[Any, ...]:
    """All that a stored policy says."""
    policy = importlib.import_module("mlgo.policy.stored").load_stored(Path(path))
    weights = getattr(policy, "weights", None)
    record = json.loads((Path(path) / "policy.json").read_bytes())
    return (json.dumps(record, sort_keys=True), None if weights is None else weights.tobytes())


def store_policy(source: str, folder: str) -> None:
    """Store a policy as this checkout does now."""
    stored = importlib.import_module("mlgo.policy.stored")
    stored.save_policy(stored.load_policy(Path(source)), Path(folder))


def read_other(kind: str, path: str) -> int:
    """Give a file to a parser of what compilers write."""
    remarks, data = importlib.import_module("mlgo.objects.remarks"), Path(path).read_bytes()
    parsers = {"remarks": remarks.read_spill_costs, "calls": lambda text: remarks.read_calls(text, 3)}
    return len(parsers[kind](data))


def tree_key() -> tuple[dict[str, Any], str, str]:
    """Key of response trees, the mark of their records, and the folder of the key."""
    store = importlib.import_module("mlgo.pool.tree_store")
    key = store.TreeKey("0" * 64, "x86_64-linux-gnu", "inline-size", "-Oz", 10.0)
    return importlib.import_module("dataclasses").asdict(key), store.MAGIC.decode(), key.folder


def read_text(path: str) -> str:
    """Bytes of a file as text, for controls."""
    return Path(path).read_text()


def processes() -> dict[int, tuple[int, str, int]]:
    """Parent, state and resident bytes of all processes."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (a hundred times each second)
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        found[int(name)] = (int(fields[1]), fields[0].decode(), int(fields[21]) * _PAGE)
    return found


def descendants() -> dict[int, int]:
    """Resident bytes of what this process has started, and of what that has; zombies left out."""
    found, mine, todo = processes(), {}, [os.getpid()]
    while todo:
        parent = todo.pop()
        for pid, (above, state, resident) in found.items():
            if above == parent:
                todo.append(pid)
                if state != "Z":
                    mine[pid] = resident
    return mine


def command_of(pid: int) -> str:
    """The command line of a process, shortened."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return ""


def end_all() -> None:
    """Kill and collect all descendants."""
    while mine := descendants():
        for pid in mine:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        collect()
        time.sleep(0.01)
    collect()


def collect() -> None:
    """Collect orphans."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def stretch() -> float:
    """How much longer things take on a machine that does other things as well, but for hangs."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 6.0)


def watch(request: dict[str, Any]) -> dict[str, Any]:
    """Run a request in a fork to its end or its limits; tell how it ended and what it left running."""
    pid = os.fork()
    if pid == 0:
        try:
            run(request)
        finally:
            os._exit(70)
    begin, status, usage, reason, peak = time.monotonic(), 0, None, "", 0
    looked, end = begin, begin + request["seconds"] * stretch()
    kill_at = begin + request.get("kill_after", float("inf"))
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        now = time.monotonic()
        if ended:
            break
        if now > end:
            reason = "clock"
        elif now > looked + 0.1:
            looked, peak = now, max(peak, sum(descendants().values()))
            reason = "memory" if peak > request.get("memory", MEMORY_BYTES) else ""
        if reason:
            end_all()
            return {"status": -9, "reason": reason, "left": [], "peak": peak, "cpu": request["seconds"]}
        if now > kill_at:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002 if now < begin + 0.5 else 0.02)
    grace = time.monotonic() + 1.0
    while (left := descendants()) and time.monotonic() < grace:
        collect()
        time.sleep(0.02)
    commands = [command_of(one) for one in left]
    end_all()
    peak = max(peak, usage.ru_maxrss << 10)
    cpu = usage.ru_utime + usage.ru_stime
    return {"status": os.waitstatus_to_exitcode(status), "reason": "", "left": commands, "peak": peak, "cpu": cpu}


def run(request: dict[str, Any]) -> None:
    """In the fork: take the place of a program that was started in this way. Does not return."""
    os.setsid()
    for path, descriptor in ((os.devnull, 0), (request["stdout"], 1), (request["stderr"], 2)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    soft = int(request["seconds"]) + 5
    for kind, bound in (
        (resource.RLIMIT_CPU, soft),
        (resource.RLIMIT_AS, request.get("addresses", ADDRESS_BYTES)),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (bound, bound))
    for descriptor in request.get("close", ()):
        os.close(descriptor)
    if request.get("remove_folder"):
        os.rmdir(request["cwd"])  # noqa: PTH106
    status = 0
    try:
        if "call" in request:
            status = call(request)
        else:
            encoding, errors = request.get("encoding", ("utf-8", "surrogateescape"))
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            if 1 not in request.get("close", ()):
                sys.stdout = open(1, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
            sys.argv = request["words"]
            main(request["words"][0])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # as Python itself does
        traceback.print_exc(file=sys.stderr)
        status = 1
    try:
        importlib.import_module("atexit")._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status & 0xFF)


def call(request: dict[str, Any]) -> int:
    """Call a function; what is raised on purpose is a message and status 3."""
    try:
        found = globals()[request["call"]](*request["arguments"])
    except Exception as error:
        if not any(one.__name__ == "MlgoError" for one in type(error).__mro__):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 3
    Path(request["stdout"]).write_bytes(pickle.dumps(found))
    return 0


def main(program: str) -> None:
    """Run ``mlgo``, or a script of the checkout."""
    if program == "mlgo":
        importlib.import_module("mlgo.cli.main").main()
    else:
        runpy.run_path(program, run_name="__main__")


def serve() -> None:
    """Import, then answer requests until there are no more."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 (the checkout)
    for name in _COMMANDS.split():
        importlib.import_module(f"mlgo.cli.{name}")
    artifacts()
    importlib.import_module("mlgo.policy.stored")
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while header := requests.read(LENGTH.size):
        answer = pickle.dumps(watch(pickle.loads(requests.read(LENGTH.unpack(header)[0]))))
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    serve()
