"""Training killed at any moment ends as an undisturbed one, once it is run again."""

import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

import pytest

from mlgo.base.scratch import sweep_abandoned
from mlgo.learn.es.loop import STATES
from mlgo.pool.tree_store import stores
from tests.conftest import WITHIN_S, session_members, wait_for
from tests.pipeline.conftest import Checkout, contents, steps_in

KILLS = 20
LONGEST_S = 3.0
"""Of one run before it is killed; half a second of it goes into starting."""


def command(checkout: Checkout, name: str) -> list[str]:
    """Evolution strategies on the trees of a fresh work folder, as the rule would start them."""
    longer = {"generations": 40, "pairs": 4, "modules": 6, "validate_every": 2}
    return checkout.training("es", name, "--workers", "2", es=longer)


def scratch_folders() -> list[Path]:
    folder = Path(tempfile.gettempdir()) / f"mlgo-{os.getuid()}"
    return [path for path in folder.iterdir() if path.is_dir()]


@pytest.mark.slow
def test_training_killed_twenty_times_gives_the_bytes_of_an_undisturbed_one(finished):
    finished.succeed(*command(finished, "calm"))
    rng, generations = random.Random(20), []
    hits = 0
    for _ in range(KILLS):
        run = finished.start(*command(finished, "killed"), start_new_session=True)
        try:
            _, status = run.communicate(timeout=rng.uniform(0.1, LONGEST_S)), run.returncode
            assert status == 0
        except subprocess.TimeoutExpired:
            hits += 1
            run.kill()
            run.communicate()
        generations.append(steps_in(finished.root / "data/killed/work", STATES))
        wait_for(lambda session=run.pid: not session_members(session), WITHIN_S)
    finished.succeed(*command(finished, "killed"))
    print(f"{hits} of {KILLS} kills hit a running training; generations done after each: {generations}")
    assert hits >= 15
    assert len(set(generations)) > 3  # it was killed in the middle of its work, not in its beginning alone
    calm, killed = (contents(finished.root / "data" / name / "es-s0") for name in ("calm", "killed"))
    assert calm.keys() >= {"history.csv", "policy.json", "weights.npy"}
    assert killed == calm
    check_trees(finished)
    sweep_abandoned()
    assert len(scratch_folders()) <= 1  # that of the tests


def check_trees(checkout: Checkout) -> None:
    """Every tree opens, and some of its results are what the compiler says."""
    sizes = {}
    for name in ("calm", "killed"):
        (store,) = stores(checkout.root / f"data/{name}/work/replay")
        loaded = {sha256: store.load(sha256) for sha256 in store.modules()}
        assert all(tree is not None for tree in loaded.values())
        sizes[name] = {sha256: tree.num_leaves for sha256, tree in loaded.items()}
    assert sizes["killed"].keys() == sizes["calm"].keys()
    work = ["--work", "data/killed/work", "--preset", "config/presets/tiny.yaml"]
    verified = checkout.run("mlgo", "replay", "verify", "--count", "20", *work)
    assert "20 of 20 results are as the trees say" in verified.stdout, verified.stdout + verified.stderr
    stats = json.loads(checkout.run("mlgo", "replay", "stats", "--json", *work[:2]).stdout)
    assert stats[0]["compiles"] == sum(sizes["killed"].values())
