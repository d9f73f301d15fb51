"""What pages show of what training has seen: bytes of linked files by kind, and programs unlike those trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mlgo.compare.inference import Bootstrap
from mlgo.compare.measured import Contender, Row
from mlgo.compare.seen import MOST_SEEN, REST, Key, KindBytes, kind_rows, seen_by_program, unlike_trained
from mlgo.compare.shipped import measured_programs, shipped_totals
from mlgo.corpus.seen import BINDINGS, EXACT, NEAR, STANDARD, UNSEEN
from mlgo.report.metrics import shipped_metrics
from mlgo.report.pages import Table, count_column, gain_column, gain_columns, text_column, verdict_columns

TITLES = {
    UNSEEN: "the project's own code, not seen",
    NEAR: "its own code, seen nearly",
    EXACT: "its own code, seen exactly",
    STANDARD: "the standard library",
    BINDINGS: "bindings to Python",
    REST: "rest: constants, stubs, padding",
}
"""How pages call kinds."""


@dataclass(frozen=True)
class Seen:
    """Linked files by what training has seen of them.

    Attributes:
        kinds: bytes of each kind, by policy and split.
        programs: share of each program's own code that training has seen.
        unlike: each policy over the programs of each split of which it has seen little.
    """

    kinds: Sequence[KindBytes]
    programs: Mapping[Key, float]
    unlike: Sequence[Row]

    @property
    def by_kind(self) -> Table:
        """Bytes and gains by kind."""
        several = len({row.split for row in self.kinds}) > 1
        return Table(
            [
                text_column("policy", lambda row: row.policy),
                *([text_column("split", lambda row: row.split)] if several else []),
                text_column("functions of", lambda row: TITLES[row.kind]),
                count_column("under the heuristic (bytes)", lambda row: row.baseline),
                text_column("share", lambda row: _percent(row.share)),
                count_column("under the policy (bytes)", lambda row: row.under_policy),
                gain_column("part of the whole gain", lambda row: row.gain),
            ],
            self.kinds,
        )

    @property
    def totals(self) -> Table:
        """Gains over the programs unlike those trained on."""
        return Table(
            [
                text_column("policy", lambda row: row.name),
                text_column("split", lambda row: row.split),
                count_column("programs", lambda row: row.by("total").num_compared),
                count_column("projects", lambda row: row.by("total").num_projects),
                *gain_columns(lambda row: row.by("total")),
                *verdict_columns(lambda row: row.by("total")),
                count_column("under the heuristic (bytes)", lambda row: row.by("total").baseline_sum),
                count_column("under the policy (bytes)", lambda row: row.by("total").policy_sum),
            ],
            self.unlike,
        )

    @property
    def by_program(self) -> Table:
        """Share of each program that was seen."""
        return Table(
            [
                text_column("project", lambda one: one[0][0]),
                text_column("program", lambda one: one[0][1]),
                text_column("seen of its own code", lambda one: _percent(one[1])),
            ],
            list(self.programs.items()),
        )

    @property
    def most(self) -> str:
        """Share up to which a program counts as unlike what was trained on."""
        return _percent(MOST_SEEN)

    def metrics(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {
            "kinds": [{**vars(row), "gain_percent": 100.0 * row.gain} for row in self.kinds],
            "programs": {"/".join(key): share for key, share in self.programs.items()},
            "unlike": shipped_metrics(self.unlike),
            "most_seen": MOST_SEEN,
        }


def compare_seen(shipped: pa.Table, policies: Sequence[Contender], bootstrap: Bootstrap) -> Seen:
    """Tell linked files apart by what training has seen of them.

    Args:
        shipped: ``artifacts.SHIPPED_SIZES``.
        policies: who is compared.
        bootstrap: makes the intervals, which are over projects.
    """
    few = unlike_trained(shipped)
    unlike = shipped_totals(measured_programs(few, policies), bootstrap) if few.num_rows else []
    return Seen(kind_rows(shipped, policies), seen_by_program(shipped), unlike)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"
