"""What a worker is asked to do."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.host.known import KnownPath
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import Advisor


@dataclass(frozen=True)
class CompileJob:
    """One compile to do.

    Attributes:
        module: key of the module, for messages.
        bitcode: its file.
        advisor: answers the questions; None compiles without a channel.
        with_default: ask for the heuristic's decision as a feature.
        record: bring the raw observations back.
        count_done: count the changes made in ``num_remarks``, instead of watching for an early stop.
        sha256: hash of the bitcode; with it, the compile may be found in, and is added to, the module's tree.
        known: first questions of each context, answered without waiting for them.
        object_path: where to keep the object file; such a job is always compiled.
        optimization: another level than the configured one; empty for that.
        costs_only: of the outcome, only what functions cost is wanted. Their trees tell that of compiles that were
            never done, but no sizes.
        with_credit: tell the functions of the decisions, and their sizes; such a job is always compiled, as trees do
            not hold that.
        read: what the worker makes of the module's key and its compile. It stands in the outcome, in place of
            header, answers, observations and functions, so that the driver neither receives nor decodes these.
    """

    module: str
    bitcode: Path
    advisor: Advisor | None
    with_default: bool = False
    record: bool = False
    count_done: bool = False
    sha256: str = ""
    known: KnownPath | None = None
    object_path: Path | None = None
    optimization: str = ""
    costs_only: bool = False
    with_credit: bool = False
    read: Callable[[str, CompileResult], Any] | None = None
