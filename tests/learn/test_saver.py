"""Writes in the background: only when allowed, none lost, no thread left."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import pytest

from mlgo.base.files import write_text
from mlgo.errors import ArtifactError
from mlgo.learn.checkpoint import BackgroundSaver
from tests.conftest import wait_for

WITHIN_S = 10.0


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def writes(text):
    return lambda path: write_text(path, text)


class Held:
    """A write that says when it starts and waits until it may end."""

    def __init__(self):
        self.started, self.release = threading.Event(), threading.Event()

    def __call__(self, path):
        self.started.set()
        assert self.release.wait(WITHIN_S)
        write_text(path, "held")


def test_nothing_is_written_before_it_is_allowed(tmp_path):
    path = tmp_path / "folder" / "a"
    with BackgroundSaver() as saver:
        saver.save(path, writes("a"))
        time.sleep(0.05)
        assert not path.exists()
        with saver.writing_allowed():
            wait_for(path.exists)
    assert path.read_text() == "a"


def test_nothing_starts_once_it_is_no_longer_allowed(tmp_path):
    held = Held()
    with BackgroundSaver() as saver:
        saver.save(tmp_path / "a", held)
        saver.save(tmp_path / "b", writes("b"))
        with saver.writing_allowed():
            assert held.started.wait(WITHIN_S)
        held.release.set()  # what has started ends
        wait_for((tmp_path / "a").exists)
        time.sleep(0.05)
        assert not (tmp_path / "b").exists()
        saver.flush()
        assert (tmp_path / "b").exists()


def test_one_other_thread_writes_all_in_order(tmp_path):
    seen = []
    with BackgroundSaver() as saver:
        for number in range(20):
            saver.save(tmp_path / str(number), lambda path: seen.append((path.name, threading.get_ident())))
        saver.flush()
        assert [name for name, _ in seen] == [str(number) for number in range(20)]
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


def test_without_a_write_there_is_no_thread():
    before = threading.active_count()
    with BackgroundSaver() as saver:
        saver.flush()
        with saver.writing_allowed():
            assert threading.active_count() == before


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_the_end_of_the_block_writes_the_rest(tmp_path, error):
    with pytest.raises(error) if error else nullcontext(), BackgroundSaver() as saver:
        for name in "abc":
            saver.save(tmp_path / name, writes(name))
        if error:
            raise error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_an_error_of_the_writer_is_raised_in_the_learner_and_the_others_are_written(tmp_path):
    (tmp_path / "file").touch()
    with BackgroundSaver() as saver:
        saver.save(tmp_path / "file" / "policy.json", writes("a"))
        saver.save(tmp_path / "b", writes("b"))
        with pytest.raises(ArtifactError, match=r"cannot write .*file/policy\.json: "):
            saver.flush()
        saver.flush()  # said once
        assert (tmp_path / "b").read_text() == "b"
        saver.save(tmp_path / "c", writes("c"))
    assert (tmp_path / "c").read_text() == "c"


def test_a_defect_in_a_write_names_the_file(tmp_path):
    with (
        pytest.raises(ArtifactError, match=r"cannot write .*/broken: KeyError\('x'\)") as caught,
        BackgroundSaver() as saver,
    ):
        saver.save(tmp_path / "broken", lambda path: {}["x"])
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_shows_at_the_next_write(tmp_path):
    with BackgroundSaver() as saver:
        saver.save(tmp_path / "broken", lambda path: {}["x"])
        with saver.writing_allowed():
            wait_for(lambda: saver._queued[0].done())
        with pytest.raises(ArtifactError, match="broken"):
            saver.save(tmp_path / "a", writes("a"))


def test_an_exception_of_the_block_is_not_hidden_by_the_writer_s(tmp_path):
    with pytest.raises(ValueError, match="mine") as caught, BackgroundSaver() as saver:
        saver.save(tmp_path / "broken", lambda path: {}["x"])
        raise ValueError("mine")
    assert "broken" in caught.value.__notes__[0]


def test_a_full_disk_is_named(small_disk):
    with BackgroundSaver() as saver:
        saver.save(small_disk / "large", writes("x" * 2_000_000))
        with pytest.raises(ArtifactError, match=r"no space left on the device while writing .*large"):
            saver.flush()


def test_nothing_is_saved_outside_the_block(tmp_path):
    with BackgroundSaver() as saver:
        saver.flush()
    for outside in (saver, BackgroundSaver()):
        with pytest.raises(RuntimeError, match="outside"):
            outside.save(tmp_path / "b", writes("b"))


def test_ctrl_c_while_it_waits_for_the_writer(tmp_path):
    held = Held()

    def interrupt():
        assert held.started.wait(WITHIN_S)
        os.kill(os.getpid(), signal.SIGINT)
        held.release.set()

    helper = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt), BackgroundSaver() as saver:
        saver.save(tmp_path / "a", held)
        saver.save(tmp_path / "b", writes("b"))
        helper.start()
        saver.flush()
        time.sleep(WITHIN_S)  # where the interrupt arrives if the flush was faster
    helper.join()
    assert (tmp_path / "a").read_text() == "held"
    assert (tmp_path / "b").read_text() == "b"


PROGRAM = """
import sys, time
from functools import partial
from pathlib import Path
from mlgo.cli.program import run_program
from mlgo.base.files import write_text
from mlgo.learn.checkpoint import BackgroundSaver

def main():
    folder = Path(sys.argv[1])
    with BackgroundSaver() as saver:
        for number in range(50):
            saver.save(folder / str(number), lambda path: (time.sleep(0.01), write_text(path, "x")))
        with saver.writing_allowed():
            print("ready", flush=True)
            time.sleep(60)

run_program(main)
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_program_that_is_ended_writes_the_rest_and_ends(tmp_path, number, status):
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.wait(WITHIN_S) == status
    assert len(list(tmp_path.iterdir())) == 50
