"""Policies from elsewhere: whatever their files hold, there is a policy or one line that says what is wrong."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.errors import ArtifactError, MlgoError
from mlgo.policy.stored import load_policy

INPUTS = {"inline-size": 2, "regalloc-evict": 5, "regalloc-priority": 2 * 7 + 1}  # of the network for two features


def description(task: str) -> dict:
    names = {"format": 2, "task": task, "widths": [INPUTS[task], 1], "features": ["li_size", "stage"]}
    return names | {"centre": [0.0, 1.0], "scale": [1.0, 2.0], "unit": None, "provenance": {"seed": 1}}


def weights(task: str) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(INPUTS[task] + 1, np.float32))
    return buffer.getvalue()


def load(folder: Path, task: str, text: bytes, data: bytes) -> object:
    (folder / "policy.json").write_bytes(text)
    (folder / "weights.npy").write_bytes(data)
    try:
        return load_policy(folder)
    except MlgoError as error:
        message = str(error)
        assert str(folder) in message
        assert "\n" not in message
        return None


EACH_TASK = pytest.mark.parametrize("task", sorted(INPUTS))


@EACH_TASK
def test_the_undamaged_one(task, tmp_path):
    policy = load(tmp_path, task, json.dumps(description(task)).encode(), weights(task))
    assert policy.weights.tolist() == [1.0] * (INPUTS[task] + 1)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)


@EACH_TASK
@settings(max_examples=150)
@given(key=st.sampled_from(sorted(description("inline-size"))), value=values)
def test_any_value_anywhere_in_the_description(task, tmp_path_factory, key, value):
    load(tmp_path_factory.mktemp("policy"), task, json.dumps(description(task) | {key: value}).encode(), weights(task))


@settings(max_examples=150)
@given(
    features=values | st.just(["li_size"]) | st.just([]),
    rows=values | st.lists(st.lists(st.integers(-3, 3) | values, min_size=1, max_size=2), max_size=3),
    base=st.sampled_from([2, 2, 2, 6, None]),
)
def test_any_value_in_overrides(tmp_path_factory, features, rows, base):
    tuned = description("inline-size") | {"format": 6, "base": base, "overrides": {"features": features, "rows": rows}}
    found = load(tmp_path_factory.mktemp("policy"), "inline-size", json.dumps(tuned).encode(), weights("inline-size"))
    assert found is None or len(found.overrides.answers) == len(rows)


@EACH_TASK
@settings(max_examples=150)
@given(data=st.data())
def test_flipped_bits_and_cuts(task, tmp_path_factory, data):
    files = [json.dumps(description(task)).encode(), weights(task)]
    which = data.draw(st.integers(0, 1))
    place = data.draw(st.integers(0, len(files[which]) - 1))
    spoilt = bytearray(files[which])
    if data.draw(st.booleans()):
        del spoilt[place:]
    else:
        spoilt[place] ^= 1 << data.draw(st.integers(0, 7))
    files[which] = bytes(spoilt)
    load(tmp_path_factory.mktemp("policy"), task, *files)


@EACH_TASK
def test_absurd_sizes(task, tmp_path):
    text = json.dumps(description(task)).encode()
    absurd = weights(task).replace(b"(%d,)" % (INPUTS[task] + 1), b"(10000000000000,)")
    nested = b'{"format":' * 50_000
    for files in ((text, absurd), (nested, weights(task))):
        assert load(tmp_path, task, *files) is None
        with pytest.raises(ArtifactError):
            load_policy(tmp_path)


@EACH_TASK
@pytest.mark.parametrize("failure", ["[]", "3", "{}", '{"message": 3}'])
def test_a_record_of_a_failed_training_of_any_form(task, tmp_path, failure):
    (tmp_path / "failure.json").write_text(failure)
    assert load(tmp_path, task, json.dumps(description(task)).encode(), weights(task)) is None
