"""Model cards: what a policy is, what it was trained on, what it gains and where it does not, without a figure made up.

The facts are ``card.json``; ``README.md`` shows the same to people. Both follow from the files that they are made of.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import UndefinedError

from mlgo import __version__
from mlgo.base.artifacts import MODULES, RESULTS, SHIPPED_SIZES, read_provenance, read_table
from mlgo.base.files import content_hash, file_sha256, record_text, shown
from mlgo.base.names import LANGUAGE_TITLES, PolicyName
from mlgo.compare.headline import SHIP_COLUMNS, HeadlineRow, headline
from mlgo.compare.inference import POINTS_ONLY, Bootstrap, Comparison, Gain, tally_keys
from mlgo.compare.modules import policy_scores
from mlgo.compare.programs import complete_programs, measured_programs, read_programs
from mlgo.compare.scores import ALL, SPLITS, Contender, ScoreMatrix, by_language, compare
from mlgo.deploy.export.cpp import text_templates
from mlgo.deploy.release import CARD, LICENCE, PAGE, Json, Release, hashes
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import Task, get_task
from mlgo.objects.measures import get_measure
from mlgo.policy.policy import Policy
from mlgo.policy.tree import Branching
from mlgo.report.pages import PLAIN

_TRAINED = ("package", "algorithm", "seed", "compiler", "compiler_sha256", "target")
_COUNTS = {"compared": "num_compared", "failed": "num_failed", **tally_keys("", "items"), "much_larger": "much_larger"}

_FLATTERING = {
    "validation": "Validation projects take part in the choice of learners and weights, so gains on them flatter.",
    "train": "Gains on train projects are of the code that it was trained on.",
}


def describe(release: Release, corpus: Path | None, evaluations: Sequence[Path], bootstrap: Bootstrap) -> Json:
    """Content of ``card.json``; None stands for what is not known.

    Args:
        corpus: ``modules.parquet``; used if it is what the policy was trained on.
        evaluations: folders of tables in which the policy was measured.
    """
    policy, origin = release.policy, release.policy.origin
    task, of_files = get_task(policy.task), _facts_of_files(release)
    weights = of_files["files"]["weights.npy"]["sha256"]
    gains = [one for folder in evaluations for one in gains_of(release.name, weights, task, folder, bootstrap)]
    return {
        "name": str(release.name),
        "version": None,
        "licence": LICENCE,
        "task": {"name": task.name, "title": task.title, "decision": task.decision, "class": task.model},
        "model": _model(policy),
        "features": list(policy.normalisation.features),
        "trained": {
            **{name: origin.get(name) for name in _TRAINED},
            "level": origin.get("compile", {}).get("optimization"),
            "objective": origin.get("compile", {}).get("objective"),
            "teacher": origin.get("teacher"),
            **({"languages": origin["languages"]} if "languages" in origin else {}),
            "provenance_hash": content_hash(origin),
            "inputs": {name: value for name, value in sorted(origin.items()) if name.endswith("_sha256")},
        },
        "corpus": _corpus(origin, corpus),
        "gains": gains,
        "limits": _limits(gains),
        "forms": of_files["forms"],
        "reproduce": of_files["reproduce"],
        "written_by": f"mlgo {__version__}",
        "files": of_files["files"],
    }


def with_card(release: Release, card: Json, version: str | None = None) -> dict[str, bytes]:
    """Files of a release, perhaps with fewer forms than the card names, with its card and page; by path."""
    facts = card | _facts_of_files(release)
    try:
        facts["version"] = version or card["version"]
        files = {**release.files, PAGE: page(facts).encode()}
    except (KeyError, TypeError, ValueError, AttributeError, UndefinedError) as error:
        reason = f"{release.name}: {CARD} is no card of this version of mlgo ({error})"
        raise ArtifactError(f"{reason}; write it again: scripts/describe_policy.py") from error
    files[CARD] = record_text(facts | {"files": hashes(files)}).encode()
    return dict(sorted(files.items()))


def page(card: Json) -> str:
    """A card as Markdown."""
    return _TEMPLATES.get_template("card.md.jinja").render(card)


def _model(policy: Policy) -> Json:
    size = {"parameters": int(policy.weights.size)}
    if isinstance(policy.architecture, Branching):
        return {"kind": "decision tree", "nodes": policy.architecture.num_nodes, **size}
    network = policy.network()
    groups = {"groups": network.groups} if network.groups > 1 else {}
    return {"kind": "neural network", "widths": list(network.widths), **groups, **size}


def _corpus(origin: Json, modules: Path | None) -> Json:
    """Projects by split with their modules, if that table is the one of the training; else what provenance names."""
    sha256, fitted = origin.get("corpus_sha256"), origin.get("fitted")
    if modules is None or sha256 is None or file_sha256(modules) != sha256:
        return {"sha256": sha256, "splits": {"train": dict.fromkeys(fitted)} if fitted else None}
    rows = read_table(modules, MODULES, ["project", "split", "skip_reason"]).to_pylist()
    splits: dict[str, dict[str, int]] = {}
    counts = Counter((row["split"], row["project"]) for row in rows if not row["skip_reason"])
    for (split, project), count in sorted(counts.items()):
        splits.setdefault(split, {})[project] = count
    return {"sha256": sha256, "splits": splits}


def _facts_of_files(release: Release) -> Json:
    """Forms with what was checked of them, commands that make the policy and these forms again, and all files."""
    name, origin = release.name, release.policy.origin
    policy = f"data/policies/{name}"
    made = f"snakemake --cores all {policy}/policy.json"
    if origin.get("algorithm") == "distill":
        made = f"mlgo distill data/policies/{origin.get('teacher')} --leaves {origin.get('leaves')} -o {policy}"
    export = f"python scripts/export_policy.py --policy {policy} --trace data/baseline/trace.parquet"
    checked = ("questions", "ambiguous", "mismatches")
    return {
        "forms": {form: {key: one.get(key) for key in checked} for form, one in release.parity.items()},
        "reproduce": [made, f"{export} --forms {' '.join(release.parity)} --output data/export/{name}"],
        "files": hashes(release.files),
    }


def gains_of(policy: PolicyName, weights: str, task: Task, folder: Path, bootstrap: Bootstrap) -> list[Json]:
    """All that an evaluation says of a policy, one record for each split: linked sizes, else sizes of modules."""
    results = read_table(folder / "results.parquet", RESULTS)
    shipped = read_table(folder / "shipped.parquet", SHIPPED_SIZES, list(SHIP_COLUMNS))
    origin = _measured_as(policy, weights, folder / "results.parquet")
    _measured_as(policy, weights, folder / "shipped.parquet")
    results = results.filter((pc.field("policy") == policy.learner) & (pc.field("seed") == policy.seed))
    # Rows of this policy, and those of no policy at all, as the heuristic and other levels are.
    is_about = [PolicyName.find(name) in (None, policy) for name in shipped["contender"].to_pylist()]
    shipped = shipped.filter(pa.array(is_about, pa.bool_()))
    objective = origin["compile"]["objective"]
    programs = complete_programs(measured_programs(shipped, [Contender.named(str(policy))]))
    modules = policy_scores(results, [objective])
    linked = [] if task.in_code_generation or not programs.contenders else programs.splits
    settings = {
        "compiler": origin["compiler"],
        "target": origin["target"],
        "level": origin["compile"]["optimization"],
        "against": "the same level without the policy",
    }
    gains = []
    for split in [split for split in SPLITS if modules.scores and split in modules.splits]:
        if split in linked:
            ran = folder / "programs.parquet"
            ran_under = read_provenance(ran).get("policies_sha256", {}) if ran.exists() else {}
            programs_run = read_programs(ran) if ran_under.get(str(policy)) == weights else None
            answers = headline(shipped, results, programs_run, bootstrap, policy.learner, split).answers
            projects = _by_project(programs, "total", split)
        else:
            answers = _of_modules(modules, objective, split, bootstrap)
            projects = _by_project(modules, objective, split)
        gains.append({"split": split, **settings, "answers": [_record(one) for one in answers], "projects": projects})
    return gains


def _of_modules(modules: ScoreMatrix, objective: str, split: str, bootstrap: Bootstrap) -> list[HeadlineRow]:
    """The objective itself, over modules: nothing was linked."""
    title, answers = get_measure(objective).words.title, []
    for row in compare(modules, by_language, bootstrap, split=split):
        language = f"{LANGUAGE_TITLES[row.scope]} " if row.scope in LANGUAGE_TITLES else ""
        asked, is_claimed = f"{language}modules, {title}", row.scope == ALL
        answers.append(HeadlineRow(asked, row.by(objective), row.contender, "modules", claimed=is_claimed))
    return answers


def _by_project(measured: ScoreMatrix, measure: str, split: str) -> list[Json]:
    rows = compare(measured, ScoreMatrix.by_project, POINTS_ONLY, together=False, split=split)
    return [{"project": row.scope, **_counts(row.by(measure), row.by(measure).total)} for row in rows]


def _record(answer: HeadlineRow) -> Json:
    one = answer.comparison
    return {
        "asked": answer.asked,
        "items": answer.items,
        "projects": one.num_projects,
        **_counts(one, answer.gain),
        "worst": {"item": one.worst_item.name, "change": one.worst_item.share} if one.worst_item else None,
        "verdict": one.finding if answer.claimed else None,
    }


def _counts(one: Comparison, gain: Gain) -> Json:
    return {"gain": gain._asdict(), **one.figures(_COUNTS)}


def _measured_as(policy: PolicyName, weights: str, table: Path) -> Json:
    """How a table was measured under a policy: by a run, an evaluation that was kept, or ``mlgo evaluate``."""
    origin, name = read_provenance(table), str(policy)
    measurements = [origin.get(key, {}).get(name, {}) for key in ("policies", "contenders", "looks")]
    if origin.get("policy") == name:
        measurements.append(origin)
    for measured in measurements:
        if measured.get("policy_sha256") == weights:
            return dict(measured)
    raise ArtifactError(f"{table} holds no figure of {policy} with these weights; evaluate it again, or leave it out")


def _limits(gains: Sequence[Json]) -> list[str]:
    """Limits that a user of the policy must know."""
    if not gains:
        return ["Nothing was measured: what this policy gains, and on what, is unknown."]
    settings = dict.fromkeys(f"{one['compiler']} for {one['target']} at {one['level']}" for one in gains)
    found = [f"Measured with {'; '.join(settings)} alone. Gains elsewhere are unknown."]
    for one in gains:
        where = f"{one['split']} projects"
        for answer in one["answers"]:
            gain = Gain(**answer["gain"])
            if answer["asked"].startswith(("C programs", "C modules")) and not (gain.low or 0.0) > 0.0:
                what = "C becomes larger" if (gain.high or 0.0) < 0.0 else "No gain was shown for C"
                found.append(f"{what}: {PLAIN.gain(gain)} on {where}.")
            if answer["asked"].startswith("executed"):
                found.append(f"Instructions that programs execute change by {PLAIN.gain(gain)}; positive is fewer.")
        first = one["answers"][0]
        items = f"{first['items']} of {where}"
        larger = f"{first['larger']} become larger, {first['much_larger']} by more than 0.5 %"
        found.append(f"Of {first['compared']} {items}, {larger}.")
        if first["failed"]:
            found.append(f"{first['failed']} {items} could not be measured.")
    splits = {one["split"] for one in gains}
    found += [text for split, text in _FLATTERING.items() if split in splits]
    found.append("Measure what you ship, and keep the smaller file.")
    if not any(answer["asked"].startswith("executed") for one in gains for answer in one["answers"]):
        found.append("How fast programs run is unknown.")
    return [*found, "This is one training. Another seed gives other weights and another gain."]


def _harmless(value: object) -> str:
    """Text that may come from others, in which a reader of Markdown sees no HTML, no link and no further line."""
    return shown(str(value)).replace("<", "&lt;").replace("[", "\\[")


_TEMPLATES = text_templates(Path(__file__).parent).overlay(finalize=_harmless)
_TEMPLATES.filters |= {
    "gain": lambda gain: PLAIN.gain(Gain(**gain)),
    "known": lambda value: "unknown" if value is None else str(value),
    "count": PLAIN.count,
}
