"""Temporary folders that outlive nothing, and where working copies share what they share."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from mlgo.base import scratch
from mlgo.base.scratch import SHARED, experiment_origin, scratch_directory, shared_folder, sweep_abandoned
from mlgo.base.threads import in_threads
from mlgo.learn.cost import TrainingCost, cost_path, read_experiments, recorded_cost

HOLD = """
import sys, time
from mlgo.base.scratch import scratch_directory
with scratch_directory() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    {end}
"""


@contextmanager
def holding(end: str) -> Iterator[tuple[subprocess.Popen, Path]]:
    with subprocess.Popen([sys.executable, "-c", HOLD.format(end=end)], stdout=subprocess.PIPE, text=True) as process:
        yield process, Path(process.stdout.readline().strip())


def test_fresh_empty_and_private():
    with scratch_directory() as one, scratch_directory() as two:
        assert one != two
        assert list(one.iterdir()) == list(two.iterdir()) == []
        assert one.stat().st_mode & 0o077 == 0
        assert Path(tempfile.gettempdir()) in one.parents
        sweep_abandoned()
        assert one.exists()


def test_removed_with_all_content_even_after_an_error_or_by_its_user():
    with pytest.raises(ZeroDivisionError), scratch_directory() as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text("x")
        os.mkfifo(folder / "fifo")
        raise ZeroDivisionError
    assert not folder.exists()
    with scratch_directory() as folder:
        folder.rmdir()


def test_folders_of_killed_processes_are_swept_by_the_next_and_a_clean_exit_leaves_none():
    with holding("time.sleep(60)") as (process, folder):
        with scratch_directory():
            sweep_abandoned()
            assert (folder / "file").exists()  # its owner lives
        process.kill()
    assert (folder / "file").exists()
    with holding("sys.exit(3)") as (other, its_folder):
        assert other.wait() == 3
    assert not folder.parent.exists()
    assert not its_folder.parent.exists()


def test_a_lock_that_outlives_its_owner_for_a_moment_is_waited_for():
    fork = "import os; os.fork() or (time.sleep(0.5), os._exit(0)); print(flush=True); time.sleep(60)"
    with holding(fork) as (process, folder):
        process.stdout.readline()
        process.kill()  # as when it starts a compiler, which holds the lock until it runs
    sweep_abandoned()
    assert folder.exists()
    assert sweep_abandoned([process.pid]) >= 1
    assert not folder.parent.exists()


@pytest.mark.slow
def test_processes_that_start_together_do_not_sweep_each_other():
    program = (
        "import time\nfrom mlgo.base.scratch import remove_own_scratch, scratch_directory\nend = time.monotonic() + 3\n"
        "while time.monotonic() < end:\n    with scratch_directory() as folder:\n        assert folder.exists()\n"
        "    remove_own_scratch()\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [run.communicate()[1] for run in runs] == [""] * 6


def test_threads_that_begin_together_have_one_folder(monkeypatch):
    monkeypatch.setattr(scratch, "_owned", {})
    begin = Barrier(4)

    def parent(_):
        begin.wait()
        with scratch_directory() as folder:
            return folder.parent

    assert len(set(in_threads(parent, range(4), 4))) == 1
    scratch.remove_own_scratch()


def test_a_forked_child_has_a_folder_of_its_own():
    with scratch_directory() as folder:
        pid = os.fork()
        if pid == 0:
            with scratch_directory() as theirs:
                os._exit(0 if theirs.parent != folder.parent else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert folder.exists()
        assert sweep_abandoned() == 1  # the child's


DOCUMENTS = ("letters", "1234-abcdefgh")


def loose(common, elsewhere):
    common.mkdir()
    common.chmod(0o777)


def of_another_user(common, elsewhere):
    common.mkdir(mode=0o700)
    os.chown(common, 12345, 12345)


@pytest.mark.parametrize("make", [Path.symlink_to, loose, of_another_user, lambda common, _: common.touch()])
def test_a_common_folder_that_is_not_ours_alone_is_left_as_it_is(make, tmp_path, monkeypatch, caplog):
    if make is of_another_user and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    documents, temporary = tmp_path / "documents", tmp_path / "tmp"
    documents.mkdir(mode=0o700)
    temporary.mkdir()
    common = temporary / f"mlgo-{os.getuid()}"
    make(common, documents)
    for name in DOCUMENTS if common.is_dir() else ():
        (common / name).mkdir()
        (common / name / "text").write_text("mine")
    before = sorted(common.rglob("*"))
    monkeypatch.setattr(scratch, "_owned", {})
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for _ in range(2):
        with scratch_directory() as folder:
            assert folder.parent.parent.parent == temporary
            assert folder.parent.parent != common
            assert folder.parent.parent.stat().st_mode & 0o077 == 0
        sweep_abandoned()
    scratch.remove_own_scratch()
    assert caplog.text.count("is a link, of another user or open to others") == 1
    assert sorted(common.rglob("*")) == before
    assert list(temporary.iterdir()) == [common]


def test_only_what_looks_like_ours_is_swept(tmp_path, monkeypatch):
    common = tmp_path / f"mlgo-{os.getuid()}"
    common.mkdir(mode=0o700)
    documents = tmp_path / "documents"
    for folder in (documents, common / "letters", common / "1234-abcdefgh", common / "1235-abcdefgh"):
        folder.mkdir()
        (folder / "text").write_text("mine")
    os.mkfifo(common / "letters" / "owner.lock")
    (common / "1236-abcdefgh").symlink_to(documents)
    (common / "1235-abcdefgh" / "link").symlink_to(documents)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert sweep_abandoned() == 2
    left = {path.name for path in common.iterdir()}
    assert left == {"letters", "1236-abcdefgh", "owner.lock"}
    assert (documents / "text").read_text() == "mine"


def test_locks_are_where_only_this_user_may_write(tmp_path, monkeypatch):
    runtime, temporary = tmp_path / "run", tmp_path / "tmp"
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    temporary.mkdir()
    assert scratch.lock_folder("locks").parent == temporary  # no such folder
    runtime.mkdir()
    assert scratch.lock_folder("locks").parent == runtime
    for where in (runtime, temporary):
        (where / f"locks-{os.getuid()}").chmod(0o755)
    assert scratch.lock_folder("locks") is None


class Counts:
    num_asked, num_compiled = 10, 4


@pytest.fixture
def standing_in(tmp_path, monkeypatch):
    monkeypatch.delenv(SHARED, raising=False)

    def go(folder):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        return tmp_path / folder

    return go


def test_copies_of_experiments_share_with_where_they_come_from_unless_the_variable_says_where(
    standing_in, tmp_path, monkeypatch
):
    standing_in(".")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert shared_folder() == tmp_path / "cache/mlgo/work"  # nothing is left in folders of others
    (tmp_path / "mlgo.yaml").touch()
    assert shared_folder() == Path("data/work")
    for copy in (".dvc/tmp/exps/tmpabc", ".dvc/tmp/exps/standalone/tmpdef"):
        standing_in(copy)
        assert shared_folder(Path("data/work")) == tmp_path / "data/work"
    for folder in (".dvc/tmp/exps", ".dvc/tmp", "exps/tmpabc", "dvc/tmp/exps/x"):
        assert experiment_origin(tmp_path / folder) is None
    monkeypatch.setenv(SHARED, str(tmp_path / "elsewhere"))
    assert shared_folder(Path("data/work")) == tmp_path / "elsewhere"


def test_costs_of_experiments_outlive_their_copies(standing_in, monkeypatch):
    copy = standing_in(".dvc/tmp/exps/tmpabc")
    monkeypatch.setenv("DVC_EXP_NAME", "tidy-newt")
    with recorded_cost(Path("data/work"), "es-s0", TrainingCost("run", 1), Counts()):
        pass
    assert cost_path(copy / "data/work", "es-s0").exists()
    standing_in(".")
    with recorded_cost(Path("data/work"), "es-s1", TrainingCost("run", 1), Counts()):  # a plain run is no experiment
        pass
    found = read_experiments(Path("data/work"))
    assert {name: list(costs) for name, costs in found.items()} == {"tidy-newt": ["es-s0"]}
    cost = found["tidy-newt"]["es-s0"]
    assert (cost.evaluations, cost.compiles, cost.complete) == (10, 4, True)
