"""A Python beside the tests in which programs run one after another, so that TensorFlow is imported only once."""

import json
import sys
from pathlib import Path

from tests.line_process import LineProcess


class TensorFlowProcess(LineProcess):
    """It is not the tests' own process, since that one starts compilers."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.tensorflow_process"]
        super().__init__(command, Path(__file__).parent.parent)

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run the text of a program that finds its arguments in ``sys.argv``; what it prints."""
        said, error = json.loads(self.ask([program, *map(str, arguments)]))
        assert error is None, error
        return said


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
