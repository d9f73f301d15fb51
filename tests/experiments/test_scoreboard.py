"""The scoreboard from made-up results: means over seeds by hand, and everything that can be missing."""

import json
from dataclasses import asdict

import pytest

from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json, write_json, write_text
from mlgo.experiments.compare import Gain
from mlgo.experiments.scoreboard import read_scoreboard, training_command
from mlgo.learn.effort import Effort, effort_path


def figures(gain, low=None, high=None, **others):
    """What comparisons.json says of some modules; executable sections gain a tenth of it."""
    found = {}
    for kind, factor in (("text", 1.0), ("exec", 0.1)):
        for name, value in (("gain", gain), ("low", low), ("high", high)):
            if value is not None:
                found[f"{kind}_geomean_{name}_percent"] = value * factor
                found[f"{kind}_total_{name}_percent"] = 2 * value * factor
        counts = {"wins": 6, "losses": 2, "ties": 2, "worse_share_percent": 10.0, "sign_p": 0.2891}
        found |= {f"{kind}_{key}": value for key, value in (counts | others).items()}
        found[f"{kind}_verdict"] = "smaller" if low and low > 0 else "no difference shown"
    return found


def linked(gain):
    return {f"linked_total_{name}_percent": gain + add for name, add in (("gain", 0.0), ("low", -0.5), ("high", 0.5))}


def write_run(data):
    """bc-s0 alone, es with two seeds."""
    test = {
        "bc-s0": figures(0.5, -0.1, 1.0) | linked(0.25),
        "bc-s0 c": figures(0.0),
        "es-s0": figures(2.5, 2.0, 3.0) | linked(1.0),
        "es-s1": figures(3.5, 3.0, 4.0) | linked(2.0),
        "es-s1 c++": figures(9.0),
        "es-mean": figures(3.0, 2.25, 3.75, worse_share_percent=5.0),
        "es-mean c": figures(-0.5),
        "es-mean c++": figures(6.5, 4.0, 9.0),
        "never": figures(-20.0),
    }
    write_json(data / "report/comparisons.json", {"test": test, "rank_correlations": {"es-s0, test projects": {}}})
    write_text(data / "policies/bc-s0/history.csv", "epoch,loss,evaluations\n1,0.5,0\n2,0.4,0\n")
    for policy, evaluations in (("es-s0", 300), ("es-s1", 310)):
        text = f"generation,evaluations,validation_reward\n0,4,0.0\n1,{evaluations},0.01\n"
        write_text(data / "policies" / policy / "history.csv", text)
    for policy, effort in (
        ("bc-s0", Effort("x", 1, 1, 12.0)),
        ("es-s0", Effort("y", 2, 1, 100.0, 300, 200)),
        ("es-s1", Effort("z", 2, 2, 140.0, 320, 100)),
    ):
        write_json(effort_path(data / "work", policy), asdict(effort))
    for policy, sections in (("bc-s0", {"bc": {"a": 1}}), ("es-s0", {}), ("es-s1", {})):
        write_json(data / "policies" / policy / "policy.json", {"provenance": sections})
    return data


@pytest.fixture
def data(tmp_path):
    return write_run(tmp_path / "data")


def test_means_over_seeds_best_first(data):
    es, bc = read_scoreboard(data, "test", "text_bytes")
    assert (es.learner, es.seeds, es.evaluations, es.compiles, es.seconds, es.cores) == ("es", (0, 1), 305, 150, 120, 2)
    assert (es.gain(), es.gain("all", "total")) == (Gain(3.0, 2.25, 3.75), Gain(6.0, 4.5, 7.5))
    assert (es.gain("c++"), es.gain("c"), es.gain("linked", "total")) == (
        Gain(6.5, 4.0, 9.0),
        Gain(-0.5, None, None),
        Gain(1.5, 1.0, 2.0),
    )
    names = ("worse_share_percent", "wins", "losses", "sign_p", "verdict")
    assert [es.figures["all"][name] for name in names] == [5.0, 6, 2, 0.2891, "smaller"]
    assert (bc.learner, bc.seeds, bc.evaluations, bc.compiles, bc.seconds, bc.cores) == ("bc", (0,), 0, 0, 12, 1)
    assert (bc.gain(), bc.gain("c++"), bc.gain("c"), bc.gain("linked", "total")) == (
        Gain(0.5, -0.1, 1.0),
        Gain(None, None, None),
        Gain(0.0, None, None),
        Gain(0.25, -0.25, 0.75),
    )
    assert es.complete
    assert bc.complete


def test_the_other_measure(data):
    es, _ = read_scoreboard(data, "test", "exec_bytes")
    assert es.gain() == Gain(pytest.approx(0.3), pytest.approx(0.225), pytest.approx(0.375))
    assert es.gain("linked", "total") == Gain(1.5, 1.0, 2.0)


def test_a_killed_session_is_told(data):
    path = effort_path(data / "work", "es-s1")
    write_json(path, read_json(path) | {"complete": False})
    es, bc = read_scoreboard(data, "test", "text_bytes")
    assert (es.complete, bc.complete) == (False, True)


def test_a_project_that_could_not_be_linked_leaves_no_mean(data):
    path = data / "report/comparisons.json"
    comparisons = json.loads(path.read_text())
    del comparisons["test"]["es-s0"]["linked_total_gain_percent"]
    write_json(path, comparisons)
    assert read_scoreboard(data, "test", "text_bytes")[0].gain("linked", "total") == Gain(None, 1.0, 2.0)


def test_the_command_trains_all_seeds(data):
    es, _ = read_scoreboard(data, "test", "text_bytes")
    targets = "data/policies/es-s0/weights.npy data/policies/es-s1/weights.npy"
    assert training_command(es, "p.yaml") == f"snakemake --cores 2 {targets} --configfile p.yaml"


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("work/timings/training/es-s1.json", r"delete .*checkpoints/es-s1-\* .* snakemake .*--forcerun train_es"),
        ("policies/es-s0/history.csv", "run the train stage: snakemake --cores all train"),
        ("report/comparisons.json", "make it with: make scoreboard"),
    ],
)
def test_every_missing_file_is_named_with_what_makes_it(data, path, remedy):
    (data / path).unlink()
    with pytest.raises(ArtifactError, match=f"{path} is missing.*{remedy}"):
        read_scoreboard(data, "test", "text_bytes")


def test_histories_of_earlier_versions_and_other_splits(data):
    with pytest.raises(
        ArtifactError, match=r"nothing about the validation projects; add validation to evaluate\.splits"
    ):
        read_scoreboard(data, "validation", "text_bytes")
    write_text(data / "policies/es-s0/history.csv", "generation,validation_reward\n0,0.0\n")
    with pytest.raises(ArtifactError, match=r"es-s0/history\.csv has no evaluations"):
        read_scoreboard(data, "test", "text_bytes")
    write_json(data / "report/comparisons.json", {"test": {"es-s0": figures(1.0), "es-s1": figures(1.0)}})
    with pytest.raises(ArtifactError, match="has no es-mean; run the report stage"):
        read_scoreboard(data, "test", "text_bytes")
    write_json(data / "report/comparisons.json", {"test": {}})
    with pytest.raises(ArtifactError, match="names no policy"):
        read_scoreboard(data, "test", "text_bytes")
