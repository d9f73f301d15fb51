"""Claims of cores, shared between processes by lock files."""

import json
import os
import subprocess
import sys

CLAIM = """
import json, os, sys
from mlgo.workers.cores import claim_core
cores = [claim_core()]
print(json.dumps({"core": cores[0], "affinity": sorted(os.sched_getaffinity(0))}), flush=True)
sys.stdin.readline()
"""


def start() -> tuple[subprocess.Popen, dict]:
    process = subprocess.Popen([sys.executable, "-c", CLAIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, json.loads(process.stdout.readline())


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_every_core_is_claimed_once_and_freed_by_death():
    available = sorted(os.sched_getaffinity(0))
    held = [start() for _ in available]
    try:
        assert sorted(claim["core"] for _, claim in held) == available
        assert all(claim["affinity"] == [claim["core"]] for _, claim in held)
        extra, claim = start()
        assert claim == {"core": None, "affinity": available}  # all taken: it runs anywhere
        end(extra)
        process, freed = held.pop()
        end(process)
        again = start()
        held.append(again)
        assert again[1]["core"] == freed["core"]
    finally:
        for process, _ in held:
            end(process)
