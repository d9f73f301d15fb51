"""What one policy gains by the tables of an evaluation: what ships where programs were linked, else modules."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, read_provenance, read_table
from mlgo.base.names import LANGUAGE_TITLES, PolicyName
from mlgo.compare.executed import Programs, read_programs
from mlgo.compare.headline import SHIP_COLUMNS, HeadlineRow, headline
from mlgo.compare.inference import POINTS_ONLY, Bootstrap, Comparison, Gain, tally_keys
from mlgo.compare.modules import policy_scores
from mlgo.compare.scores import ALL, SPLITS, Contender, ScoreMatrix, by_language, compare
from mlgo.compare.shipped import complete_programs, measured_programs
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import Task
from mlgo.objects.measures import get_measure

Record = dict[str, Any]
"""Plain values for JSON."""

_COUNTS = {
    "compared": "num_compared",
    "failed": "num_failed",
    **tally_keys("", "items"),
    "much_larger": "much_larger",
}

_SETTINGS = ("compiler", "target")


def gains_of(policy: PolicyName, weights: str, task: Task, folder: Path, bootstrap: Bootstrap) -> list[Record]:
    """All that an evaluation says of a policy, one record for each split."""
    results = read_table(folder / "results.parquet", RESULTS)
    shipped = read_table(folder / "shipped.parquet", SHIPPED_SIZES, list(SHIP_COLUMNS))
    origin = _measured_as(policy, weights, folder / "results.parquet")
    _measured_as(policy, weights, folder / "shipped.parquet")
    results = results.filter((pc.field("policy") == policy.learner) & (pc.field("seed") == policy.seed))
    shipped = shipped.filter(
        pa.array([_is_about(policy, name) for name in shipped["contender"].to_pylist()], pa.bool_())
    )
    contender, objective = Contender.policy(*policy), origin["compile"]["objective"]
    programs = complete_programs(measured_programs(shipped, [contender]))
    modules = policy_scores(results, [objective])
    ran = _ran(policy, weights, folder)
    known = {
        **{name: origin[name] for name in _SETTINGS},
        "level": origin["compile"]["optimization"],
        "against": "the same level without the policy",
    }
    found = []
    for split in [split for split in SPLITS if modules.measures and split in modules.splits]:
        if task.in_code_generation or split not in _linked(programs):
            answers, projects = _of_modules(modules, objective, split, bootstrap)
        else:
            answers = headline(shipped, results, ran, bootstrap, policy.learner, split).answers
            projects = _by_project(programs, "total", split)
        found.append({"split": split, **known, "answers": [_record(one) for one in answers], "projects": projects})
    return found


def _linked(programs: ScoreMatrix) -> list[str]:
    """Splits of which linked files have been measured."""
    return programs.splits if programs.contenders else []


def _of_modules(
    modules: ScoreMatrix, objective: str, split: str, bootstrap: Bootstrap
) -> tuple[Sequence[HeadlineRow], list[Record]]:
    """Answers where nothing was linked: the objective itself, over modules."""
    rows = compare(modules, by_language, bootstrap, split=split)
    title = get_measure(objective).words.title
    answers = [
        HeadlineRow(
            f"{LANGUAGE_TITLES[row.scope]} modules, {title}" if row.scope in LANGUAGE_TITLES else f"modules, {title}",
            "total",
            row.by(objective),
            "modules",
            row.contender,
            claimed=row.scope == ALL,
        )
        for row in rows
    ]
    return answers, _by_project(modules, objective, split)


def _by_project(measured: ScoreMatrix, measure: str, split: str) -> list[Record]:
    rows = compare(measured, ScoreMatrix.by_project, POINTS_ONLY, together=False, split=split)
    return [{"project": row.scope, **_counts(row.by(measure), row.by(measure).total)} for row in rows]


def _record(answer: HeadlineRow) -> Record:
    one = answer.comparison
    worst = {"item": one.worst_item.name, "change": one.worst_item.share} if one.worst_item else None
    return {
        "asked": answer.asked,
        "items": answer.items,
        "projects": one.num_projects,
        **_counts(one, answer.gain),
        "worst": worst,
        "verdict": one.finding if answer.claimed else None,
    }


def _counts(one: Comparison, gain: Gain) -> Record:
    return {"gain": gain._asdict(), **one.figures(_COUNTS)}


def _is_about(policy: PolicyName, contender: str) -> bool:
    """Whether a row is of this policy or of no policy at all, as the heuristic and other levels are."""
    return PolicyName.find(contender) in (None, policy)


def _measured_as(policy: PolicyName, weights: str, table: Path) -> Mapping[str, Any]:
    """How a table was measured under a policy."""
    origin = read_provenance(table)
    for found in _measurements(origin, str(policy)):
        if found.get("policy_sha256") == weights:
            return found
    raise ArtifactError(f"{table} holds no figure of {policy} with these weights; evaluate it again, or leave it out")


def _measurements(origin: Mapping[str, Any], policy: str) -> Iterator[Mapping[str, Any]]:
    """What provenance says of a policy: of a run, of looks that were kept, of ``mlgo evaluate``."""
    for key in ("policies", "contenders", "looks"):
        if policy in origin.get(key, {}):
            yield origin[key][policy]
    if origin.get("policy") == policy:
        yield origin


def _ran(policy: PolicyName, weights: str, folder: Path) -> Programs | None:
    """What programs executed under the policy, if any ran."""
    path = folder / "programs.parquet"
    if not path.exists() or read_provenance(path).get("policies_sha256", {}).get(str(policy)) != weights:
        return None
    return read_programs(path)
