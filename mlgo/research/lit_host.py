"""Stand-in for LLVM's example host, under the names by which its tests call that.

A test of the channel has a small program that gives answers (``Inputs/interactive_main.py``). It imports the modules
``interactive_host`` and ``log_reader`` of llvm/lib/Analysis/models. Here both are made of this one: the answers are the
test's, and what talks to the compiler is this package (`Conversation`).
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from mlgo.base.config import default_compile
from mlgo.base.scratch import scratch_directory
from mlgo.base.types import TensorSpec
from mlgo.errors import MlgoError
from mlgo.host.conversation import AnswerPrefix, Channel, Conversation
from mlgo.host.log import Header
from mlgo.host.process import Child, die_with_parent
from mlgo.host.tasks.regalloc import REGALLOC_PRIORITY
from mlgo.host.tasks.task import Responder
from mlgo.research.lit_standins import not_applicable, unknown_option

MODULES = {
    "interactive_host.py": "from mlgo.research.lit_host import run_interactive\n",
    "log_reader.py": "from mlgo.research.lit_host import TensorSpec, TensorValue\n",
}
"""Files that take the place of LLVM's, and their content."""

_ANY_TASK = replace(REGALLOC_PRIORITY, guard=None)  # tests get questions as they come, of whatever task
_SETTINGS = default_compile().model_copy(update={"answer_timeout_s": 30.0, "compile_timeout_s": 300.0})


class TensorValue(list[int | float]):
    """A feature, as LLVM's hosts get it: its numbers, row-major."""

    def __init__(self, spec: TensorSpec, values: Iterable[int | float]) -> None:
        super().__init__(values)
        self._spec = spec

    def spec(self) -> TensorSpec:
        """Name, dtype and shape."""
        return self._spec


Respond = Callable[[list[TensorValue]], int | float]


class _HostedProgram:
    """An advisor: the function of a test, which gets features as LLVM's hosts give them, printed as they print."""

    def __init__(self, respond: Respond) -> None:
        self._respond, self._asked = respond, Counter[str | None]()
        self._context: str | None = None

    def enter(self, context: str) -> None:
        """The compiler begins a context, or resumes it."""
        if context != self._context:
            self._context = context
            print(f"context: {context}")

    def respond_to(self, header: Header) -> Responder:
        """Bind to what this compiler sends."""
        assert header.advice is not None
        advice = header.advice

        def answer(payload: bytes) -> bytes:
            print(f"observation: {self._asked[self._context]}")
            self._asked[self._context] += 1
            arrays = header.unpack(payload)
            features = [TensorValue(spec, arrays[spec.name].ravel().tolist()) for spec in header.features]
            for feature in features:
                print(f"{feature.spec().name}: {','.join(map(str, feature))}")
            return np.full(advice.shape, self._respond(features), advice.dtype).tobytes()

        return answer


def run_interactive(temp_rootname: str, make_response: Respond, process_and_args: Sequence[str]) -> None:
    """Host a compiler, print its questions, then what it has printed itself."""
    die_with_parent()  # the shell that runs the test
    program = _HostedProgram(make_response)
    talk = Conversation(_ANY_TASK, program, _SETTINGS, False, AnswerPrefix(), program.enter)
    with scratch_directory() as folder, Channel(folder) as channel:
        own, theirs = f"={channel.base}", f"={temp_rootname}"
        command = [word.removesuffix(theirs) + own if word.endswith(theirs) else word for word in process_and_args]
        out, err = folder / "stdout", folder / "stderr"
        redirected = ["/bin/sh", "-c", 'exec "$@" 2>"$0"', str(err), *command]
        try:
            with Child(redirected, stdout=out) as child:
                status = talk.run(channel, child, time.monotonic())
        except MlgoError as error:
            raise SystemExit(f"error: {error}") from error
        printed = err.read_text(errors="replace")
        sys.stderr.write(printed)
        sys.stdout.write(out.read_text(errors="replace") + printed)
    if status:
        unknown = unknown_option(printed)
        raise SystemExit(not_applicable(unknown) if unknown else status if status > 0 else 128 - status)
