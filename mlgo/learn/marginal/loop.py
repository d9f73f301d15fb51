"""Rounds of exploring and fitting."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from mlgo.errors import NothingCompiled
from mlgo.learn.base import State
from mlgo.learn.bc import CloneData
from mlgo.learn.marginal.compile_file import CompileFile, CompileRef
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.equations import Evidence
from mlgo.learn.marginal.fit import FitResult, as_costs, as_policy, fit_costs
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture

Explore = Callable[[np.ndarray, int], Sequence[CompileRef | None]]
"""``(members float32 [num_members, num_params], round) -> compiles around them``, kept; None where one failed."""

Validate = Callable[[np.ndarray], float]
"""``members float32 [num_members, num_params] -> mean reward of their joint policy on the validation modules``."""


@dataclass(frozen=True)
class MarginalState(State):
    """Everything a run needs to go on after a stop; the compiles of earlier rounds are asked for again.

    Attributes:
        costs: before the first round and after each round, float32 [num_members, num_params of `cost_shape`] each.
    """

    costs: tuple[np.ndarray, ...]


def learn_costs(
    start: np.ndarray,
    shape: Architecture,
    heuristic: CloneData,
    known: dict[str, Evidence],
    compiles: CompileFile,
    explore: Explore,
    validate: Validate,
    config: MarginalConfig,
    seed: int,
    state: MarginalState | None = None,
    after_round: Callable[[MarginalState], None] = lambda state: None,
    validation_compiles: int = 0,
    threads: int = 1,
) -> MarginalState:
    """Compile around the members, fit each of them to all compiles so far; repeat."""

    def members(costs: np.ndarray) -> np.ndarray:
        return np.stack([as_policy(one, shape) for one in costs])

    if state is None:
        costs = np.stack([as_costs(one, shape) for one in start])
        state = MarginalState(start, float("-inf"), ({"round": 0, "evaluations": 0},), (costs,))
        state = state.validated(start, validate(start), validation_compiles)
    evidence = dict(known)
    for past in range(state.done):  # known to the response trees, so a resumed run compiles little of this again
        evidence = _with(evidence, _successful(explore(members(state.costs[past]), past)))
    while state.done < config.rounds:
        asked = explore(members(state.costs[-1]), state.done)
        found = _successful(asked)
        if not asked:
            raise NothingCompiled("no training module is left to compile; raise marginal.quarantine_after")
        if not found:
            raise NothingCompiled(
                f"all {len(asked)} compiles of round {state.done + 1} failed; raise compile.compile_timeout_s or "
                "compile.max_memory_gb"
            )
        evidence = _with(evidence, found)
        fits = fit_members(state.costs[-1], shape, evidence, compiles, heuristic, config, seed, state.done, threads)
        costs = np.stack([fit.costs for fit in fits])
        record = {
            "round": state.done + 1,
            "evaluations": state.history[-1]["evaluations"] + len(asked),
            **_rewards(evidence, found),
            **{name: float(np.mean([fit.record[name] for fit in fits])) for name in fits[0].record},
        }
        state = replace(state, costs=(*state.costs, costs), history=(*state.history, record))
        fitted = members(costs)
        state = state.validated(fitted, validate(fitted), validation_compiles)
        after_round(state)
    return state


def fit_members(
    costs: np.ndarray,
    shape: Architecture,
    evidence: Mapping[str, Evidence],
    compiles: CompileFile,
    heuristic: CloneData,
    config: MarginalConfig,
    seed: int,
    round_: int,
    threads: int,
) -> list[FitResult]:
    """Fit each member, from where its last fit has led to.

    Args:
        costs: float32 [num_members, num_params of `cost_shape`].
        shape: layer widths of a member's policy.
        evidence: compiles by module.
        compiles: file that holds them.
        heuristic: its questions and answers.
        config: see `fit_costs`.
        seed: see `fit_costs`.
        round_: from 0.
        threads: fits side by side.
    """

    def fit(member: int) -> FitResult:
        return fit_costs(costs[member], shape, evidence, compiles, heuristic, config, seed, round_, member)

    import_tensorflow(threads)  # once, before the threads
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(fit, range(len(costs))))


def _successful(asked: Sequence[CompileRef | None]) -> list[CompileRef]:
    return [one for one in asked if one is not None]


def _with(evidence: dict[str, Evidence], found: Sequence[CompileRef]) -> dict[str, Evidence]:
    grown = dict(evidence)
    for one in found:
        grown[one.module] = grown[one.module].add(one)
    return grown


def _rewards(evidence: dict[str, Evidence], found: Sequence[CompileRef]) -> dict[str, float]:
    """Mean gain of this round's compiles, and of the best compile known of each module."""
    explored = [one.reward(evidence[one.module].baseline) for one in found]
    known = [each for each in evidence.values() if each.compiles]
    best = [max(one.reward(each.baseline) for one in each.compiles) for each in known]
    return {
        "mean_reward": float(np.mean(explored)),
        "best_known_reward": float(np.mean(best)),
        "equations": sum(len(each.compiles) for each in evidence.values()),
    }
