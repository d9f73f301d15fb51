"""Does a compiler offer the channel? Asked of real, unsuitable and misbehaving ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo.errors import ToolchainError
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_toolchain
from tests.host.test_session_fake import END, FIRST, HEADER, START


@pytest.fixture
def probe_fake(fake, script, task, settings, tmp_path, leaves_nothing):
    """Probe the fake, which does the given steps whatever module it is handed."""

    def go(steps, **changes):
        (tmp_path / "steps.json").write_text(json.dumps(steps))
        binary = Path(script(f'exec "{fake.binary}" -x ir "{tmp_path / "steps.json"}" "$@"'))
        with leaves_nothing():
            return probe_channel(replace(fake, binary=binary), task, settings.model_copy(update=changes))

    return go


PRIORITY = [("li_size", "int64", (1,)), ("stage", "int64", (1,)), ("weight", "float32", (1,))]


@pytest.mark.parametrize(
    ("name", "count", "where", "some", "answer"),
    [
        ("inline-size", 39, slice(-1, None), [("inlining_default", "int64", (1,))], ("inlining_decision", "int64")),
        ("regalloc-evict", 21, slice(1), [("mask", "int64", (1, 33))], ("index_to_evict", "int64")),
        ("regalloc-priority", 3, slice(None), PRIORITY, ("priority", "float32")),
    ],
)
def test_the_wheel_offers_the_channel(name, count, where, some, answer, toolchain, settings, leaves_nothing):
    level = "-Oz" if name == "inline-size" else "-O2"
    with leaves_nothing():
        header = probe_channel(toolchain, get_task(name), settings.model_copy(update={"optimization": level}))
    features = [(spec.name, spec.dtype.name, spec.shape) for spec in header.features]
    assert len(features) == count
    assert features[where] == some
    assert (header.advice.name, header.advice.dtype.name) == answer


def test_a_clang_without_the_option(clang_without_channel, toolchain, task, settings, leaves_nothing):
    clang = find_toolchain(clang_without_channel, toolchain.target)
    with leaves_nothing(), pytest.raises(ToolchainError, match="set toolchain: auto") as caught:
        probe_channel(clang, task, settings)
    assert "clang 22.1.8 does not offer the interactive channel of task inline-size" in str(caught.value)
    assert "Unknown command line argument '-enable-ml-inliner=release'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fake_that_asks(probe_fake):
    assert [spec.name for spec in probe_fake([*START, *FIRST, *END]).features] == ["a", "b"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (END, "without opening the channel.*set toolchain: auto"),
        ([*START, *END], "opens the channel of task inline-size but asks nothing"),
        ([["open"], ["send", HEADER], ["hang"]], r"silent for 0\.4 s.*set toolchain: auto"),
        ([["open"], ["send", "hello\n"], ["hang"]], "header is not JSON.*set toolchain: auto"),
        ([*START, *FIRST, ["kill", 11]], "signal 11.*set toolchain: auto"),
    ],
    ids=["ignores the option", "asks nothing", "hangs", "garbage", "crashes"],
)
def test_compilers_that_misbehave(steps, message, probe_fake):
    with pytest.raises(ToolchainError, match=message):
        probe_fake(steps, answer_timeout_s=0.4 if "silent" in message else 20.0)
