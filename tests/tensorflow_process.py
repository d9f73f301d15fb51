"""A Python beside the tests in which programs run one after another, so that TensorFlow is imported only once."""

import json
import subprocess
import sys
from pathlib import Path


class TensorFlowProcess:
    """Starts with its first program. It is not the tests' own process, since that one starts compilers."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run the text of a program that finds its arguments in ``sys.argv``; what it prints."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.tensorflow_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parent.parent,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, *map(str, arguments)]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process has died with status {self._process.wait()}"
        said, error = json.loads(answer)
        assert error is None, error
        return said

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=30)


def _serve() -> None:
    import contextlib
    import io
    import traceback

    for line in sys.stdin:
        program, *arguments = json.loads(line)
        sys.argv = ["-c", *arguments]
        said, error = io.StringIO(), None
        try:
            with contextlib.redirect_stdout(said):
                exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps([said.getvalue(), error]), flush=True)


if __name__ == "__main__":
    _serve()
