"""Model cards: what a policy is, what it was trained on, what it gains and where it does not, without a figure made up.

The facts are ``card.json``; ``README.md`` shows the same to people. Both follow from the files that they are made of.
"""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import UndefinedError

from mlgo import __version__
from mlgo.base.artifacts import MODULES, read_table
from mlgo.base.files import content_hash, file_sha256, json_text
from mlgo.compare.inference import Bootstrap, Gain
from mlgo.deploy.export.cpp import text_templates
from mlgo.deploy.publish.gains import gains_of
from mlgo.deploy.publish.release import CARD, PAGE, Json, Release, hashes
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import get_task
from mlgo.policy.policy import Policy
from mlgo.policy.tree import Branching
from mlgo.report.pages import PLAIN

LICENCE = "Apache-2.0"
"""Of policies: their weights hold no code of what they were trained on."""

Card = Json
"""Content of ``card.json``; None stands for what is not known."""

_TRAINED = ("package", "algorithm", "seed", "compiler", "compiler_sha256", "target")
_FLATTERING = {
    "validation": "Validation projects take part in the choice of learners and weights, so gains on them flatter.",
    "train": "Gains on train projects are of the code that it was trained on.",
}


def describe(release: Release, corpus: Path | None, evaluations: Sequence[Path], bootstrap: Bootstrap) -> Card:
    """Gather what is known of a policy.

    Args:
        release: its files.
        corpus: ``modules.parquet``; used if it is what the policy was trained on.
        evaluations: folders of tables in which the policy was measured.
        bootstrap: makes the intervals.
    """
    policy, origin = release.policy, release.policy.origin
    task, files = get_task(policy.task), hashes(release.files)
    weights = files["weights.npy"]["sha256"]
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
        "forms": {name: _form(one) for name, one in release.parity.items()},
        "reproduce": _commands(release),
        "written_by": f"mlgo {__version__}",
        "files": files,
    }


def with_card(release: Release, card: Card, version: str | None = None) -> dict[str, bytes]:
    """Files of a release with its card and page, by path.

    Args:
        release: the files, perhaps with fewer forms than the card names.
        card: facts, see `describe`.
        version: semantic version of the release; None leaves that of the card.
    """
    facts = card | {
        "forms": {name: _form(one) for name, one in release.parity.items()},
        "reproduce": _commands(release),
        "files": hashes(release.files),
    }
    try:
        facts["version"] = version or card["version"]
        files = {**release.files, PAGE: page(facts).encode()}
    except (KeyError, TypeError, ValueError, AttributeError, UndefinedError) as error:
        reason = f"{release.name}: {CARD} is no card of this version of mlgo ({error})"
        raise ArtifactError(f"{reason}; write it again: scripts/describe_policy.py") from error
    files[CARD] = json_text(facts | {"files": hashes(files)}).encode()
    return dict(sorted(files.items()))


def page(card: Card) -> str:
    """A card as Markdown."""
    return _TEMPLATES.get_template("card.md.jinja").render(card)


def _model(policy: Policy) -> Json:
    shape, size = policy.architecture, {"parameters": int(policy.weights.size)}
    if isinstance(shape, Branching):
        return {"kind": "decision tree", "nodes": shape.num_nodes, **size}
    network = policy.network()
    groups = {"groups": network.groups} if network.groups > 1 else {}
    return {"kind": "neural network", "widths": list(network.widths), **groups, **size}


def _corpus(origin: Json, modules: Path | None) -> Json:
    """Projects by split with their modules, if that table is the one of the training; else what provenance names."""
    sha256, fitted = origin.get("corpus_sha256"), origin.get("fitted")
    if modules is None or sha256 is None or file_sha256(modules) != sha256:
        return {"sha256": sha256, "splits": {"train": dict.fromkeys(fitted)} if fitted else None}
    splits: dict[str, dict[str, int]] = {}
    for row in read_table(modules, MODULES, ["project", "split", "skip_reason"]).to_pylist():
        if not row["skip_reason"]:
            counts = splits.setdefault(row["split"], {})
            counts[row["project"]] = counts.get(row["project"], 0) + 1
    return {
        "sha256": sha256,
        "splits": {split: dict(sorted(counts.items())) for split, counts in sorted(splits.items())},
    }


def _form(parity: Json) -> Json:
    return {name: parity.get(name) for name in ("questions", "ambiguous", "mismatches")}


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


def _commands(release: Release) -> list[str]:
    """Commands that make the policy and its forms again."""
    name, origin = release.name, release.policy.origin
    policy, exported = f"data/policies/{name}", f"data/export/{name}"
    made = f"snakemake --cores all {policy}/policy.json"
    if origin.get("algorithm") == "distill":
        made = f"mlgo distill data/policies/{origin.get('teacher')} --leaves {origin.get('leaves')} -o {policy}"
    forms = " ".join(release.parity)
    return [
        made,
        f"python scripts/export_policy.py --policy {policy} --trace data/baseline/trace.parquet --forms {forms} "
        f"--output {exported}",
    ]


_TEMPLATES = text_templates(Path(__file__).parent)
_TEMPLATES.filters |= {
    "gain": lambda gain: PLAIN.gain(Gain(**gain)),
    "known": lambda value: "unknown" if value is None else str(value),
    "count": PLAIN.count,
}
