"""A Python that has imported all commands, and runs each command line in a fork: a start of its own takes a second."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from tests.line_process import LineProcess

REPOSITORY = Path(__file__).parents[2]


class CommandProcess(LineProcess):
    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "tests.cli.command_process"], REPOSITORY)

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run ``mlgo`` with arguments in a folder."""
        with tempfile.TemporaryDirectory() as outputs:
            said, errors = (Path(outputs) / name for name in ("stdout", "stderr"))
            status = int(self.ask([arguments, str(folder), environment, str(said), str(errors)]))
            return subprocess.CompletedProcess(arguments, status, said.read_text(), errors.read_text())


def _serve() -> list[str]:
    """Answer requests with exit statuses; returns in a fork, with the arguments of its command."""
    for line in sys.stdin:
        arguments, folder, environment, said, errors = json.loads(line)
        process = os.fork()
        if process == 0:
            for path, descriptor in ((os.devnull, 0), (said, 1), (errors, 2)):
                os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            return arguments
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
    sys.exit()


if __name__ == "__main__":
    from mlgo.base.threads import one_thread_each

    one_thread_each()
    from mlgo.cli.main import build_parser, main
    from mlgo.cli.show_report import PAGES

    build_parser()
    for page in PAGES.values():
        import_module(f"mlgo.{page.module}")
    sys.argv = ["mlgo", *_serve()]
    try:
        main()
    except SystemExit as end:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(int(end.code or 0))  # without taking apart all that is imported, which takes a while
