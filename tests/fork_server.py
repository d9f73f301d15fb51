"""A Python that has imported what programs need, and runs each of them in a fork: a start of its own takes seconds."""

import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from tests.line_process import LineProcess


class ForkServer(LineProcess):
    """Runs programs one after another.

    Args:
        modules: imported before the first program; none of them may start a thread.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        from mlgo.base.threads import VARIABLES  # not in the server: its programs may have another version of mlgo

        command = [sys.executable, "-m", "tests.fork_server", *modules]
        super().__init__(command, Path(__file__).parent.parent, {**os.environ, **dict.fromkeys(VARIABLES, "1")})

    def run(
        self, program: str, *arguments: str | Path, folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a module, or a file that ends with ``.py``, as the main program."""
        command = [program, *map(str, arguments)]
        with tempfile.TemporaryDirectory() as outputs:
            stdout, stderr = (Path(outputs) / name for name in ("stdout", "stderr"))
            status = int(self.ask([command, str(folder), dict(environment), str(stdout), str(stderr)]))
            return subprocess.CompletedProcess(command, status, stdout.read_text(), stderr.read_text())


def _serve() -> list[str]:
    """Answer requests with exit statuses; returns in a fork, with the words of its command."""
    for line in sys.stdin:
        command, folder, environment, stdout, stderr = json.loads(line)
        process = os.fork()
        if process == 0:
            for path, descriptor in ((os.devnull, 0), (stdout, 1), (stderr, 2)):
                os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            return command
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
    sys.exit()


def _run(program: str) -> None:
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        import_module(name)
    sys.argv = _serve()
    try:
        _run(sys.argv[0])
    except SystemExit as end:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(end.code or 0))  # without taking apart all that is imported, which takes a while
