"""BC-Max on the sample corpus with the real compiler."""

from pathlib import Path

import numpy as np
import pytest

from mlgo.base.artifacts import FAILURES, read_table
from mlgo.learn.bcmax.loop import STATES
from mlgo.policy.stored import load_policy, save_policy
from tests.pipeline.conftest import OTHER, Checkout, contents, steps_in, wait_for_state

ROUNDS = 2


def command(checkout: Checkout, name: str, workers: int, **changes) -> list[str]:
    """BC-Max with its own work folder, as the rule would start it."""
    small = {"rounds": ROUNDS, "modules": 4, "epochs": 3, "clone_epochs": 5, "references": ["never"], **changes}
    return checkout.training("bcmax", name, "--workers", str(workers), bcmax=small)


@pytest.fixture(scope="module")
def trained(finished) -> Path:
    """Folder of a policy trained with two workers, undisturbed."""
    finished.succeed(*command(finished, "bcmax-two", 2, hidden=[4]))
    return finished.root / "data/bcmax-two/bcmax-s0"


@pytest.mark.slow
def test_what_it_leaves(trained):
    policy = load_policy(trained)
    assert policy.architecture.widths[1:] == (4, 1)
    assert policy.origin["algorithm"] == "bcmax"
    header, *rows = (trained / "history.csv").read_text().splitlines()
    assert header.startswith("generation,mean_reward,best_known_reward,improved_modules,heuristic_modules,")
    assert [row.split(",")[0] for row in rows] == ["0", "1", "2"]
    assert read_table(trained / "failures.parquet", FAILURES).num_rows == 0


@pytest.mark.slow
def test_the_number_of_workers_does_not_matter(finished, trained):
    finished.succeed(*command(finished, "bcmax-one", 1, hidden=[4]))
    assert contents(finished.root / "data/bcmax-one/bcmax-s0") == contents(trained)


@pytest.mark.slow
def test_a_killed_run_ends_as_an_undisturbed_one(finished, trained):
    child = finished.start(*command(finished, "bcmax-killed", 1, hidden=[4]), start_new_session=True)
    folder = finished.root / "data/bcmax-killed"
    wait_for_state(child, folder / "work")
    child.kill()
    child.communicate()
    assert steps_in(folder / "work", STATES) < ROUNDS
    assert not (folder / "bcmax-s0").exists()
    finished.succeed(*command(finished, "bcmax-killed", 1, hidden=[4]))
    assert contents(folder / "bcmax-s0") == contents(trained)


def test_earlier_policies_and_their_provenance(finished):
    """What ES has returned is compiled before the first round."""
    changes = {"rounds": 0, "hidden": [], "policies": ["data/policies/es-s0"]}
    finished.succeed(*command(finished, "bcmax-earlier", 2, **changes))
    folder = finished.root / "data/bcmax-earlier/bcmax-s0"
    origin = load_policy(folder).origin
    assert len(origin["policies_sha256"]) == 1
    start = load_policy(finished.root / "data/policies/bc-s0")
    assert np.array_equal(load_policy(folder).weights, start.weights)  # no rounds: the start itself
    (row,) = (folder / "history.csv").read_text().splitlines()[1:]
    assert float(row.split(",")[2]) >= max(0.0, float(row.split(",")[1]))


def test_unusable_settings(finished):
    run = finished.run_forked(*command(finished, "bcmax-bad", 1, policies=["data/policies/gone"]))
    assert run.returncode == 1
    assert "data/policies/gone/policy.json is missing" in run.stderr
    save_policy(OTHER, finished.root / "data/bcmax-bad/other")
    run = finished.run_forked(*command(finished, "bcmax-bad", 1, policies=["data/bcmax-bad/other"]))
    assert run.returncode == 1
    assert run.stderr.strip().splitlines()[-1].startswith("error: data/bcmax-bad/other, named in bcmax.policies, is a")
    assert not (finished.root / "data/bcmax-bad/bcmax-s0").exists()


def test_the_rule_is_part_of_the_workflow(finished, tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("train: {algorithms: [bc, bcmax]}\n")
    presets = ["--configfile", "config/presets/tiny.yaml", str(overlay)]
    run = finished.succeed("snakemake", "--cores", "1", *presets, "--dry-run")
    assert "rule train_bcmax:" in run.stdout + run.stderr
    assert "data/policies/bcmax-s0/weights.npy" in run.stdout + run.stderr
