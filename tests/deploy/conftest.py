"""A driver of the released policy, made once, and fake compilers that break the channel's rules."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mlgo.base.config import default_compile
from mlgo.deploy import drivers
from mlgo.deploy.drivers import CACHE, DriverChoice, default_policy, make_driver
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain
from mlgo.policy.stored import load_policy, save_policy
from tests.conftest import REPOSITORY, WITHIN_S, wait_for
from tests.deploy.publish.conftest import RELEASED, publish

MLGO = REPOSITORY / "bin" / "mlgo"
CALLS = """
static int triple(int x) { return x * 3; }
int use(int x) { return triple(x) + triple(x + 1); }
"""


@pytest.fixture(scope="session")
def cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder for drivers, in the environment; zig's outlives the tests, as it builds a C library there."""
    folder, kept = tmp_path_factory.mktemp("drivers"), getattr(request.config, "cache", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(folder))
        patch.setenv("ZIG_GLOBAL_CACHE_DIR", str(kept.mkdir("zig-cache") if kept else folder / "zig"))
        patch.delenv("ZIG_LOCAL_CACHE_DIR", raising=False)
        yield folder


@dataclass(frozen=True)
class Build:
    """Runs commands as a build does, in a folder."""

    folder: Path

    def run(self, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **environment}
        return subprocess.run(
            list(map(str, words)),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            errors="backslashreplace",
        )

    def cc(
        self,
        *arguments: object,
        options: Sequence[object] = (),
        tool: str = "cc",
        languages: str = "c,c++",  # the released policy leaves C to the compiler
        **environment: str,
    ):
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        options = [*options, *(["--languages", languages] if languages else [])]
        if not any(str(word).startswith("-O") or word in ("-c", "-S", "-E") for word in arguments):
            arguments = ("-Oz", *arguments)  # at others zig builds its libraries once more, in up to half a minute
        return self.run(MLGO, tool, "--log", log, *options, "--", *arguments, **environment)

    @property
    def log(self) -> list[Mapping]:
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def constant_policy(self, name: str, logit: float) -> Path:
        """The released policy with no weight but the bias of its only output."""
        policy = load_policy(default_policy())
        weights = np.zeros_like(policy.weights)
        weights[-1] = logit
        save_policy(replace(policy, weights=weights), self.folder / name)
        return self.folder / name


@pytest.fixture
def build(tmp_path: Path, cache: Path) -> Build:
    """In a folder with `CALLS`."""
    (tmp_path / "calls.c").write_text(CALLS)
    return Build(tmp_path)


@pytest.fixture
def faulty(cache: Path, toolchain: Toolchain, script: Callable[[str], str], monkeypatch) -> Callable[[str], list[str]]:
    """The command of a driver of a compiler that is a shell text, to compile a file.

    The text has ``$base``, the channel's base, empty where the compile is plain; ``$header`` writes the real header.
    """
    header = probe_channel(toolchain, get_task("inline-size"), default_compile())
    monkeypatch.setattr(drivers, "probe_channel", lambda *_: header)

    def make(text: str) -> list[str]:
        specs = ",".join(f'{{"name":"{one.name}","type":"int64_t","port":0,"shape":[1]}}' for one in header.features)
        advice = '{"name":"inlining_decision","type":"int64_t","port":0,"shape":[1]}'
        compiler = script(
            'base=\nfor word in "$@"; do case $word in *channel-base=*) base=${word#*channel-base=};; esac; done\n'
            f'header() {{ printf \'%s\\n\' \'{{"features":[{specs}],"advice":{advice}}}\' \'{{"context":""}}\'; }}\n'
            f"question() {{ printf '{{\"observation\":0}}\\n'; head -c {8 * len(header.features)} /dev/zero; echo; }}\n"
            + text
        )
        fake = replace(toolchain, binary=Path(compiler), is_zig=False)
        driver = make_driver(DriverChoice.of(str(default_policy()), compiler), fake)
        return [str(driver), "cc", "--new", "--languages", "c", "--", "-Oz", "-c", "file.c"]

    return make


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package mlgo-policies of all that is released."""
    folder = tmp_path_factory.mktemp("dist")
    publish(RELEASED, "--wheel", "-o", folder)
    return next(folder.iterdir())


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Channels are gone at the end, those of killed drivers a moment later."""
    yield
    wait_for(lambda: not list(Path(os.environ["TMPDIR"]).glob("mlgo-cc-*")), WITHIN_S)
