"""Outcome of the self-test: does echoing the heuristic give the very object file of a plain compile?"""

from dataclasses import dataclass
from typing import Any

from mlgo.errors import ArtifactError
from mlgo.host.process import without_folders


@dataclass(frozen=True)
class SelfTest:
    """Outcome over all modules.

    Attributes:
        num_modules: modules tested.
        num_passed: modules with equal object files.
        differing: module and likely cause of each other one.
    """

    num_modules: int
    num_passed: int
    differing: list[tuple[str, str]]


def read_self_test(summary: Any) -> SelfTest | None:
    """Take the outcome from ``baseline/summary.json``; None where the task has no such test.

    Raises:
        ArtifactError: it is not in there.
    """
    try:
        if summary["self_test_passed"] is None:
            return None
        differing = [(item["module"], without_folders(item["cause"])) for item in summary["self_test_failed"]]
        return SelfTest(int(summary["modules"]), int(summary["self_test_passed"]), differing)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError("the baseline summary tells no self-test; run the baseline stage again") from error
