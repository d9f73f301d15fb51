"""Policies of data/released are the ones that were looked at."""

import pytest

from mlgo.core.files import file_sha256
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "data/released"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/policy.json"))


def test_there_is_one():
    assert "marginal-s0" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_its_weights_stand_in_the_log_of_looks_and_on_its_card(name):
    assert load_policy(FOLDER / name).weights.size
    weights = file_sha256(FOLDER / name / "weights.npy")[:12]
    looks = (REPOSITORY / "docs/sealed-looks.md").read_text()
    assert f"| {name} | {weights} |" in looks
    assert weights in (FOLDER / "README.md").read_text()
