"""One project as it ships, under the heuristic and under a policy: its modules, and its linked files."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.compiler.linked import SHIPPED, LinkedFile, shipped_sizes
from mlgo.core.names import PolicyName
from mlgo.corpus.store import Module
from mlgo.policy.policy import Policy
from mlgo.problems.llvm.task import HEURISTIC
from mlgo.rollout.compiles import CompileHost, check_failures
from mlgo.rollout.evaluation import evaluate_policy
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.linking import Linking, measured, object_paths
from mlgo.rollout.scored import ScoredModule


@dataclass(frozen=True)
class Shipped:
    """A project under the heuristic and under a policy.

    Attributes:
        results: rows of ``artifacts.RESULTS``; modules that the heuristic cannot compile have none.
        sizes: rows of ``artifacts.SHIPPED_SIZES``.
    """

    results: list[dict[str, Any]]
    sizes: list[dict[str, Any]]


def evaluate_project(
    host: CompileHost,
    policy: Policy,
    name: PolicyName,
    modules: Sequence[Module],
    bitcode: Mapping[str, Path],
    files: Sequence[LinkedFile],
    linking: Linking,
    folder: Path,
    max_failed_share: float,
) -> Shipped:
    """Compile a project under both, link its files, and measure.

    Args:
        host: runs the compiles.
        policy: makes the decisions.
        name: learner and seed, for the rows.
        modules: all of the project.
        bitcode: file by module key.
        files: what is linked of them.
        linking: how.
        folder: for objects.
        max_failed_share: share of failing compiles that is still accepted.

    Raises:
        MlgoError: more failures than accepted.
    """
    plain, advised = (object_paths(modules, folder / who) for who in ("heuristic", "policy"))
    jobs = [CompileJob(one.key, bitcode[one.key], None, object_path=plain[one.key]) for one in modules]
    outcomes = host.compile_all(jobs, HEURISTIC)
    check_failures([one.key for one in modules], outcomes, max_failed_share, "evaluate.max_failed_share")
    scored = [
        ScoredModule(module, outcome.result.scores, 0)
        for module, outcome in zip(modules, outcomes, strict=True)
        if outcome.result is not None
    ]
    evaluation = evaluate_policy(host, policy, name, scored, bitcode, max_failed_share, advised)
    project = modules[0].project

    def measure(job: tuple[LinkedFile, str, Mapping[str, Path], bool]) -> dict[str, Any]:
        file, contender, objects, fold = job
        return _sizes_row(linking, file, contender, {n: objects[f"{project}/{n}"] for n in file.modules}, fold)

    contenders = [(HEURISTIC, plain), (str(name), advised)]
    links = [(file, who, objects, fold) for file in files for who, objects in contenders for fold in (False, True)]
    with ThreadPoolExecutor(linking.num_threads) as pool:
        return Shipped(evaluation.results, list(pool.map(measure, links)))


def _sizes_row(
    linking: Linking, file: LinkedFile, contender: str, objects: Mapping[str, Path], fold: bool
) -> dict[str, Any]:
    sizes, failure, message = measured(
        objects, lambda: shipped_sizes(linking.linker, file, objects, linking.timeout_s, fold=fold)
    )
    return {
        "project": file.project,
        "split": "test",
        "program": file.name,
        "kind": file.kind,
        "contender": contender,
        "folded": fold,
        **(sizes or dict.fromkeys(SHIPPED)),
        "num_modules": len(objects),
        "failure": failure,
        "message": message,
    }
