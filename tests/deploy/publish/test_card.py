"""Model cards: figures worked out by hand, those of the released policies, and what is not known said so."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import MODULES, RESULTS, SHIPPED_SIZES, trace_schema, write_table
from mlgo.base.files import file_sha256
from mlgo.base.names import PolicyName
from mlgo.compare.inference import DEFAULT, POINTS_ONLY
from mlgo.deploy.card import describe, gains_of, page, with_card
from mlgo.deploy.export.cpp import Cpp
from mlgo.deploy.export.form import check_form
from mlgo.deploy.release import read_release
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import get_task
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY
from tests.deploy.publish.conftest import RELEASED

TREE = PolicyName("tree8", 0)
WEIGHTS = file_sha256(RELEASED / "tree8-s0/weights.npy")
MEASURED = {"policy_sha256": WEIGHTS, "compiler": "a clang", "target": "a machine"}
MEASURED |= {"compile": {"objective": "text_bytes", "optimization": "-Oz"}}
SIZES = {"a/small": (100, 90), "a/large": (300, 330), "b/only": (600, 540)}
"""Bytes of programs without the policy and with it: 1000 and 960 in all, 4 % less."""


def rows_of(schema, *rows):
    blank = dict.fromkeys(schema.names)
    for one in schema:
        if not one.nullable:
            blank[one.name] = "" if one.type == pa.string() else pa.scalar(0).cast(one.type).as_py()
    return pa.Table.from_pylist([blank | row for row in rows], schema=schema)


def tables(folder, origin, language="c++"):
    """Tables of an evaluation: the programs above, each of one module of the same size."""
    programs, modules = [], []
    for key, (before, after) in SIZES.items():
        project, program = key.split("/")
        common = {"project": project, "split": "test", "language": language}
        for contender, size in (("heuristic", before), ("tree8-s0", after), ("other-s0", 1)):
            sizes = dict.fromkeys(("text", "read_only", "unwind", "total", "compressed"), size)
            row = common | sizes | {"program": program, "contender": contender}
            programs += [row | {"folded": folded} for folded in (False, True)]
        for policy, size in (("tree8", after), ("other", 1)):
            sizes = {"text_bytes": size, "baseline_text_bytes": before}
            modules.append(common | sizes | {"module": program, "policy": policy})
    write_table(folder / "shipped.parquet", rows_of(SHIPPED_SIZES, *programs), SHIPPED_SIZES, origin)
    write_table(folder / "results.parquet", rows_of(RESULTS, *modules), RESULTS, origin)
    return folder


@pytest.mark.parametrize(
    "origin",
    [
        {"policy": "tree8-s0", **MEASURED},
        {"policies": {"tree8-s0": MEASURED, "other-s0": {}}},
        {"contenders": {"tree8-s0": MEASURED, "heuristic": {}}},
        {"looks": {"other-s0": {}, "tree8-s0": MEASURED}},
    ],
    ids=["mlgo evaluate", "results", "shipped", "looks"],
)
def test_gains_by_hand(origin, tmp_path):
    (one,) = gains_of(TREE, WEIGHTS, get_task("inline-size"), tables(tmp_path, origin), POINTS_ONLY)
    assert (one["split"], one["compiler"], one["target"], one["level"]) == ("test", "a clang", "a machine", "-Oz")
    first = one["answers"][0]
    assert (first["asked"], first["items"], first["compared"]) == ("what ships, in total", "programs", 3)
    assert first["gain"] == {"value": pytest.approx(0.04), "low": None, "high": None}
    assert (first["smaller"], first["equal"], first["larger"], first["much_larger"]) == (2, 0, 1, 1)
    assert first["worst"] == {"item": "a/large", "change": pytest.approx(0.1)}
    by_project = {row["project"]: row["gain"]["value"] for row in one["projects"]}
    assert by_project == {"a": pytest.approx(1 - 420 / 400), "b": pytest.approx(0.1)}


def test_decisions_in_code_generation_are_told_by_modules(tmp_path):
    folder = tables(tmp_path, {"policy": "tree8-s0", **MEASURED})
    (one,) = gains_of(TREE, WEIGHTS, get_task("regalloc-evict"), folder, POINTS_ONLY)
    assert {answer["items"] for answer in one["answers"]} == {"modules"}
    assert one["answers"][0]["gain"]["value"] == pytest.approx(1 - 963 / 1003, abs=1e-3)


def test_figures_of_other_weights_are_refused(tmp_path):
    folder = tables(tmp_path, {"policy": "tree8-s0", **MEASURED, "policy_sha256": "0" * 64})
    with pytest.raises(ArtifactError, match="no figure of tree8-s0 with these weights"):
        gains_of(TREE, WEIGHTS, get_task("inline-size"), folder, POINTS_ONLY)


def test_limits_follow_from_the_figures(released, tmp_path):
    release = read_release(released, released)
    folder = tables(tmp_path / "c", {"policy": "tree8-s0", **MEASURED}, "c")
    limits = describe(release, None, [folder], DEFAULT)["limits"]
    assert limits[0] == "Measured with a clang for a machine at -Oz alone. Gains elsewhere are unknown."
    assert any(one.startswith("No gain was shown for C: +4.00 %") for one in limits)
    assert "Of 3 programs of test projects, 1 become larger, 1 by more than 0.5 %." in limits
    folder = tables(tmp_path / "cpp", {"policy": "tree8-s0", **MEASURED})
    assert not any(" C" in one for one in describe(release, None, [folder], DEFAULT)["limits"])


def test_what_is_not_known_is_said_to_be_unknown(released):
    release = read_release(released, released)
    card = describe(release, None, [], DEFAULT)
    assert (card["version"], card["gains"], card["trained"]["compiler"]) == (None, [], None)
    assert card["limits"] == ["Nothing was measured: what this policy gains, and on what, is unknown."]
    text = page(card)
    assert "| version | not released |" in text
    assert "## What it gains\n\nUnknown.\n" in text
    assert "| compiler of the training | unknown |" in text
    assert "Corpus: `unknown`" in text
    assert "%" not in text


def test_projects_are_those_of_the_corpus_of_the_training_alone(released, tmp_path):
    train = {"project": "lib", "split": "train"}
    rows = [train | {"module": "a.c"}, train | {"module": "b.c"}, train | {"module": "c.c", "skip_reason": "no C"}]
    rows.append({"project": "app", "module": "a.c", "split": "test"})
    modules = tmp_path / "modules.parquet"
    write_table(modules, rows_of(MODULES, *rows), MODULES, {})
    release = read_release(RELEASED / "marginal-s0", RELEASED / "marginal-s0")
    assert describe(release, modules, [], DEFAULT)["corpus"]["splits"] is None
    release.policy.origin["corpus_sha256"] = file_sha256(modules)
    assert describe(release, modules, [], DEFAULT)["corpus"]["splits"] == {"test": {"app": 1}, "train": {"lib": 2}}


def rounded(value):
    """Numbers to twelve digits: processors differ in the last bit of a logarithm."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


@pytest.mark.slow
def test_the_released_card_tells_what_the_kept_tables_tell():
    folder, results = RELEASED / "marginal-s0", REPOSITORY / "docs/results"
    release = read_release(folder, folder)
    kept = [results / "sealed/evaluation", results / "run/evaluation"]
    card = json.loads(json.dumps(describe(release, None, kept, DEFAULT)))
    other = {"corpus": None, "version": None, "files": None}
    assert rounded({**card, **other}) == rounded({**release.card, **other})
    test, validation = card["gains"]
    # docs/sealed-looks.md, the look at marginal-s0 with all 28 projects
    assert (test["answers"][0]["compared"], test["answers"][0]["projects"]) == (115, 28)
    assert {name: round(100 * value, 2) for name, value in test["answers"][0]["gain"].items()} == {
        "value": 1.31, "low": 0.39, "high": 3.89,
    }  # fmt: skip
    assert round(100 * validation["answers"][0]["gain"]["value"], 2) == 4.68  # docs/distill.md, the teacher


@pytest.mark.parametrize("name", ["marginal-s0", "tree8-s0"])
def test_the_released_page_is_its_card_and_the_class_decides_as_the_policy(name):
    release = read_release(RELEASED / name, RELEASED / name)
    for file, content in with_card(release, release.card).items():
        assert content == (RELEASED / name / file).read_bytes()
    policy, rng = load_policy(RELEASED / name), np.random.default_rng(0)
    numbers = {one: rng.integers(-20, 200, 2000) for one in policy.normalisation.features}
    columns = {"project": "p", "module": "m.c", "context": "", "step": 0, "answer": 0}
    rows = {**{key: [value] * 2000 for key, value in columns.items()}, **numbers}
    trace = pa.table(rows, schema=trace_schema(list(numbers)))
    parity = check_form(Cpp(), RELEASED / name / "cpp", policy, trace)
    assert (parity.questions, parity.mismatches) == (2000, 0)
    assert 0 < (parity.inlined or 0) < 2000
