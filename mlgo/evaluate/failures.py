"""Modules that keep failing: taken out of training, with their reason on record."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from mlgo.errors import NothingCompiled

_MIN_SHARE = 0.5


@dataclass(frozen=True)
class FailureRecord:
    """How compiles of one module went.

    Attributes:
        reason: kind and message of the last failure.
    """

    compiles: int = 0
    failures: int = 0
    reason: str = ""


class Quarantine:
    """Counts failures by module.

    A module is out once ``max_failures`` of its compiles, and at least half of all of them, have failed: one bad
    candidate does not condemn it. Whoever asks decides when; training asks between generations, so that the number of
    workers does not matter.

    Args:
        records: what `state` returned in an earlier run.
    """

    def __init__(self, max_failures: int, records: dict[str, dict[str, Any]] | None = None) -> None:
        self._max_failures = max_failures
        self._records = {key: FailureRecord(**record) for key, record in (records or {}).items()}

    def note(self, module: str, reason: str) -> None:
        """Count one more compile of a module, and why it failed; empty where it did not."""
        old = self._records.get(module, FailureRecord())
        self._records[module] = FailureRecord(old.compiles + 1, old.failures + bool(reason), reason or old.reason)

    def __contains__(self, module: str) -> bool:
        """Whether a module is out."""
        record = self._records.get(module, FailureRecord())
        return record.failures >= max(self._max_failures, _MIN_SHARE * record.compiles)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Name a failure in the error of a learner that got no compile at all.

        Raises:
            NothingCompiled: the block did, now with the last failure of the module that failed most often.
        """
        try:
            yield
        except NothingCompiled as error:
            failed = [(record.failures, key, record.reason) for key, record in self._records.items() if record.failures]
            if not failed:
                raise
            _, key, reason = max(failed)
            raise NothingCompiled(f"{error} (for example {key}: {' '.join(reason.split())})") from error

    def state(self) -> dict[str, dict[str, Any]]:
        """All records as plain values, by module key."""
        return {key: asdict(record) for key, record in sorted(self._records.items())}

    def rows(self) -> list[dict[str, Any]]:
        """Every module with a failure, in order, as rows of ``artifacts.FAILURES``."""
        return [
            {"module": key, **record, "quarantined": key in self}
            for key, record in self.state().items()
            if record["failures"]
        ]
