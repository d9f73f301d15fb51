"""Experiments that share workers take turns: whose jobs go first where they meet."""

from dataclasses import dataclass

TURN_S = 60.0
"""How long a turn lasts at most, in seconds of all workers."""


@dataclass(eq=False)
class FairShare:
    """The turns of one experiment.

    Learners ask for a batch of compiles and think until they ask for the next. A turn begins when an experiment that
    waits for nothing asks again, and jobs of earlier turns go first. So batches are done one after another, not side by
    side, and experiments that began together soon think at different times. Done side by side, two equal batches
    would both end late and at once, all would think at once, and the workers would idle then.

    What one experiment leaves free, the others use. One that has used all workers for ``turn_s`` goes to the back of
    the line, so that a long evaluation does not keep the others waiting.

    Args:
        num_workers: workers that are shared.
        turn_s: how long a turn lasts at most, in seconds of all workers; 0 serves jobs in the order they come.
    """

    num_workers: int
    turn_s: float = TURN_S
    _began: float = 0.0
    _outstanding: int = 0
    _used_s: float = 0.0

    def asks(self, now: float) -> float:
        """One more job is sent; returns the rank of it, and the lowest comes first."""
        if not self._outstanding or self._used_s >= self.turn_s * self.num_workers:
            self._began, self._used_s = now, 0.0
        self._outstanding += 1
        return self._began

    def ends(self, seconds: float) -> None:
        """A job has ended after it has run for so long."""
        self._outstanding -= 1
        self._used_s += seconds
