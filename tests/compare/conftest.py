"""A small made-up world: two projects per split, two policies, all files the report reads."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import (
    FUNCTIONS,
    MODULES,
    PROGRAMS,
    RESULTS,
    SCORES,
    SHIPPED_SIZES,
    TIMINGS,
    trace_schema,
    write_rows,
)
from mlgo.base.files import write_json, write_record, write_text
from mlgo.compare.programs import Programs, read_programs
from mlgo.objects.remarks import SpillCosts
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy

SPLITS = {"train": ["anvil", "bellows"], "validation": ["crucible"], "test": ["drill", "easel"]}
LICENCES = {"anvil": "MIT", "bellows": "Apache-2.0", "crucible": "Zlib", "drill": "BSD-3-Clause", "easel": "MIT"}
ORIGIN = {
    "compiler": "ziglang clang 22.1.8",
    "compiler_sha256": "ab" * 32,
    "target": "x86_64-linux-gnu",
    "task": "inline-size",
    "compile": {"optimization": "-Oz", "objective": "text_bytes"},
    "seed": 0,
}


@dataclass
class World:
    """Rows of all inputs, to be changed by a test before `write`."""

    root: Path
    modules: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    shipped: list[dict[str, Any]] = field(default_factory=list)
    referred: list[dict[str, Any]] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=lambda: dict(ORIGIN))
    policies: tuple[str, ...] = ("bc-s0", "es-s0")

    def write(self) -> Path:
        """Write everything below the root and return it."""
        write_rows(self.root / "corpus/modules.parquet", self.modules, MODULES, {})
        write_record(self.root / "corpus/summary.json", corpus_summary())
        write_rows(self.root / "baseline/scores.parquet", self.scores, SCORES, self.origin)
        write_rows(self.root / "baseline/functions.parquet", self.referred, FUNCTIONS, {})
        write_rows(self.root / "baseline/trace.parquet", questions(), trace_schema(["a", "b"]), {})
        num = len(self.modules) - 1
        passed = num if self.origin["task"] == "inline-size" else None
        summary = {"modules": num, "self_test_passed": passed, "self_test_failed": []}
        write_record(self.root / "baseline/summary.json", summary)
        origin = {"policies": {name: {"policy_sha256": "cd" * 32} for name in self.policies}}
        write_rows(self.root / "evaluation/results.parquet", self.results, RESULTS, origin)
        write_rows(self.root / "evaluation/functions.parquet", self.functions, FUNCTIONS, {})
        write_rows(self.root / "evaluation/shipped.parquet", self.shipped, SHIPPED_SIZES, {})
        for name in self.policies:
            write_policy(self.root / "policies" / name, self.origin["task"])
        write_timings(self.root / "work/timings", self.modules)
        return self.root

    def arguments(self) -> list[str]:
        """Command line of ``scripts/make_report.py``."""
        evaluate = {"splits": ["test", "train"], "max_train_modules": 10, "programs": None, "max_failed_share": 0.1}
        evaluate |= {"resamples": 200, "confidence": 0.95}
        folders = [f"--{name}={self.root / name}" for name in ("corpus", "baseline", "policies", "evaluation", "work")]
        files = [f"--programs={self.root / 'execution/programs.parquet'}", f"--output={self.root / 'report'}"]
        objective = self.origin["compile"]["objective"]
        values = {"task": self.origin["task"], "seed": 0, "evaluate": evaluate, "compile": {"objective": objective}}
        write_json(self.root / "config.json", values)
        return [*folders, *files, f"--config={self.root / 'config.json'}"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world in which es-s0 gains 5 percent on every module and bc-s0 is good and bad by turns.

    Programs have 2 percent less text under es-s0, and 1 percent more under bc-s0.
    """
    return make_world(tmp_path, 6)


@pytest.fixture
def allocating(world: World) -> World:
    """The same for register eviction: sizes are a hundred times the spill cost, and modules hold two functions.

    One of them costs nothing under anybody; the compiler asked about it all the same.
    """
    world.origin |= {"task": "regalloc-evict", "compile": {"optimization": "-O2", "objective": "spill_cost"}}
    names = {"echo": "lightest", "never": "first"}
    for row in world.scores:
        row.update(advisor=names.get(row["advisor"], row["advisor"]), spill_cost=row["text_bytes"] / 100)
        world.referred += _functions(row, row["advisor"])
    for row in world.results:
        row.update(spill_cost=row["text_bytes"] / 100, baseline_spill_cost=row["baseline_text_bytes"] / 100)
        row.update(num_inlined=None)
        world.functions += _functions(row, f"{row['policy']}-s{row['seed']}")
    return world


def _functions(row: dict[str, Any], advisor: str) -> list[dict[str, Any]]:
    key = {"project": row["project"], "module": row["module"], "advisor": advisor, "num_questions": 4}
    return [{**key, **SpillCosts("f", spills_cost=row["spill_cost"])._asdict()}, {**key, **SpillCosts("g")._asdict()}]


def make_world(root: Path, per_project: int) -> World:
    made = World(root)
    rng = np.random.default_rng(7)
    for split, projects in SPLITS.items():
        for project in projects:
            for i in range(per_project):
                _add_module(made, split, project, i, int(rng.integers(10, 400)) * 100)
    made.modules.append({**made.modules[0], "module": "left-out.c", "skip_reason": "duplicate: same code as another"})
    made.results.sort(key=lambda row: row["policy"])
    for contender, text in [("heuristic", 10_000), ("bc-s0", 10_100), ("es-s0", 9_800)]:
        for number, project in enumerate(SPLITS["test"], start=1):
            made.shipped += shipped_rows(project, f"bin/{project}", contender, number * text)
    return made


def shipped_rows(project: str, program: str, contender: str, text: int | None, split: str = "test") -> list[dict]:
    """A program with as many bytes of text, a tenth of that as constants and as unwind tables; None is a failure."""
    rows = []
    for folded in (False, True):
        sizes = dict.fromkeys(("text", "read_only", "unwind", "total", "compressed"))
        if text is not None:
            own = text - 100 * folded
            sizes = {"text": own, "read_only": 1_000, "unwind": own // 10, "compressed": own // 2}
            sizes["total"] = own + 1_000 + own // 10
        told = {"project": project, "split": split, "program": program, "kind": "program", "language": "c"}
        told["contender"] = contender
        failed = {"failure": "", "message": ""} if text is not None else {"failure": "link", "message": "no: /a/b/x.o"}
        rows.append({**told, "folded": folded, **sizes, "num_modules": 4, "num_foreign": 1, **failed})
    return rows


def shipped_table(*rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist([row for some in rows for row in some], SHIPPED_SIZES)


def read_ran(folder: Path, rows: list[dict]) -> Programs:
    """What rows of ``artifacts.PROGRAMS`` say."""
    write_rows(folder / "programs.parquet", rows, PROGRAMS, {})
    return read_programs(folder / "programs.parquet")


def result_row(
    project: str,
    module: str,
    sizes: dict[str, Any],
    baseline: dict[str, Any],
    policy: str = "es",
    seed: int = 0,
    language: str = "c",
    split: str = "test",
    **other: Any,
) -> dict[str, Any]:
    """A module under a policy: its scores by measure, and those under the heuristic."""
    key = {"project": project, "module": module, "language": language, "split": split, "policy": policy, "seed": seed}
    known = {"num_questions": 9, "num_inlined": 3, "truncated": False, "failure": "", "message": ""}
    return {**key, **sizes, **{f"baseline_{name}": size for name, size in baseline.items()}, **known, **other}


def _add_module(made: World, split: str, project: str, i: int, size: int) -> None:
    language = "c" if i % 2 else "c++"
    key = {"project": project, "module": f"src/part{i}.{'c' if i % 2 else 'cc'}"}
    origin = {"language": language, "licence": LICENCES[project], "split": split, "skip_reason": ""}
    code = {"bitcode_sha256": hashlib.sha256("/".join(key.values()).encode()).hexdigest(), "bitcode_bytes": size}
    counts = {"num_functions": 4, "num_instructions": size}
    shared = {"shared_functions": int(i == 0), "shared_instructions": size // 2 if i == 0 else 0}
    made.modules.append({**key, **origin, **code, **counts, **shared})
    for advisor, factor in [("heuristic", 1.0), ("echo", 1.0), ("never", 1.2), ("random", 1.5)]:
        measured = {"text_bytes": int(size * factor), "exec_bytes": int(size * factor / 2)}
        measured["dedup_bytes"] = int(size * factor * 0.75)
        rest = {"num_questions": 9, "truncated": False, "object_sha256": "ef", "failure": "", "message": ""}
        made.scores.append({**key, "advisor": advisor, **measured, **rest})
    if split == "validation":
        return
    for policy, factor in [("bc", 1.03 if i % 2 else 0.97), ("es", 0.95)]:
        shares = {"text_bytes": 1, "exec_bytes": 0.5, "dedup_bytes": 0.75}
        under = {name: round(size * factor * share) for name, share in shares.items()}
        plain = {name: int(size * share) for name, share in shares.items()}
        made.results.append(
            result_row(**key, sizes=under, baseline=plain, policy=policy, language=language, split=split)
        )


def corpus_summary() -> dict[str, Any]:
    return {"bodies_shared_between_splits": {"train/test": {"bodies": 3, "instructions": 70}}}


def write_policy(folder: Path, task: str) -> None:
    algorithm = folder.name.split("-")[0]
    scaling = Normalisation(("a", "b"), np.zeros(2, np.float32), np.ones(2, np.float32))
    weights = np.array([1, 0, 0], np.float32)  # inlines where a is positive, whatever b
    origin = {"algorithm": algorithm, "seed": 0}
    if task == "inline-size":
        save_policy(Policy(task, scaling, Architecture((2, 1)), weights, origin), folder)
    else:
        save_policy(Policy(task, scaling, Architecture((5, 1)), np.zeros(6, np.float32), origin), folder)
    if algorithm == "bc":
        text = "epoch,loss,validation_loss,validation_accuracy\n1,0.6,0.61,0.7\n2,0.4,0.5,0.8\n"
    else:
        text = "generation,validation_reward,skipped,mean_reward\n1,,0,0.001\n2,0.004,0,0.003\n3,,1,\n"
    write_text(folder / "history.csv", text)


def questions() -> list[dict[str, Any]]:
    """A trace of 100 test and 100 training questions; in the test project, a is positive in half of them."""
    return [
        {"project": project, "module": "src/part0.cc", "context": "", "step": i, "a": a, "b": i, "answer": i % 2}
        for project, positive in [("drill", 2), ("anvil", 1)]
        for i in range(100)
        for a in [1 if i % positive == 0 else -1]
    ]


def write_timings(folder: Path, modules: list[dict[str, Any]]) -> None:
    keys = [{"project": row["project"], "module": row["module"]} for row in modules if not row["skip_reason"]]
    for path, advisor, seconds in [
        ("baseline/all.parquet", "heuristic", 0.5),
        ("evaluation/es-s0.parquet", "es-s0", 1.0),
    ]:
        write_rows(folder / path, [{**key, "advisor": advisor, "seconds": seconds} for key in keys], TIMINGS, {})
