"""Stand-in for LLVM's example host, under the names by which its tests call that.

A test of the channel has a small program that gives answers (``Inputs/interactive_main.py``). It imports the modules
``interactive_host`` and ``log_reader`` of llvm/lib/Analysis/models. Here both are made of this one: the answers are the
test's, and what talks to the compiler is this package (`Channel`, `LogParser`, `Child`).
"""

import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.base.scratch import scratch_directory
from mlgo.base.types import TensorSpec
from mlgo.errors import ChannelTimeout, CompileTimeout, MlgoError, ProtocolError
from mlgo.host.conversation import Channel
from mlgo.host.log import Context, Header, LogParser, RawObservation
from mlgo.host.process import Child, die_with_parent
from mlgo.research.lit_standins import not_applicable, unknown_option

MODULES = {
    "interactive_host.py": "from mlgo.research.lit_host import run_interactive\n",
    "log_reader.py": "from mlgo.research.lit_host import TensorSpec, TensorValue\n",
}
"""Files that take the place of LLVM's, and their content."""

_ANSWER_S, _COMPILE_S = 30.0, 300.0


@dataclass(frozen=True)
class TensorValue:
    """A feature, as LLVM's hosts get it: a sequence of numbers, row-major."""

    of: TensorSpec
    values: list[int | float]

    def spec(self) -> TensorSpec:
        """Name, dtype and shape."""
        return self.of

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> int | float:
        if not 0 <= index < len(self.values):
            raise IndexError(f"{self.of.name} has no number {index}")
        return self.values[index]

    def __iter__(self) -> Iterator[int | float]:
        return iter(self.values)


def run_interactive(
    temp_rootname: str,
    make_response: Callable[[list[TensorValue]], int | float],
    process_and_args: Sequence[str],
) -> None:
    """Host a compiler, print its questions, then what it has printed itself."""
    die_with_parent()  # the shell that runs the test
    with scratch_directory() as folder, Channel(folder) as channel:
        own, theirs = f"={channel.base}", f"={temp_rootname}"
        command = [word.removesuffix(theirs) + own if word.endswith(theirs) else word for word in process_and_args]
        out, err = folder / "stdout", folder / "stderr"
        redirected = ["/bin/sh", "-c", 'exec "$@" 2>"$0"', str(err), *command]
        try:
            with Child(redirected, stdout=out) as child:
                status = _converse(channel, child, make_response)
        except MlgoError as error:
            raise SystemExit(f"error: {error}") from error
        told = err.read_text(errors="replace")
        sys.stderr.write(told)
        sys.stdout.write(out.read_text(errors="replace") + told)
    if status:
        unknown = unknown_option(told)
        raise SystemExit(not_applicable(unknown) if unknown else status if status > 0 else 128 - status)


def _converse(channel: Channel, child: Child, respond: Callable[[list[TensorValue]], int | float]) -> int:
    """HeadlineRow until the compiler ends; its exit status."""
    parser, end, context = LogParser(), time.monotonic() + _COMPILE_S, None
    poller = select.poll()
    for descriptor in (channel.out_fd, child.pidfd):
        poller.register(descriptor, select.POLLIN)
    while True:
        ready = dict(poller.poll(1000 * _ANSWER_S))
        if not ready:
            raise ChannelTimeout(f"silent for {_ANSWER_S:g} s")
        if time.monotonic() > end:
            raise CompileTimeout(f"no end within {_COMPILE_S:g} s")
        data = channel.read()
        if not data:
            if child.pidfd in ready:
                if parser.pending_bytes:
                    raise ProtocolError("the compiler ended in the middle of a message")
                return child.reap()
            time.sleep(0.001)  # the writing end is closed, and the process is about to end
        for event in parser.feed(data or b""):
            if isinstance(event, Context) and event.name != context:
                context = event.name
                print(f"context: {context}")
            elif isinstance(event, RawObservation):
                assert parser.header is not None
                print(f"observation: {event.number}")
                channel.answer(_answer(parser.header, event.payload, respond))


def _answer(header: Header, payload: bytes, respond: Callable[[list[TensorValue]], int | float]) -> bytes:
    assert header.advice is not None
    arrays = header.unpack(payload)
    features = [TensorValue(spec, arrays[spec.name].ravel().tolist()) for spec in header.features]
    for feature in features:
        print(f"{feature.of.name}: {','.join(map(str, feature))}")
    return np.full(header.advice.shape, respond(features), header.advice.dtype).tobytes()
