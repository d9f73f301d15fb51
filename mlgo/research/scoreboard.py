"""The scoreboard: all learners in one table, what they gain, and what that cost."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, read_table
from mlgo.base.config import Settings, default_config, load_config, read_settings
from mlgo.base.files import read_array, read_record
from mlgo.base.names import LANGUAGE_TITLES, PolicyName
from mlgo.base.registry import LEARNERS, PROBLEMS, Kind
from mlgo.compare.inference import Bootstrap, Comparison, Gain
from mlgo.compare.modules import policy_scores
from mlgo.compare.programs import measured_programs, shipped_totals
from mlgo.compare.scores import ALL, ComparisonRow, by_language, claims, compare, policies_on, whole
from mlgo.compare.trainings import check_seeds, count_evaluations, read_curves, with_minutes
from mlgo.compare.units import read_units
from mlgo.errors import ArtifactError, ConfigError
from mlgo.learn.cost import PREFIXES, cost_path, read_cost
from mlgo.report import pages
from mlgo.report.difference import SHIPS_BY_PROJECT, SHIPS_IN_TOTAL, Difference, Side, compare_sides
from mlgo.report.headline_page import read_evaluation
from mlgo.research.learner_gains import BUDGET_NOTE, SIZE_NOTE, budget_table, compare_by_size, size_table

HOMES: Mapping[Kind, str] = {"modules": "", "choices": "cse"}
"""Folder of a run beneath the folder of all results, by what was learnt on."""


@dataclass(frozen=True)
class ScoreboardEntry:
    """One learner: means over its seeds."""

    learner: str
    seeds: tuple[int, ...]
    weights: int | None  # None of kept results, which have no weights
    evaluations: float  # compiles that one training asked for, validations included, as its history counts them
    compiles: float  # those that no response tree held, repetitions after a stop included
    seconds: float
    cores: int
    complete: bool  # whether compiles, seconds and cores are known of all sessions; else they are lower bounds
    # By scope: all, c++, c; corrected for the learners of the table, scope by scope.
    comparisons: Mapping[str, Comparison]
    # The same of the totals of linked files, and of those with identical code folded; None where nothing was linked.
    ships: Comparison | None = None
    folded: Comparison | None = None
    split: str = ""

    @property
    def policies(self) -> list[str]:
        """Names of its policies, by seed."""
        return [str(PolicyName(self.learner, seed)) for seed in self.seeds]

    @property
    def whole(self) -> Comparison:
        """Over all modules or units."""
        return self.comparisons[ALL]

    @property
    def headline(self) -> Comparison:
        """What learners are ranked by: what ships, where something is linked."""
        return self.ships or self.whole


def read_scoreboard(data: Path, settings: Settings, split: str | None, measure: str) -> list[ScoreboardEntry]:
    """All learners of a finished run by their gain on a split, the greatest first; None is the split that is judged."""
    task, bootstrap = settings.value("task"), Bootstrap.of(settings)
    kind, shipped = PROBLEMS.get(task).kind, list[ComparisonRow]()
    home = data / HOMES[kind]
    if kind == "modules":
        rows, shipped = _module_rows(home, split, measure, bootstrap)
    else:
        rows = _unit_rows(home, task, split, bootstrap)
    linked = {row.contender.learner: row for row in shipped}
    by_learner: dict[str, list[ComparisonRow]] = {}
    for row in claims(rows):
        by_learner.setdefault(row.contender.learner, []).append(row)
    entries = [_entry(data, kind, rows, linked.get(learner)) for learner, rows in by_learner.items()]
    gains = {one.learner: one.headline.geomean.value for one in entries}
    return sorted(entries, key=lambda one: (gains[one.learner] is None, -(gains[one.learner] or 0.0), one.learner))


def training_command(entry: ScoreboardEntry, kind: Kind, presets: Sequence[Path]) -> str:
    """The command that trains a learner's policies, on as many cores as it was measured with."""
    targets = " ".join(str(Path("data", HOMES[kind], "policies", policy, "weights.npy")) for policy in entry.policies)
    return f"snakemake --cores {entry.cores} {targets} --configfile {' '.join(map(str, presets))}"


def _module_rows(
    folder: Path, split: str | None, measure: str, bootstrap: Bootstrap
) -> tuple[list[ComparisonRow], list[ComparisonRow]]:
    """Comparisons of modules, and those of linked files over all seeds of a learner."""
    path = folder / "evaluation" / "results.parquet"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make scoreboard")
    results = read_table(path, RESULTS)
    measured = policy_scores(results)
    split = split or measured.judged
    policies = policies_on(measured, split, measure)
    shipped = read_table(folder / "evaluation" / "shipped.parquet", SHIPPED_SIZES)
    totals = claims(shipped_totals(measured_programs(shipped, policies.contenders), bootstrap))
    rows = compare(policies, by_language, bootstrap, family=lambda row: row.scope, split=split)
    return rows, [row for row in totals if row.split == split]


def _unit_rows(folder: Path, task: str, split: str | None, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Comparisons of units; nothing is linked."""
    tables = sorted((folder / "evaluation").glob("*.parquet"))
    if not tables:
        raise ArtifactError(f"{folder / 'evaluation'} holds no results; run the pipeline: make")
    units = read_units(task, folder / "baseline", folder / "labels" / "labels.parquet", tables)
    split = split or units.judged
    return compare(policies_on(units, split, "score"), whole, bootstrap, split=split)


def _entry(data: Path, kind: Kind, rows: Sequence[ComparisonRow], linked: ComparisonRow | None) -> ScoreboardEntry:
    """What the rows of a learner over all its seeds say, scope by scope, `ALL` first."""
    learner, seeds = rows[0].contender.learner, sorted(rows[0].contender.seeds)
    policies = [str(PolicyName(learner, seed)) for seed in seeds]
    folder = data / HOMES[kind] / "policies"
    trained = _trained(folder, policies)
    check_seeds(trained)
    costs = []
    for policy in policies:
        name, work = f"{PREFIXES[kind]}{policy}", data / "work"
        if not (path := cost_path(work, name)).exists():
            raise ArtifactError(
                f"{path} is missing, the training's wall time is not known; delete {work}/checkpoints/{name}-* and "
                f"train again: snakemake --cores all --forcerun train_{learner}, with the --configfile of the other "
                "results"
            )
        costs.append(read_cost(work, name))
    return ScoreboardEntry(
        learner=learner,
        seeds=tuple(seeds),
        weights=read_array(trained[0] / "weights.npy").size if trained else None,
        evaluations=float(np.mean([count_evaluations(folder, policy) for policy in policies])),
        compiles=float(np.mean([cost.compiles for cost in costs])),
        seconds=float(np.mean([cost.seconds for cost in costs])),
        cores=max(cost.workers for cost in costs),
        complete=all(cost.complete for cost in costs),
        comparisons={row.scope: row.only for row in rows},
        ships=linked.by("total") if linked else None,
        folded=linked.by("folded") if linked else None,
        split=rows[0].split,
    )


def _trained(folder: Path, policies: Sequence[str]) -> list[Path]:
    """Folders of those policies that are there: of kept results there is a history, but no policy."""
    return [folder / policy for policy in policies if (folder / policy / "policy.json").exists()]


def show(args: argparse.Namespace) -> pages.RenderedPage:
    """The table; as a page with the commands that train each row."""
    settings = read_settings(default_config(), *args.preset)
    problem = PROBLEMS.get(settings.value("task"))
    entries = read_scoreboard(args.data, settings, args.split, args.measure)
    table = _table(entries)
    page = ""
    if args.markdown:
        folder = args.data / HOMES[problem.kind] / "policies"
        _check_preset(folder, entries, args.preset, problem.kind)
        rows, pairs, bootstrap = list[ComparisonRow](), list[_Pair](), Bootstrap.of(settings)
        if problem.kind == "modules":
            shipped, results = read_evaluation(args.data)
            rows = compare_by_size(results, entries[0].split, args.measure, bootstrap)
            sides = [Side.of(shipped, results, one.learner) for one in entries if one.ships]
            pairs = _pairs(sides, bootstrap)
        curves = read_curves(folder, [policy for one in entries for policy in one.policies])
        curves = with_minutes(curves, args.data / "work", PREFIXES[problem.kind])
        page = pages.render(
            "scoreboard.md.jinja",
            table=table,
            split=entries[0].split,
            ships=entries[0].ships,
            items="programs" if entries[0].ships else problem.kind,
            measure=args.measure if problem.kind == "modules" else "",
            complete=all(one.complete for one in entries),
            budgets=budget_table(curves),
            budget_note=BUDGET_NOTE,
            pairs=_pair_table(pairs) if pairs else None,
            sizes=size_table(rows) if rows else None,
            size_note=SIZE_NOTE,
            commands={one.learner: training_command(one, problem.kind, args.preset) for one in entries},
        )
    record = []
    for one in entries:
        comparisons = {scope: found.record() for scope, found in one.comparisons.items()}
        linked = {name: found.record() for name in ("ships", "folded") if (found := getattr(one, name))}
        record.append({**asdict(one), "comparisons": comparisons, **linked})
    return pages.RenderedPage(table.aligned(), record, page)


_Pair = tuple[str, dict[str, Difference]]


def _pairs(sides: Sequence[Side], bootstrap: Bootstrap) -> list[_Pair]:
    """Each learner against each that comes after it, over the seeds that both have."""
    found = [
        (f"{first.learner} - {second.learner}", compare_sides(first, second, bootstrap))
        for first, second in combinations(sides, 2)
        if first.seeds & second.seeds
    ]
    return [(title, {line.asked: line for line in lines}) for title, lines in found]


def _pair_table(pairs: Sequence[_Pair]) -> pages.Table:
    def seeds(pair: _Pair) -> str:
        line = pair[1][SHIPS_BY_PROJECT]
        return f"{line.ahead} of {len(line.seeds)}"

    return pages.Table(
        [
            pages.text_column("learners", lambda pair: pair[0]),
            pages.gain_column("ships, gain (interval)", lambda pair: pair[1][SHIPS_BY_PROJECT].gain),
            pages.gain_column("ships, total (interval)", lambda pair: pair[1][SHIPS_IN_TOTAL].gain),
            pages.text_column("seeds in which the first gains more", seeds),
        ],
        pairs,
    )


def _check_preset(policies: Path, entries: Sequence[ScoreboardEntry], presets: Sequence[Path], kind: Kind) -> None:
    """Make sure that the page's commands would train these policies."""
    config, asked = load_config(default_config(), *presets).model_dump(mode="json"), " and ".join(map(str, presets))
    usual = load_config(default_config()).model_dump(mode="json")["train"]
    for one in entries:
        learner = LEARNERS.get(one.learner)
        order = ["languages", *(("min_questions", "draw") if "modules" in learner.compiles else ())]
        for policy in _trained(policies, one.policies):
            known = read_record(policy / "policy.json")["provenance"]
            sections = [name for name in learner.sections[kind] if name in known]
            # Kept policies may know settings that are gone, and do not know usual ones of `train`.
            alike = all(config[name].items() <= known[name].items() for name in sections)
            if kind == "modules":
                alike &= all(known.get(name, usual[name]) == config["train"][name] for name in order)
            if not sections or not alike:
                raise ConfigError(
                    f"{policy.name} was trained with other settings of {one.learner} than {asked} has; name "
                    "what it was trained with (--preset), or run: make scoreboard"
                )


def _table(entries: Sequence[ScoreboardEntry]) -> pages.Table:
    def least(one: ScoreboardEntry, number: float, digits: int) -> str:
        return f"{'' if one.complete else '≥ '}{number:,.{digits}f}"

    def language(one: ScoreboardEntry, scope: str) -> float | None:
        return one.comparisons[scope].geomean.value if scope in one.comparisons else None

    linked = any(one.ships for one in entries)

    def size(one: ScoreboardEntry, form: str, gain: str) -> Gain | None:
        found: Comparison | None = getattr(one, form)
        return getattr(found, gain) if found else None

    ships = [
        pages.gain_column(f"{form}, {title} (interval)", partial(size, form=form, gain=gain))
        for form in ("ships", "folded")
        for title, gain in (("gain", "geomean"), ("total", "total"))
    ]
    known = {scope for one in entries for scope in one.comparisons}
    by_language = [
        pages.gain_column(title, partial(language, scope=name))
        for name, title in LANGUAGE_TITLES.items()
        if name in known
    ]
    return pages.Table(
        [
            pages.text_column("learner", lambda one: one.learner),
            pages.text_column("seeds", lambda one: ", ".join(map(str, one.seeds))),
            pages.count_column("weights", lambda one: one.weights),
            pages.count_column("evaluations", lambda one: one.evaluations),
            pages.Column("compiles", lambda one, style: least(one, one.compiles, 0)),
            pages.Column("minutes", lambda one, style: least(one, one.seconds / 60, 1)),
            pages.Column("cores", lambda one, style: str(one.cores)),
            *(ships if linked else []),
            pages.Column("projects", lambda one, style: style.tally(one.headline.projects)),
            pages.Column("over 0.5 % larger", lambda one, style: style.share(one.headline.much_larger_share)),
            *pages.verdict_columns(lambda one: one.headline)[1:],
            pages.gain_column("gain (interval)", lambda one: one.whole.geomean),
            pages.gain_column("total (interval)", lambda one: one.whole.total),
            *(by_language if linked else []),
        ],
        entries,
    )
