"""A copy of the checkout in which whole pipelines run."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mlgo.base.config import load_config, merge
from mlgo.base.files import write_json
from mlgo.learn.checkpoint import load_state
from tests.conftest import wait_for
from tests.fakes.policies import linear_policy
from tests.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
OTHER = linear_policy("regalloc-evict", ["progress"], [0.0] * 4)
"""A policy of another task than most tests are about."""

STARTED = ("bcmax", "es", "ppo")
"""Learners that go on from a policy."""

TRAINING = ForkServer(["mlgo.learn.driver", "tensorflow"])
PLANNING = ForkServer(["snakemake.cli", "snakemake.api", "pydantic", "numpy", "pyarrow"])
"""Run programs that train, and dry runs of Snakemake."""

STAGES = ("corpus", "baseline", "policies", "export", "evaluation", "report")


class WorkingCopy:
    """A folder with a checkout in it, whose code is run by this Python and its programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        programs = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(root),
            "DVC_SITE_CACHE_DIR": str(root / ".dvc/tmp/site"),
            "GIT_AUTHOR_NAME": "test",
            "GIT_AUTHOR_EMAIL": "test@example.invalid",
            "GIT_COMMITTER_NAME": "test",
            "GIT_COMMITTER_EMAIL": "test@example.invalid",
        }

    def start(self, *command: str, **options) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def run(self, *command: str, timeout: float = 580) -> subprocess.CompletedProcess:
        if command[0] == "snakemake" and "--dry-run" in command:  # starts no job
            return PLANNING.run(*command, folder=self.root, environment=self.environment)
        where = {"cwd": self.root, "env": self.environment}
        return subprocess.run(command, **where, capture_output=True, text=True, timeout=timeout, check=False)

    def succeed(self, *command: str, timeout: float = 580) -> subprocess.CompletedProcess:
        """Run a program that ends well."""
        run = self.run(*command, timeout=timeout)
        assert run.returncode == 0, f"{command}\n{(run.stdout + run.stderr)[-3000:]}"
        return run

    def run_forked(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program where TensorFlow is imported already."""
        python, *program = command
        assert python == sys.executable
        return TRAINING.run(*program, folder=self.root, environment=self.environment)

    def commit(self) -> None:
        """Put everything into a new repository of Git."""
        for words in ("init -q", "add -A", "commit -qm copy"):
            self.succeed("git", *words.split())

    def jobs(self, *command: str) -> dict[str, str]:
        """How many jobs of each rule, and in total, a dry run of Snakemake would do."""
        run = self.succeed(*command)
        return dict(re.findall(r"^(\w+) +(\d+)$", run.stdout + run.stderr, re.MULTILINE))

    def is_done(self, *command: str) -> bool:
        """Whether a dry run of Snakemake finds nothing to do."""
        program, *words = command
        run = self.succeed(program, "--dry-run", *words)
        return "Nothing to be done" in run.stdout + run.stderr

    def training(self, learner: str, name: str, *options: str, preset: str = "tiny", **changes) -> list[str]:
        """A training as the rule would start it, with folders of its own and sections of the configuration changed."""
        presets = [self.root / f"config/presets/{preset}.yaml"] if preset else []
        values = merge(load_config(self.root / "config/config.yaml", *presets).model_dump(), changes)
        write_json(self.root / "data" / name / "config.json", values)
        program = [sys.executable, "scripts/train.py", learner, "--config", f"data/{name}/config.json", "--seed", "0"]
        own = ["--work", f"data/{name}/work", "--output", f"data/{name}/{learner}-s0"]
        start = ["--start", "data/policies/bc-s0"] if learner in STARTED else []
        return [*program, *start, *own, *options]

    def snakemake(self, *options: str) -> list[str]:
        profile = ["--workflow-profile", "workflow/profiles/default"]
        return ["snakemake", *profile, "--cores", "2", "--configfile", "config/presets/tiny.yaml", *options]

    def hashes(self) -> dict[str, str]:
        """Hash of every artifact; what lies in data/work is no artifact."""
        data = self.root / "data"
        files = [path for stage in STAGES for path in sorted((data / stage).rglob("*")) if path.is_file()]
        return {str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def processes(self) -> list[str]:
        """Command lines of running processes that work in this copy."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "cwd").resolve() == self.root and entry.name != str(os.getpid()):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if command:
                        found.append(command)
            except OSError:
                continue
        return found


class Checkout(WorkingCopy):
    """A copy of this checkout with its own data folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in listing.stdout.decode().split("\0"):
            if name and ((ROOT / name).is_file() or (ROOT / name).is_symlink()):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)


def ran(root: Path, preset: str, *options: str) -> Checkout:
    """A copy in which the tiny preset with another one over it ran to its end."""
    checkout = Checkout(root)
    (root / "over.yaml").write_text(preset)
    checkout.succeed(*checkout.snakemake("over.yaml", *options))
    return checkout


def copy_of(finished: Checkout, folder: Path) -> WorkingCopy:
    """A copy of a finished run, to go on with."""
    return WorkingCopy(shutil.copytree(finished.root, folder, dirs_exist_ok=True))


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of a folder's files by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def states_in(work: Path) -> list[Path]:
    """What trainings that are under way, or were killed, have saved of their state."""
    return list((work / "checkpoints").glob("[!.]*.npz"))


def steps_in(work: Path, layout: Any) -> int:
    """Steps that a killed training has left in its saved state."""
    found = states_in(work)
    state = load_state(found[0], *layout)[0] if found else None
    return state.done if state else 0


def wait_for_state(training: subprocess.Popen, work: Path) -> None:
    """Wait until a training saves its state, as it does in the middle of its work."""
    wait_for(lambda: states_in(work) or training.poll() is not None, 200.0)
    assert states_in(work), training.communicate()[0][-3000:]


def last_logged(folder: Path, name: str) -> float:
    """Last value of a number in a TensorBoard log."""
    sys.modules.setdefault("tensorboard.compat.notf", ModuleType("tensorboard.compat.notf"))  # do without TensorFlow
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    events = [event for path in sorted(folder.iterdir()) for event in EventFileLoader(str(path)).Load()]
    values = [value for event in events for value in event.summary.value if value.tag == name]
    return float(make_ndarray(values[-1].tensor))


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    yield
    TRAINING.close()
    PLANNING.close()


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Checkout:
    """A copy in which the tiny preset ran to its end under Snakemake."""
    checkout = Checkout(tmp_path_factory.mktemp("snakemake"))
    checkout.succeed(*checkout.snakemake())
    return checkout
