"""The scoreboard: what each learner gains, and at what cost."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from mlgo.base.artifacts import RESULTS, read_table
from mlgo.base.config import load_config, read_settings
from mlgo.base.files import read_json
from mlgo.base.names import LANGUAGE_TITLES
from mlgo.base.registry import LEARNERS, PROBLEMS, Kind
from mlgo.compare.inference import Bootstrap
from mlgo.compare.trainings import read_curves
from mlgo.errors import ConfigError
from mlgo.report.pages import Column, RenderedPage, Table, count_column, gain_column, text_column, verdict_columns
from mlgo.research.budgets_page import budget_page
from mlgo.research.module_sizes import compare_by_size, size_page
from mlgo.research.scoreboard import HOMES, Entry, read_scoreboard, training_command

_CONFIG = Path("config/config.yaml")

_PAGE = """\
# Scoreboard

All learners at about equal compile budgets and equal sizes of networks, written by `make scoreboard`. The greatest gain
by project comes first. Positive gains are lower scores.

{table}

{ships}- **gain**: in {measure} of the {split} split against the built-in heuristic, geometric mean by project, over all
  seeds; intervals are over projects and seeds. **total**: the same for the sum of all. **C++**, **C**: by language.
- **projects**: how many get smaller, larger and stay equal. **corrected p**: of the sign-flip test over projects, by
  Holm's correction for the learners of this table. **verdict**: six projects are needed for one.
  [How it is computed](../statistics.md).
- **over 0.5 % larger**: share of the {items} by the mean of their changes over the seeds.
- **weights**: numbers in one policy.
- **evaluations**: compiles that one training asked for, validations included, mean over the seeds. Learners that start
  from the policy of another one do not count that one's.
- **compiles**: those of them that were done; the others stood in response trees, which all trainings share. So this and
  **minutes**, the wall time of one training, depend on what ran before and on what else the machine did.{bounds}

## Gain within a budget

{budgets}

{sizes}## How to train each row

{commands}
"""

_ABOUT_SHIPS = """\
- **ships**: totals of linked programs and shared objects: code, constants, unwind tables. Geometric mean by project,
  and the sum of all. Projects, what is larger, and the verdict are of these, too; the gains after them are of objects.
"""


_BY_SIZE = """\
## Gain by size of module

{sizes}

"""


def show(args: argparse.Namespace) -> RenderedPage:
    """The table; as a page with the commands that train each row."""
    settings = read_settings(_CONFIG, args.preset)
    problem = PROBLEMS.get(settings.value("task"))
    entries = read_scoreboard(args.data, settings, args.split, args.measure)
    table = _table(entries)
    page = ""
    if args.markdown:
        folder = args.data / HOMES[problem.kind] / "policies"
        _check_preset(folder, entries, args.preset, problem.kind)
        commands = [f"{one.learner}:\n\n    {training_command(one, problem.kind, args.preset)}" for one in entries]
        page = _PAGE.format(
            table=table.markdown(),
            split=entries[0].split,
            ships=_ABOUT_SHIPS if entries[0].ships else "",
            items="programs" if entries[0].ships else problem.kind,
            measure=f"`{args.measure}`" if problem.kind == "modules" else "the scores",
            bounds="" if all(one.complete for one in entries) else " ≥: a training was killed, so more than this.",
            budgets=budget_page(read_curves(folder, [policy for one in entries for policy in one.policies])),
            sizes=_by_size(args, entries[0].split, Bootstrap.of(settings)) if problem.kind == "modules" else "",
            commands="\n\n".join(commands),
        )
    record = [
        {
            **asdict(one),
            "comparisons": {scope: found.record() for scope, found in one.comparisons.items()},
            "ships": one.ships.record() if one.ships else None,
        }
        for one in entries
    ]
    return RenderedPage(table.aligned(), record, page)


def _by_size(args: argparse.Namespace, split: str, bootstrap: Bootstrap) -> str:
    results = read_table(args.data / "evaluation" / "results.parquet", RESULTS)
    return _BY_SIZE.format(sizes=size_page(compare_by_size(results, split, args.measure, bootstrap)))


def _check_preset(policies: Path, entries: Sequence[Entry], preset: Path, kind: Kind) -> None:
    """Make sure that the page's commands would train these policies."""
    config = load_config(_CONFIG, preset).model_dump(mode="json")
    for one in entries:
        for policy in one.policies:
            known = read_json(policies / policy / "policy.json")["provenance"]
            sections = [name for name in LEARNERS.get(one.learner).sections[kind] if name in known]
            if not sections or any(known[name] != config[name] for name in sections):
                raise ConfigError(
                    f"{policy} was trained with other settings of {one.learner} than {preset} has; name the preset it "
                    "was trained with (--preset), or run: make scoreboard"
                )


def _table(entries: Sequence[Entry]) -> Table:
    def least(one: Entry, number: float, digits: int) -> str:
        return f"{'' if one.complete else '≥ '}{number:,.{digits}f}"

    def language(one: Entry, scope: str) -> float | None:
        return one.comparisons[scope].geomean.value if scope in one.comparisons else None

    linked = any(one.ships for one in entries)
    ships = [
        gain_column("ships, gain (interval)", lambda one: one.headline.geomean),
        gain_column("ships, total (interval)", lambda one: one.headline.total),
    ]
    by_language = [gain_column(title, partial(language, scope=name)) for name, title in LANGUAGE_TITLES.items()]
    return Table(
        [
            text_column("learner", lambda one: one.learner),
            text_column("seeds", lambda one: ", ".join(map(str, one.seeds))),
            count_column("weights", lambda one: one.weights),
            count_column("evaluations", lambda one: one.evaluations),
            Column("compiles", lambda one, style: least(one, one.compiles, 0)),
            Column("minutes", lambda one, style: least(one, one.seconds / 60, 1)),
            Column("cores", lambda one, style: str(one.cores)),
            *(ships if linked else []),
            Column("projects", lambda one, style: style.tally(one.headline.projects)),
            Column("over 0.5 % larger", lambda one, style: style.share(one.headline.much_larger_share)),
            *verdict_columns(lambda one: one.headline)[1:],
            gain_column("gain (interval)", lambda one: one.whole.geomean),
            gain_column("total (interval)", lambda one: one.whole.total),
            *(by_language if linked else []),
        ],
        entries,
    )
