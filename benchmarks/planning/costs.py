"""What single steps cost, as they were measured on one machine."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mlgo.errors import ArtifactError


@dataclass(frozen=True)
class UnitCosts:
    """Times in seconds, sizes in bytes.

    Attributes:
        driver_message_s: the driver's time for one message to a worker and the answer to it, besides its jobs.
        driver_job_s: its time for each job in them: made, pickled with the policy, scheduled, its result read.
        driver_send_share: how much of both passes before the job is on its way.
        job_bytes: a pickled job with its policy.
        result_bytes: a pickled result.
        recall_s: walking a policy down a tree that is in memory, besides its questions.
        recall_question_s: the same for each question.
        load_byte_s: reading what a tree's file holds, for each of its bytes.
        keep_s: adding a compile to a tree, besides its bytes.
        keep_byte_s: the same for each byte that is appended.
        update_s: the learner's step, besides its candidates.
        update_candidate_s: the same for each candidate.
    """

    driver_message_s: float
    driver_job_s: float
    driver_send_share: float
    job_bytes: float
    result_bytes: float
    recall_s: float
    recall_question_s: float
    load_byte_s: float
    keep_s: float
    keep_byte_s: float
    update_s: float
    update_candidate_s: float

    def driver_task_s(self, in_message: float = 1.0) -> float:
        """The driver's time for each job, when so many of them share a message."""
        return self.driver_message_s / in_message + self.driver_job_s


FREE = UnitCosts(0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""Nothing costs anything but compiles."""


def costs_record(costs: UnitCosts, how: Mapping[str, str]) -> dict[str, Any]:
    """As plain values, each with how it was measured."""
    return {name: {"value": float(f"{value:.4g}"), "how": how[name]} for name, value in asdict(costs).items()}


def costs_of(record: Mapping[str, Any]) -> UnitCosts:
    """Read them back.

    Raises:
        ArtifactError: one is missing, or is no number.
    """
    try:
        return UnitCosts(**{one.name: float(record[one.name]["value"]) for one in fields(UnitCosts)})
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"unit costs lack {error}; measure them anew: python -m benchmarks.planning --measure"
        ) from error


def with_driver(costs: UnitCosts, drivers: Mapping[str, Any], kind: str) -> UnitCosts:
    """The same with what jobs cost the driver of another kind of worker.

    Args:
        costs: of everything else.
        drivers: records by kind of worker: ``message_s``, ``job_s``, ``send_share``, ``job_bytes``, ``result_bytes``.
        kind: which.

    Raises:
        ArtifactError: it was not measured.
    """
    if kind not in drivers:
        raise ArtifactError(
            f"the driver of {kind} workers was not measured; run: python -m benchmarks.planning --measure --{kind}"
        )
    found = drivers[kind]
    return replace(
        costs,
        driver_message_s=found["message_s"],
        driver_job_s=found["job_s"],
        driver_send_share=found["send_share"],
        job_bytes=found["job_bytes"],
        result_bytes=found["result_bytes"],
    )
