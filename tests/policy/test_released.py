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
def test_its_card_has_its_weights_and_the_log_of_looks_has_it_or_its_teacher(name):
    origin, own = load_policy(FOLDER / name).origin, file_sha256(FOLDER / name / "weights.npy")
    assert own[:12] in (FOLDER / name / "README.md").read_text()
    looked, weights = origin.get("teacher", name), origin.get("teacher_sha256", own)
    assert f"| {looked} | {weights[:12]} |" in (REPOSITORY / "docs/sealed-looks.md").read_text()
