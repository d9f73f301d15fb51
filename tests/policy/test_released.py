"""Policies of data/released are the ones that were looked at, or trees of these."""

import pytest

from mlgo.base.files import file_sha256
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "data/released"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/policy.json"))


def test_what_is_released():
    assert NAMES == ["marginal-s0", "tree8-s0"]


@pytest.mark.parametrize("name", NAMES)
def test_it_or_its_teacher_stands_in_the_log_of_looks(name):
    origin = load_policy(FOLDER / name).origin
    looked, weights = (
        origin.get("teacher", name),
        origin.get("teacher_sha256", file_sha256(FOLDER / name / "weights.npy")),
    )
    assert f"| {looked} | {weights[:12]} |" in (REPOSITORY / "docs/sealed-looks.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_its_weights_stand_on_its_card(name):
    assert file_sha256(FOLDER / name / "weights.npy")[:12] in (FOLDER / name / "README.md").read_text()
