"""Checkpoints: what went in comes out, to the last bit; what is none is named."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import ArtifactError
from mlgo.learn.checkpoint import load_state, save_state


@dataclass(frozen=True)
class Part:
    name: str
    numbers: np.ndarray


@dataclass(frozen=True)
class State:
    done: int
    best_reward: float
    parts: dict[str, Part] = field(default_factory=dict)
    history: tuple[dict[str, Any], ...] = ()
    arrays: tuple[np.ndarray, ...] = ()


ARRAYS = (
    np.arange(6, dtype=np.float16).reshape(2, 3),
    np.zeros((0, 4), np.float32),
    np.float64([-0.0, np.nan, np.inf, 1e-320]),
    np.array(7, np.int64),
    np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
    np.array([True, False]),
)


def test_all_of_a_state_comes_back(tmp_path):
    parts = {"b": Part("b", ARRAYS[0]), "a": Part("", ARRAYS[1])}
    history = ({"step": 0, "skipped": False, "reward": 0.1 + 0.2}, {"step": 1, "gain": None})
    state = State(3, float("-inf"), parts, history, ARRAYS)
    save_state(state, tmp_path / "state", {"failures": {"m": [1, 2]}})
    found, extra = load_state(tmp_path / "state", State, Part)
    assert (found.done, found.best_reward, found.history) == (3, float("-inf"), history)
    assert [(key, part.name) for key, part in found.parts.items()] == [("b", "b"), ("a", "")]
    restored = (*found.arrays, *(part.numbers for part in found.parts.values()))
    for one, other in zip(restored, (*ARRAYS, *ARRAYS[:2]), strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert one.flags.writeable
    assert extra == {"failures": {"m": [1, 2]}}


def test_the_same_state_gives_the_same_bytes(tmp_path):
    for name in "ab":
        save_state(State(0, 0.0, arrays=ARRAYS), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_no_checkpoint_and_one_without_arrays(tmp_path):
    assert load_state(tmp_path / "none", State) == (None, None)
    save_state(State(1, 0.5), tmp_path / "state")
    assert load_state(tmp_path / "state", State) == (State(1, 0.5), None)


@pytest.mark.parametrize("kinds", [(), (State,), (Part,)])
def test_a_state_of_another_version_is_named(tmp_path, kinds):
    save_state(State(0, 0.0, {"a": Part("a", ARRAYS[0])}), tmp_path / "old")
    with pytest.raises(ArtifactError, match=r"old is not of this version .*delete it to start anew"):
        load_state(tmp_path / "old", *kinds)


def test_a_state_with_other_fields_is_named(tmp_path):
    @dataclass
    class Part:
        title: str

    save_state(Part("x"), tmp_path / "old")
    with pytest.raises(ArtifactError, match=r"old is not of this version .*title"):
        load_state(tmp_path / "old", globals()["Part"])


@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_damaged_checkpoint_is_named(tmp_path_factory, share):
    path = tmp_path_factory.mktemp("state") / "state.npz"
    save_state(State(0, 0.0, arrays=ARRAYS), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ArtifactError, match=r"damaged.*delete it to start anew"):
        load_state(path, State)
