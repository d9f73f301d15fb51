"""Libraries compute in one thread each, whatever the environment of a program says."""

import json
import os
import subprocess
import sys
import time

import pytest

from mlgo.base.threads import VARIABLES, in_threads
from mlgo.pool import LocalBackend, Pool

POOLS = """
import os
import numpy, pyarrow, scipy.linalg, sklearn.tree
from threadpoolctl import threadpool_info
pools = [pool["num_threads"] for pool in threadpool_info()]
assert len(pools) >= 2, "neither linear algebra nor OpenMP found"
found = {"pools": sorted(set(pools)), "pyarrow": pyarrow.cpu_count(), "left": os.environ["OMP_NUM_THREADS"]}
"""
ONE = {"pools": [1], "pyarrow": 1, "left": "1"}
MANY = {**os.environ, **dict.fromkeys(VARIABLES, "4")}


def answer(program: str) -> dict:
    run = subprocess.run([sys.executable, "-c", program], env=MANY, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def test_a_program_limits_libraries_that_are_loaded_before_it():
    program = f"""
import json, numpy, pyarrow
from mlgo.cli.program import run_program
def main():
    {"    ".join(POOLS.strip().splitlines(keepends=True))}
    print(json.dumps(found))
run_program(main)
"""
    assert answer(program) == ONE


@pytest.mark.slow
def test_without_the_limit_they_would_compute_in_more():
    found = answer(f"import json\n{POOLS}\nprint(json.dumps(found))")
    assert (max(found["pools"]), found["pyarrow"]) == (4, 4)


def pools_of_a_worker():
    def handle(job: str) -> dict:
        names: dict = {}
        exec(job, names)
        return names["found"]

    return handle


@pytest.mark.slow
def test_a_worker_limits_them_whoever_started_the_pool(monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, "4")
    with Pool(LocalBackend(pools_of_a_worker), 1) as pool:
        assert [result for _, result in pool.map([POOLS])] == [ONE]


@pytest.mark.slow
def test_tensorflow_runs_as_many_operations_at_a_time_as_its_first_import_asks_for():
    program = """
import json, os
from mlgo.learn.tensorflow import import_tensorflow
tf = import_tensorflow({})
import_tensorflow(8)
tf.function(lambda: tf.constant(1.0) + 1.0)()
print(json.dumps({{"threads": len(os.listdir("/proc/self/task")), "at a time": os.environ["TF_NUM_INTEROP_THREADS"]}}))
"""
    one, five = answer(program.format("")), answer(program.format("5"))
    assert (one["at a time"], five["at a time"]) == ("1", "5")
    assert five["threads"] - one["threads"] == 4


def test_after_an_error_no_call_begins():
    begun, pauses = [], ["no number", *[0.2] * 20]
    with pytest.raises(TypeError):
        list(in_threads(lambda pause: begun.append(pause) or time.sleep(pause), pauses, 2))
    assert 1 <= len(begun) < 4 * 2
