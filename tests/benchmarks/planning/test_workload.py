"""Workloads: what a run leaves, written and read back; what generations draw from them."""

import numpy as np
import pytest

from benchmarks.planning.costs import FREE, costs_of, costs_record, with_driver
from benchmarks.planning.generations import Shape, drawn
from benchmarks.planning.novelty import Novelty
from benchmarks.planning.workload import ModuleLoad, Workload, enlarged, read_modules, workload_of
from mlgo.base.artifacts import MODULES, SCORES, TIMINGS, write_rows
from mlgo.errors import ArtifactError
from tests.benchmarks.planning.measured import COSTS, WORKLOAD, measured


def test_records_are_read_back():
    record = measured()
    assert workload_of(record["workload"]) == WORKLOAD
    assert costs_of(record["costs"]) == COSTS


def test_drivers_of_other_workers():
    drivers = measured()["drivers"]
    assert with_driver(COSTS, drivers, "local") == COSTS
    ray = with_driver(COSTS, drivers, "ray")
    assert (ray.driver_task_s(), ray.driver_send_share, ray.keep_s) == (pytest.approx(1.2e-3), 0.7, COSTS.keep_s)
    with pytest.raises(ArtifactError, match=r"python -m benchmarks\.planning --measure --ray"):
        with_driver(COSTS, {"local": drivers["local"]}, "ray")


def test_records_that_lack_something():
    record = measured()
    del record["costs"]["keep_s"]
    with pytest.raises(ArtifactError, match=r"'keep_s'.*python -m benchmarks\.planning --measure"):
        costs_of(record["costs"])
    with pytest.raises(ArtifactError, match=r"python -m benchmarks\.planning --measure"):
        workload_of({"modules": []})
    with pytest.raises(KeyError):
        costs_record(FREE, {})  # every cost says how it was measured


@pytest.fixture
def data(tmp_path):
    """A corpus of four modules: one of the test split, one without questions."""
    rows = {"a.c": ("train", 10, 0.5), "b.c": ("train", 900, 1.5), "c.c": ("train", 0, 0.1), "d.c": ("test", 10, 0.2)}
    modules, scores, timings = [], [], []
    for i, (name, (split, questions, seconds)) in enumerate(rows.items()):
        key = {"project": "p", "module": name}
        modules.append(
            {
                **key,
                "language": "c",
                "licence": "MIT",
                "split": split,
                "bitcode_sha256": str(i),
                "bitcode_bytes": 100 + i,
            }
            | {
                "num_functions": 1,
                "num_instructions": 1,
                "shared_functions": 0,
                "shared_instructions": 0,
                "skip_reason": "",
            }
        )
        nothing = dict.fromkeys(("exec_bytes", "text_bytes", "dedup_bytes", "spill_cost", "truncated"))
        strings = dict.fromkeys(("object_sha256", "failure", "message"), "")
        scores += [
            {**key, "advisor": one, "num_questions": questions, **nothing, **strings} for one in ("echo", "never")
        ]
        timings += [{**key, "advisor": "echo", "seconds": seconds}, {**key, "advisor": "never", "seconds": 9.0}]
    write_rows(tmp_path / "corpus" / "modules.parquet", modules, MODULES, {})
    write_rows(tmp_path / "baseline" / "scores.parquet", scores, SCORES, {"task": "inline-size"})
    write_rows(tmp_path / "work" / "timings" / "baseline" / "p.parquet", timings, TIMINGS, {})
    return tmp_path


def test_modules_that_a_training_would_draw_from(data):
    assert read_modules(data, "echo", 1000) == [ModuleLoad("p/a.c", 0.5, 10, 100), ModuleLoad("p/b.c", 1.5, 900, 101)]
    assert [one.name for one in read_modules(data, "echo", 700)] == ["p/a.c"]
    with pytest.raises(ArtifactError, match="run the pipeline"):
        read_modules(data, "echo", 5)


def test_generations_with_more_modules_than_the_corpus_has():
    rng = np.random.default_rng(0)
    numbers = enlarged(WORKLOAD.modules, 12, rng)
    assert sorted(np.bincount(numbers).tolist()) == [2, 2, 2, 3, 3]


def test_generations_are_drawn_candidate_by_candidate():
    workload = Workload((ModuleLoad("a", 1.0, 1, 1), ModuleLoad("b", 3.0, 1, 1)), 0.0, (Novelty(0.0, 1e9),) * 2)
    first, second = drawn(workload, Shape(3, 4, 2), seed=0)
    assert sorted(first.modules[:4].tolist()) == [0, 1, 2, 3]  # 2 and 3 are copies, with trees of their own
    assert first.modules.tolist() == first.modules[:4].tolist() * 3
    assert first.seconds.tolist() == [1.0 if number % 2 == 0 else 3.0 for number in first.modules]
    by_module = [first.outcomes[first.modules == 0].tolist(), second.outcomes[second.modules == 0].tolist()]
    assert by_module == [[0, 1, 2], [3, 4, 5]]  # all are new, and numbered on


def test_draws_depend_on_seed_and_name_alone():
    def outcomes(seed: int, name: str) -> list[int]:
        return [number for one in drawn(WORKLOAD, Shape(20, 5, 2), seed, name) for number in one.outcomes.tolist()]

    assert outcomes(0, "a") == outcomes(0, "a")
    assert outcomes(0, "a") != outcomes(1, "a")
    assert outcomes(0, "a") != outcomes(0, "b")


def test_compile_times_spread_around_their_mean():
    workload = Workload((ModuleLoad("a", 2.0, 1, 1),), 0.3, (Novelty(0.0, 1.0),))
    (generation,) = drawn(workload, Shape(4000, 1, 1), seed=0)
    assert generation.seconds.mean() == pytest.approx(2.0, rel=0.02)
    assert np.log(generation.seconds).std() == pytest.approx(0.3, rel=0.05)
