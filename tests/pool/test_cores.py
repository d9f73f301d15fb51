"""Claims of cores, shared between processes by lock files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLAIM = """
import json, os, sys
from mlgo.pool.cores import claim_core
print(json.dumps({"core": claim_core(), "affinity": sorted(os.sched_getaffinity(0))}), flush=True)
sys.stdin.readline()
"""


def start(temporary: Path) -> tuple[subprocess.Popen, dict]:
    environment = os.environ | {"XDG_RUNTIME_DIR": str(temporary)}  # where nobody else claims cores
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", CLAIM], env=environment, text=True, **pipes)
    return process, json.loads(process.stdout.readline())


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()


def test_every_core_is_claimed_once_and_freed_by_death(tmp_path):
    available = sorted(os.sched_getaffinity(0))
    held = [start(tmp_path) for _ in available]
    try:
        assert sorted(claim["core"] for _, claim in held) == available
        assert all(claim["affinity"] == [claim["core"]] for _, claim in held)
        extra, claim = start(tmp_path)
        assert claim == {"core": None, "affinity": available}  # all taken: it runs anywhere
        end(extra)
        process, freed = held.pop()
        end(process)
        again = start(tmp_path)
        held.append(again)
        assert again[1]["core"] == freed["core"]
    finally:
        for process, _ in held:
            end(process)


WITHOUT_PERMISSION = """
import os, sys

def refuse(*args):
    raise PermissionError(1, "Operation not permitted")

os.sched_setaffinity = refuse
from mlgo.pool import LocalBackend, Pool
from tests.pool.handlers import make_square
for _ in range(2):
    with Pool(LocalBackend(make_square), 2) as pool:
        assert dict(pool.map([2, 3])) == {0: 4, 1: 9}
from mlgo.pool.cores import claim_core
assert claim_core() is None
"""


@pytest.mark.slow
def test_without_permission_it_works_and_says_so_once():
    run = subprocess.run([sys.executable, "-c", WITHOUT_PERMISSION], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("does not let processes choose their core") == 1
    assert run.stderr.count("\n") == 1


def test_workers_hold_little(toolchain, settings):
    command = [sys.executable, "-c", HELD, toolchain.target, settings.model_dump_json()]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    resident_mb, heavy = json.loads(run.stdout)
    assert resident_mb < 150
    assert heavy == []


HELD = """
import sys
import json
import pyarrow  # the host's, not the workers'
from mlgo.host.toolchain import find_toolchain
from mlgo.base.config import CompileConfig
from mlgo.pool import LocalBackend, Pool
from tests.pool.handlers import make_holder
settings = CompileConfig.model_validate_json(sys.argv[2])
if __name__ == "__main__":
    with Pool(LocalBackend(make_holder(find_toolchain("auto", sys.argv[1]), settings)), 1) as pool:
        print(json.dumps(dict(pool.map([None]))[0]))
"""
