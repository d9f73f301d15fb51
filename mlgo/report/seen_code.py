"""Linked files by what training has seen of them: bytes by kind, and programs unlike those trained on.

Inlining moves code: a function of one kind that is inlined into another kind's leaves the first and enters the second.
So the bytes of all kinds are reported together, and their changes add up to that of the whole files. None is left out.
What generalises is read from whole programs of which training has seen little
(docs/decisions/0039-seen-in-training.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import Row, RowView
from mlgo.compare.inference import Bootstrap
from mlgo.compare.programs import measured_programs, shipped_totals
from mlgo.compare.scores import SPLITS, ComparisonRow, Contender, item_keys
from mlgo.corpus.seen import BINDINGS, EXACT, KINDS, NEAR, STANDARD, UNSEEN, seen_share
from mlgo.host.tasks.task import HEURISTIC
from mlgo.report.metrics import shipped_metrics
from mlgo.report.pages import HTML, Column, Table, count_column, gain_column, gain_columns, text_column, verdict_columns

REST = "rest"
"""What is of no function that the source has: constants, padding, stubs, and what unwind entries have in common."""

MOST_SEEN = 0.05
"""Share of a program's own code, in bytes under the heuristic, up to which it counts as unlike what was trained on."""

Key = tuple[str, str]
"""Project and program."""


@dataclass(frozen=True)
class KindBytes:
    """Bytes of one kind in all programs of a split."""

    policy: str
    split: str
    kind: str
    baseline: int
    under_policy: int
    whole: int

    @property
    def share(self) -> float:
        """Share of the kind under the heuristic."""
        return self.baseline / self.whole if self.whole else 0.0

    @property
    def gain(self) -> float:
        """What its change is of the whole: 0.01 means that the files are one percent smaller by it."""
        return (self.baseline - self.under_policy) / self.whole if self.whole else 0.0


def bytes_of_kinds(row: RowView) -> dict[str, int]:
    """Bytes of a linked file by kind, code and unwind entries together; they add up to its total."""
    if not row["kinds"] or row["total"] is None:
        return {}
    found = {one["kind"]: one["text"] + one["unwind"] for one in row["kinds"]}
    return {**{kind: found.get(kind, 0) for kind in KINDS}, REST: row["total"] - sum(found.values())}


def seen_by_program(shipped: pa.Table) -> dict[Key, float]:
    """Share of each linked file's own code that training has seen, exactly or nearly; of those where it is known."""
    rows = shipped.filter((pc.field("contender") == HEURISTIC) & ~pc.field("folded")).to_pylist()
    known = {(row["project"], row["program"]): found for row in rows if (found := bytes_of_kinds(row))}
    return {key: seen_share(found) for key, found in known.items() if found[UNSEEN] + found[NEAR] + found[EXACT]}


def kind_rows(shipped: pa.Table, policies: Sequence[Contender]) -> list[KindBytes]:
    """Add up the bytes of each kind over the programs of each split, under each policy and under the heuristic."""
    known: dict[tuple[str, str], dict[Key, list[int]]] = {}
    for row in shipped.filter(~pc.field("folded")).to_pylist():
        if found := bytes_of_kinds(row):
            by_program = known.setdefault((row["contender"], row["split"]), {})
            by_program[row["project"], row["program"]] = list(found.values())
    rows = []
    for policy, split in product(policies, SPLITS):
        plain, advised = (known.get((name, split), {}) for name in (HEURISTIC, policy.name))
        if both := plain.keys() & advised.keys():
            before, after = (np.sum([side[key] for key in both], axis=0).tolist() for side in (plain, advised))
            whole, columns = sum(before), zip((*KINDS, REST), before, after, strict=True)
            rows += [KindBytes(policy.name, split, kind, a, b, whole) for kind, a, b in columns]
    return rows


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
    """Linked files by what training has seen of them; ``unlike`` are totals of programs of which it has seen little."""

    kinds: Sequence[KindBytes]
    programs: Mapping[Key, float]
    unlike: Sequence[ComparisonRow]

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
                Column("share", lambda row, style: style.share(row.share)),
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
                Column("seen of its own code", lambda one, style: style.share(one[1])),
            ],
            list(self.programs.items()),
        )

    @property
    def most(self) -> str:
        """Share up to which a program counts as unlike what was trained on."""
        return HTML.share(MOST_SEEN)

    def metrics(self) -> Row:
        """All of it as plain values, for JSON."""
        return {
            "kinds": [{**vars(row), "gain_percent": 100.0 * row.gain} for row in self.kinds],
            "programs": {"/".join(key): share for key, share in self.programs.items()},
            "unlike": shipped_metrics(self.unlike),
            "most_seen": MOST_SEEN,
        }


def compare_seen(shipped: pa.Table, policies: Sequence[Contender], bootstrap: Bootstrap) -> Seen:
    """Report linked files, ``artifacts.SHIPPED_SIZES``, separately by what training has seen of them."""
    programs = seen_by_program(shipped)
    few = pa.array(["/".join(key) for key, share in programs.items() if share <= MOST_SEEN], pa.string())
    rows = shipped.filter(pc.is_in(item_keys(shipped, ("project", "program")), few))
    unlike = shipped_totals(measured_programs(rows, policies), bootstrap) if rows.num_rows else []
    return Seen(kind_rows(shipped, policies), programs, unlike)
