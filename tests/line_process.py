"""A process beside the tests that answers each line of JSON with a line; it starts with the first."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class LineProcess:
    def __init__(
        self, command: Sequence[str | Path], folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._where = command, {"cwd": folder, "env": environment}
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Any) -> str:
        """Its answer; a process that has died is a failure."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **self._where
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process has died with status {self._process.wait()}"
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=30)
