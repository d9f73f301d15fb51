"""The scoreboard from made-up results: means over seeds by hand, and everything that can be missing."""

from dataclasses import asdict
from math import sqrt
from pathlib import Path

import pytest

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, write_rows
from mlgo.base.config import Settings, read_settings
from mlgo.base.files import read_record, write_record, write_text
from mlgo.compare.inference import Gain
from mlgo.errors import ArtifactError
from mlgo.learn.cost import TrainingCost, cost_path
from mlgo.research.scoreboard import read_scoreboard, training_command
from tests.compare.conftest import result_row, shipped_rows
from tests.compare.test_units import write_run as write_choices
from tests.conftest import REPOSITORY
from tests.fakes.policies import write_policy

SETTINGS = read_settings(REPOSITORY / "config/config.yaml")
TEXT = {  # of 1,000 bytes: modules of C, modules of C++
    "bc-s0": (1000, 990),
    "es-s0": (1005, 950),
    "es-s1": (1005, 920),
}
LINKED_TEXT = {"heuristic": 10_000, "bc-s0": 9_970, "es-s0": 9_900, "es-s1": 9_800}
"""Of the program of each project, which has 1,000 bytes of constants and a tenth of its text as unwind tables."""

PROJECTS = {"c": "bellows", "c++": "crucible"}


def sizes(text):
    """Sizes of a module; executable sections change a tenth of what text does."""
    return {"text_bytes": text, "exec_bytes": 900 + text // 10, "dedup_bytes": text}


def result(policy, language, text, number):
    name, _, seed = policy.rpartition("-s")
    key = {"project": PROJECTS[language], "module": f"{number}.{language}", "language": language}
    return result_row(**key, sizes=sizes(text), baseline=sizes(1000), policy=name, seed=int(seed))


def write_shipped(data, linked):
    rows = [
        row
        for contender, text in linked.items()
        for project in PROJECTS.values()
        for row in shipped_rows(project, f"bin/{project}", contender, text)
    ]
    write_rows(data / "evaluation/shipped.parquet", rows, SHIPPED_SIZES, {})


def write_run(data):
    """bc-s0 alone, es with two seeds; four modules of each language."""
    rows = [
        result(policy, language, text, number)
        for policy, by_language in TEXT.items()
        for language, text in zip(PROJECTS, by_language, strict=True)
        for number in range(4)
    ]
    write_rows(data / "evaluation/results.parquet", rows, RESULTS, {})
    write_shipped(data, LINKED_TEXT)
    write_text(data / "policies/bc-s0/history.csv", "epoch,loss,evaluations\n1,0.5,0\n2,0.4,0\n")
    for policy, evaluations in (("es-s0", 300), ("es-s1", 310)):
        text = f"generation,evaluations,validation_reward\n0,4,0.0\n1,{evaluations},0.01\n"
        write_text(data / "policies" / policy / "history.csv", text)
    for policy, cost in (
        ("bc-s0", TrainingCost("x", 1, 1, 12.0)),
        ("es-s0", TrainingCost("y", 2, 1, 100.0, 300, 200)),
        ("es-s1", TrainingCost("z", 2, 2, 140.0, 320, 100)),
    ):
        write_record(cost_path(data / "work", policy), asdict(cost))
    for policy, sections in (("bc-s0", {"bc": {"a": 1}}), ("es-s0", {}), ("es-s1", {})):
        write_policy(data / "policies" / policy, sections, "ab" if policy == "bc-s0" else "abcd")
    return data


@pytest.fixture
def data(tmp_path):
    return write_run(tmp_path / "data")


def read(data, split="test", measure="text_bytes"):
    return read_scoreboard(data, SETTINGS, split, measure)


def test_means_over_seeds_best_first(data):
    es, bc = read(data)
    assert (es.learner, es.seeds, es.evaluations, es.compiles, es.seconds, es.cores) == ("es", (0, 1), 305, 150, 120, 2)
    assert es.whole.geomean.value == pytest.approx(1 - (1.005 * 0.95 * 1.005 * 0.92) ** 0.25)
    assert es.whole.total.value == pytest.approx((0.0225 + 0.0375) / 2)
    # The one project of each language has no interval.
    assert es.comparisons["c++"].geomean == pytest.approx(Gain(1 - sqrt(0.95 * 0.92), None, None))
    assert es.comparisons["c"].geomean == pytest.approx(Gain(-0.005, None, None))
    # Of 12,000 bytes 110 and 220 are gone. Seeds differ, projects do not.
    assert es.ships.total == pytest.approx(Gain(165 / 12_000, 110 / 12_000, 220 / 12_000))
    assert es.headline is es.ships
    # 100 bytes of text and 10 of unwind tables of each program are folded, whoever compiles it.
    assert es.folded.total == pytest.approx(Gain(165 / 11_890, 110 / 11_890, 220 / 11_890))
    one = es.whole
    assert (one.much_larger_share, one.projects, one.items, one.sign_p) == (0.0, (1, 0, 1), (4, 0, 4), 1.0)
    assert one.finding == "no verdict: 2 projects, six are needed"
    assert (bc.learner, bc.seeds, bc.evaluations, bc.compiles, bc.seconds, bc.cores) == ("bc", (0,), 0, 0, 12, 1)
    assert bc.whole.geomean.value == pytest.approx(1 - sqrt(0.99))
    assert bc.comparisons["c"].geomean == Gain(0.0, None, None)
    assert bc.ships.total == pytest.approx(Gain(33 / 12_000, 33 / 12_000, 33 / 12_000))
    assert (bc.weights, es.weights) == (3, 5)
    assert es.complete
    assert bc.complete


def test_the_other_measure_and_that_what_ships_ranks_not_objects(data):
    es, _ = read(data, measure="exec_bytes")
    assert es.comparisons["c++"].geomean.value == pytest.approx(1 - sqrt(0.995 * 0.992))
    assert es.ships.total.value == pytest.approx(165 / 12_000)
    write_shipped(data, LINKED_TEXT | {"bc-s0": 9_700})
    assert [one.learner for one in read(data)] == ["bc", "es"]
    write_shipped(data, LINKED_TEXT | {"es-s0": None})  # programs that could not be linked leave no mean
    bc, es = read(data)
    assert (bc.learner, es.ships.total) == ("bc", Gain(None, None, None))


def test_tasks_that_choose_among_candidates(data):
    """es-s1 halves the score of no unit and doubles one: see `test_units`."""
    write_choices(data / "cse", "jit-cse")
    (data / "cse/labels").mkdir()
    (data / "cse/labels.parquet").rename(data / "cse/labels/labels.parquet")
    for policy in ("bc-s0", "es-s0", "es-s1"):
        write_text(data / f"cse/policies/{policy}/history.csv", "epoch,evaluations\n1,7\n")
        write_policy(data / f"cse/policies/{policy}", {}, "a")
        write_record(cost_path(data / "work", f"cse-{policy}"), asdict(TrainingCost("x", 1, 1, 60.0, 7, 5)))
    bc, es = read_scoreboard(data, Settings({**SETTINGS.values, "task": "jit-cse"}), "test", "text_bytes")
    assert (es.learner, es.seeds, es.evaluations, es.compiles, es.ships) == ("es", (0, 1), 7, 5, None)
    assert bc.whole.geomean == Gain(0.0, 0.0, 0.0)
    # Units a, b, c; d failed under es-s1. Ratios 1/2, 1, 2 and 1, 2, 1.
    assert (es.whole.num_compared, es.whole.num_failed) == (3, 1)
    assert es.whole.geomean.value == pytest.approx(1 - 2 ** (1 / 6))


def test_a_killed_session_is_reported_and_seeds_of_different_compilers_are_refused(data):
    path = cost_path(data / "work", "es-s1")
    write_record(path, read_record(path) | {"complete": False})
    es, bc = read(data)
    assert (es.complete, bc.complete) == (False, True)
    write_policy(data / "policies/es-s1", {"compiler_sha256": "ab"}, "abcd")
    with pytest.raises(ArtifactError, match="es-s0 and es-s1 were trained on different inputs: another compiler"):
        read(data)


def test_the_command_trains_all_seeds(data):
    es, _ = read(data)
    targets = "data/policies/es-s0/weights.npy data/policies/es-s1/weights.npy"
    assert training_command(es, "modules", [Path("p.yaml"), Path("q.yaml")]).endswith(
        f"2 {targets} --configfile p.yaml q.yaml"
    )
    assert "data/cse/policies/es-s0/weights.npy" in training_command(es, "choices", [Path("p.yaml")])


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("work/timings/training/es-s1.json", r"delete .*checkpoints/es-s1-\* .* snakemake .*--forcerun train_es"),
        ("policies/es-s0/history.csv", "run the train stage: snakemake --cores all train"),
        ("evaluation/results.parquet", "make it with: make scoreboard"),
        ("policies/es-s0/weights.npy", ""),
    ],
)
def test_every_missing_file_is_named_with_what_makes_it(data, path, remedy):
    (data / path).unlink()
    with pytest.raises(ArtifactError, match=f"{path} is missing.*{remedy}"):
        read(data)


def test_histories_of_earlier_versions_and_other_splits(data):
    with pytest.raises(ArtifactError, match=r"nothing about the validation split; add validation to evaluate\.splits"):
        read(data, "validation")
    with pytest.raises(ArtifactError, match="knows nothing of spill_cost; it has text_bytes, exec"):
        read(data, measure="spill_cost")
    write_text(data / "policies/es-s0/history.csv", "generation,validation_reward\n0,0.0\n")
    with pytest.raises(ArtifactError, match=r"es-s0/history\.csv has no evaluations"):
        read(data)
    write_rows(data / "evaluation/results.parquet", [], RESULTS, {})
    with pytest.raises(ArtifactError, match="nothing about the test split"):
        read(data)
