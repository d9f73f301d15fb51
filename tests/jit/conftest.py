"""Where the tests replay: the SuperPMI of tests/fakes, or a real one named by CORE_ROOT and MLGO_MCH."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from mlgo.jit.client import SuperPmiClient, find_collection, find_core_root
from mlgo.jit.compiler import replay_all
from mlgo.jit.process import SuperPmi
from tests.conftest import children, lasting_children, processes_naming
from tests.fakes.collection import make_collection
from tests.fakes.superpmi import perf_score, performable, record

DOUBLE = Path(__file__).parents[1] / "fakes" / "superpmi.py"
GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
REAL = ("CORE_ROOT", "MLGO_MCH")
_NUM_LOOKED_AT = 200


class Target:
    """A SuperPMI, a JIT and a collection; all that tests of the client know of what they run on."""

    def __init__(self, command: list[str], jit: Path, collection: Path, timeout_s: float) -> None:
        self.command, self.jit, self.collection, self.timeout_s = command, jit, collection, timeout_s

    def superpmi(self, **settings) -> SuperPmi:
        limits = {"request_timeout_s": self.timeout_s, "startup_timeout_s": self.timeout_s}
        return SuperPmi(self.command, self.jit, self.collection, **{**limits, **settings})

    def client(self, **settings) -> SuperPmiClient:
        return SuperPmiClient(self.superpmi(**settings))

    def batch(self, *, no_cse: bool = True, **settings) -> closing:
        return closing(replay_all(self.superpmi(**settings), no_cse=no_cse))

    def method(self, num_viable: int) -> tuple[int, list[int]]:
        """A method with at least so many viable candidates, and their positions."""
        with self.batch() as run:
            for metrics in islice(run, _NUM_LOOKED_AT):
                place = metrics.feature_names.index("viable") if metrics.candidates else 0
                viable = [position for position, features in enumerate(metrics.candidates) if features[place]]
                if len(viable) >= num_viable:
                    return metrics.index, viable
        pytest.skip(f"no method with {num_viable} viable candidates among the first {_NUM_LOOKED_AT}")

    def expected_score(self, index: int, decisions: list[int]) -> float | None:
        """What must come out; None where only a compile can tell."""
        return None


class Double(Target):
    """The SuperPMI of tests/fakes with methods, faults and a log of what it was sent."""

    def __init__(self, folder: Path, methods: list[dict] | None = None, **fields) -> None:
        jit, collection = folder / "libclrjit.so", folder / "demo.mch"
        jit.touch()
        self.log_path = folder / "log"
        self.methods = GOLDEN["methods"] if methods is None else methods
        collection.write_bytes(record({"methods": self.methods, "log": str(self.log_path), **fields}))
        super().__init__([sys.executable, "-IS", str(DOUBLE)], jit, collection, 10.0)

    @property
    def log(self) -> list[str]:
        return self.log_path.read_text().splitlines() if self.log_path.exists() else []

    @property
    def sent(self) -> list[str]:
        """Lines that were sent to it, ``quit`` among them."""
        return [line[2:] for line in self.log if line.startswith("> ")]

    @property
    def num_starts(self) -> int:
        return self.log.count("start")

    def expected_score(self, index: int, decisions: list[int]) -> float:
        return perf_score(self.methods[index - 1], performable(self.methods[index - 1], decisions))


@pytest.fixture
def double(tmp_path: Path):
    """Make a double: ``double(methods, faults=[...], jit=..., ...)``."""
    return lambda methods=None, **fields: Double(tmp_path, methods, **fields)


@pytest.fixture(params=["double", "real"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """What cases without faults run on."""
    if request.param == "double":
        return Double(tmp_path)
    if not all(os.environ.get(name) for name in REAL):
        pytest.skip(f"{' and '.join(REAL)} do not name a core_root folder and a collection")
    superpmi, jit = find_core_root(Path(os.environ["CORE_ROOT"]))
    return Target([str(superpmi)], jit, find_collection(Path(os.environ["MLGO_MCH"])), 300.0)


@pytest.fixture(autouse=True)
def no_process_stays(tmp_path: Path) -> Iterator[None]:
    before = lasting_children()
    yield
    end = time.monotonic() + 2.0
    while (children() - before or processes_naming(str(tmp_path))) and time.monotonic() < end:
        time.sleep(0.02)
    assert children() == before
    assert not processes_naming(str(tmp_path))


@pytest.fixture(scope="session")
def superpmi(tmp_path_factory) -> dict:
    """Arguments that name the double, a JIT and a collection of 60 methods."""
    folder = tmp_path_factory.mktemp("superpmi")
    (folder / "libclrjit.so").touch()
    (folder / "methods.mch").write_text(json.dumps(make_collection(60, 0)))
    return {
        "command": [sys.executable, str(DOUBLE)],
        "jit": str(folder / "libclrjit.so"),
        "collection": str(folder / "methods.mch"),
    }
