"""Results shared through DVC remotes, a folder and a real S3 server: docs/remote-data.md, followed to the letter."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from mlgo.learn.cost import read_cost
from tests.pipeline.conftest import ROOT, Checkout, WorkingCopy
from tests.pipeline.guide import commands_under
from tests.pipeline.s3_server import BUCKET, S3Server, s3_server

GUIDE = (ROOT / "docs/remote-data.md").read_text()
STAGES = ("corpus", "baseline", "train", "export", "evaluate", "report")
SPLITS = {"train": ["lz"], "validation": ["codec"], "test": ["calc"]}
TIMEOUT_S = 1200

Change = Callable[[dict], None]


class Clone(WorkingCopy):
    """A working copy whose Git, DVC and S3 client know nothing of this machine's settings."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        home = root.parent / "home"
        home.mkdir(exist_ok=True)
        inherited = {name: value for name, value in self.environment.items() if not name.startswith("AWS_")}
        self.environment = {
            **inherited,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "init.defaultBranch",
            "GIT_CONFIG_VALUE_0": "main",
            "GIT_CONFIG_KEY_1": "push.autoSetupRemote",
            "GIT_CONFIG_VALUE_1": "true",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def shell(self, text: str, folder: Path | None = None) -> subprocess.CompletedProcess:
        """Run a text of commands up to the first that fails."""
        command = ["bash", "-ec", text]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(
            command, cwd=folder or self.root, env=self.environment, start_new_session=True, **output
        ) as process:
            try:
                printed, errors = process.communicate(timeout=TIMEOUT_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # what the commands have started, too
                raise
        return subprocess.CompletedProcess(command, process.returncode, printed, errors)

    def do(self, text: str, folder: Path | None = None) -> str:
        """Run a text of commands that end well; what they printed."""
        run = self.shell(text, folder)
        assert run.returncode == 0, f"{text}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
        return run.stdout

    def follow(self, heading: str, values: Mapping[str, str], stage: str = "", folder: Path | None = None) -> str:
        """Do what a section of the guide says, for one stage or all; return what was printed.

        Args:
            heading: of the section.
            values: what to put in the place of the guide's examples.
            stage: added to the commands that take stages.
            folder: where, if not in this copy.
        """
        text = commands_under(GUIDE, heading)
        for example, value in values.items():
            text = text.replace(example, value)
        if stage:
            text, count = re.subn(r"^dvc (repro|pull|status|commit --force)$", rf"\g<0> {stage}", text, flags=re.M)
            assert count or heading not in ("Share results", "Get results", "Share what make has made")
        return self.do(text, folder)

    def change_settings(self, change: Change) -> None:
        path = self.root / "config/config.yaml"
        settings = yaml.safe_load(path.read_text())
        change(settings)
        path.write_text(yaml.safe_dump(settings))


def author(root: Path) -> Clone:
    """A working copy in Git that has an origin, set to the tiny preset."""
    Checkout(root)
    copy = Clone(root)
    hub = root.parent / "hub.git"
    copy.do(
        f"mlgo config use tiny; git init -q; git add -A; git commit -qm copy; git init -q --bare '{hub}'; "
        f"git remote add origin '{hub}'; git push -q"
    )
    return copy


@pytest.fixture(scope="module")
def with_corpus(tmp_path_factory) -> Clone:
    """The corpus of three projects, made by `dvc repro`; tests copy this."""
    copy = author(tmp_path_factory.mktemp("author") / "mlgo")
    copy.change_settings(lambda settings: settings["corpus"].update(splits=SPLITS))
    copy.do("dvc repro corpus")
    manifests = ("modules.parquet", "programs.parquet", "seen.parquet", "summary.json", "trained.parquet")
    assert len(copy.hashes()) == len(manifests) + 2 * 3  # and modules and programs of each project
    return copy


@pytest.fixture
def sharing(with_corpus, tmp_path) -> Clone:
    shutil.copytree(with_corpus.root.parent, tmp_path, dirs_exist_ok=True)
    copy = Clone(tmp_path / "mlgo")
    copy.do(f"git remote set-url origin '{tmp_path / 'hub.git'}'")
    return copy


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[S3Server]:
    for name in ("dvc_s3", "moto", "flask", "flask_cors", "boto3"):
        pytest.importorskip(name, reason="the server is not installed: make setup EXTRA=s3-test")
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as running:
        yield running
    assert running.process.returncode is not None


def at_server(server: S3Server, folder: str) -> dict[str, str]:
    """What stands in the place of the guide's examples."""
    return {
        "s3://my-bucket/mlgo": f"s3://{BUCKET}/{folder}",
        "https://s3.example.org": server.url,
        "MY-KEY": server.key,
        "MY-SECRET": server.secret,
    }


def get(sharing: Clone, stage: str = "", **environment: str) -> tuple[Clone, str]:
    """A clone in another folder that has followed the guide; what that printed."""
    folder = sharing.root.parent / "elsewhere"
    folder.mkdir()
    reader = Clone(folder / "mlgo")
    reader.environment |= environment
    hub = {"ssh://git.example.org/mlgo.git": str(sharing.root.parent / "hub.git")}
    return reader, reader.follow("Get results", hub, stage, folder)


def check_same_and_nothing_ran(sharing: Clone, reader: Clone, printed: str, stages: tuple[str, ...]) -> None:
    """See that a clone has all bytes, made none of them, and would notice a change."""
    assert reader.hashes() == sharing.hashes() != {}
    for stage in stages:
        assert f"Stage '{stage}' didn't change, skipping" in printed
    assert "Running stage" not in printed
    assert printed.rstrip().endswith("Data and pipelines are up to date.")
    assert not (reader.root / "data/work").exists()  # every program logs there
    assert not (reader.root / ".snakemake").exists()
    assert reader.shell("git status --porcelain").stdout == ""
    assert reader.processes() == []


@pytest.mark.slow
def test_results_travel_through_a_folder(sharing, tmp_path):
    sharing.follow("A folder", {"/srv/mlgo": str(tmp_path / "store")})
    sharing.follow("Share results", {}, "corpus")
    reader, printed = get(sharing, "corpus")
    check_same_and_nothing_ran(sharing, reader, printed, ("corpus",))
    reader.change_settings(lambda settings: settings.update(seed=1))
    assert "changed deps" in reader.shell("dvc status corpus").stdout


@pytest.mark.slow
def test_results_travel_through_s3(sharing, server):
    values = at_server(server, "corpus")
    sharing.follow("S3", values)
    sharing.follow("Credentials", values)
    sharing.follow("Share results", {}, "corpus")
    secret = {"AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": server.secret}
    reader, printed = get(sharing, "corpus", **secret)
    check_same_and_nothing_ran(sharing, reader, printed, ("corpus",))
    assert server.secret in (sharing.root / ".dvc/config.local").read_text()
    assert reader.shell("git log -p --all").stdout.count(server.url) == 1
    for one in secret.values():
        assert one not in reader.shell("git log -p --all").stdout  # the server's address went to Git, these did not


def test_what_make_has_made_is_recorded_as_it_is(sharing):
    lock = sharing.root / "dvc.lock"
    by_repro = lock.read_bytes()
    lock.unlink()
    sharing.follow("Share what make has made", {}, "corpus")
    assert lock.read_bytes() == by_repro


def said(run: subprocess.CompletedProcess) -> list[str]:
    """Rows of the guide's table whose message a failed command printed."""
    assert run.returncode != 0, run.stdout
    assert "Traceback" not in run.stderr
    rows = re.findall(r"^\| `(.+?)` \|", GUIDE.partition("## When something is wrong")[2], re.MULTILINE)
    assert len(rows) > 5
    text = run.stderr + run.stdout
    return [row for row in rows if re.search(re.escape(row).replace(r"\.\.\.", ".*"), text)]


def test_errors_without_a_usable_folder(sharing, tmp_path):
    assert said(sharing.shell("dvc push")) == ["no remote specified"]
    store = tmp_path / "store"
    sharing.follow("A folder", {"/srv/mlgo": str(store)})
    sharing.do("git add .dvc/config; git commit -qm remote; git push -q")
    sharing.do(f"git clone -q '{tmp_path / 'hub.git'}' '{tmp_path / 'reader'}'")
    reader = Clone(tmp_path / "reader")
    assert said(reader.shell("dvc pull corpus")) == ["No file hash info found for '...'. It won't be created."]
    sharing.do("git add dvc.lock config; git commit -qm results; git push -q")
    reader.do("git pull -q")
    assert said(reader.shell("dvc pull corpus")) == [
        "Some of the cache files do not exist neither locally nor on remote"
    ]
    assert reader.hashes() == {}
    sharing.do("dvc push")  # the remedy
    reader.do("dvc pull corpus")
    assert reader.hashes() == sharing.hashes()


@pytest.mark.slow
def test_errors_of_a_server(sharing, server):
    def settle(**values: str) -> None:
        lines = "".join(f"    {name} = {value}\n" for name, value in values.items())
        (sharing.root / ".dvc/config.local").write_text(f"['remote \"s3remote\"']\n{lines}")

    right = {"access_key_id": server.key, "secret_access_key": server.secret}
    sharing.follow("S3", at_server(server, "errors"))
    assert said(sharing.shell("dvc push")) == ["Unable to locate credentials"]
    settle(**right, url="s3://no-such-bucket/mlgo")
    assert said(sharing.shell("dvc push")) == ["The specified bucket does not exist"]
    shutil.rmtree(sharing.root / ".dvc/cache")
    shutil.rmtree(sharing.root / "data/corpus")
    for wrong in ("access_key_id", "secret_access_key"):
        settle(**right | {wrong: "WRONG"})
        assert said(sharing.shell("dvc pull corpus")) == ["Forbidden: An error occurred (403)"]
    settle(**right, endpointurl="http://127.0.0.1:1")
    assert said(sharing.shell("dvc pull corpus")) == ["Could not connect to the endpoint URL"]
    assert sharing.hashes() == {}


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("remote", ["A folder", "S3"])
def test_a_clone_goes_on_where_the_results_end(remote, tmp_path, request):
    """All stages. With the trees a training in the clone compiles nothing; after a change only some of them run."""
    secret: dict[str, str] = {}
    sharing = author(tmp_path / "mlgo")
    if remote == "S3":
        server = request.getfixturevalue("server")
        values = at_server(server, "all")
        secret = {"AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": server.secret}
        sharing.follow("S3", values)
        sharing.follow("Credentials", values)
    else:
        sharing.follow("A folder", {"/srv/mlgo": str(tmp_path / "store")})
    sharing.follow("Share results", {})
    reader, printed = get(sharing, **secret)
    check_same_and_nothing_ran(sharing, reader, printed, STAGES)
    lock = (sharing.root / "dvc.lock").read_bytes()
    (sharing.root / "dvc.lock").unlink()
    sharing.follow("Share what make has made", {})
    assert (sharing.root / "dvc.lock").read_bytes() == lock

    if remote == "A folder":
        shutil.copytree(sharing.root / "data/work/replay", tmp_path / "trees")
        reader.follow("Get response trees", {"/srv/mlgo-trees": str(tmp_path / "trees")})
        reader.do("dvc repro --force --single-item train")
        assert reader.hashes() == sharing.hashes()
        for policy in ("es-s0", "marginal-s0"):
            cost = read_cost(reader.root / "data/work", policy)
            assert cost.evaluations > 40
            assert cost.compiles == 0

    reader.change_settings(lambda settings: settings["evaluate"].update(resamples=1001))
    before = reader.hashes()
    assert re.findall(r"Running stage '(\w+)'", reader.do("dvc repro")) == ["evaluate", "report"]
    changed = {name.split("/")[0] for name, content in reader.hashes().items() if before[name] != content}
    assert changed == {"report"}  # the same compiles, other intervals
    assert reader.processes() == []
