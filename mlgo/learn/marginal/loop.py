"""Rounds of exploring and fitting."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mlgo.base.seeding import generator
from mlgo.evaluate.baseline_modules import ScoredModule, baselines
from mlgo.evaluate.episodes import Inlined
from mlgo.host.actions import Binary
from mlgo.learn.base import State, run_steps, successful
from mlgo.learn.cloning import BCConfig, CloneData, clone
from mlgo.learn.dataset import whole_modules
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.ensemble import Layer, scaled, steep
from mlgo.learn.marginal.evidence import CompileFile, CompileRef, Evidence, StoreCompile
from mlgo.learn.marginal.fit import FitResult, as_costs, as_policy, fit_costs
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture, flatten


def sure_clones(
    questions: CloneData, validation: CloneData, config: MarginalConfig, cloning: BCConfig, seed: int
) -> np.ndarray:
    """Clone the heuristic once per member, then scale the logits to a given median size, which changes no answer.

    A clone is as sure as its training was long; here a logit means bytes, so its size has to be chosen.

    Returns:
        float32 [num_members, num_params].
    """
    members = []
    for member in range(config.members):
        own_seed = int(generator(seed, "marginal", "clone", member).integers(2**32))
        layers = clone(questions, validation, Binary(), config.hidden, cloning, own_seed).layers
        members.append(flatten(scaled(layers, questions.inputs, config.start_logit)))
    return np.stack(members)


def linear_clone(questions: CloneData, validation: CloneData, cloning: BCConfig, seed: int) -> Layer:
    """The heuristic as one steep linear layer, see `steep`."""
    (layer,) = clone(questions, validation, Binary(), [], cloning, seed).layers
    return steep(layer, questions.inputs)


def heuristic_evidence(
    trace: pa.Table,
    modules: Sequence[ScoredModule],
    normalise: Normalisation,
    objective: str,
    told: bool,
    keep: StoreCompile,
) -> dict[str, Evidence]:
    """The heuristic's own compile of each module."""
    sizes = baselines(modules, objective)
    if not told:
        return {key: Evidence(size, ()) for key, size in sizes.items()}
    return {
        key: Evidence(sizes[key], (keep(Inlined.of(key, sizes[key], inputs, answers)),))
        for key, inputs, answers in whole_modules(trace, sizes, Binary(), normalise)
    }


Explore = Callable[[np.ndarray, int], Sequence[CompileRef | None]]
"""``(members float32 [num_members, num_params], round) -> compiles around them``, kept; None where one failed."""

Validate = Callable[[np.ndarray], np.ndarray]
"""``members float32 [num_members, num_params] -> rewards of their joint policy on the validation modules``, float64."""


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
    threads: int = 1,
) -> MarginalState:
    """Compile around the members, fit each of them to all compiles so far; repeat."""
    evidence = dict(known)

    def members(costs: np.ndarray) -> np.ndarray:
        return np.stack([as_policy(one, shape) for one in costs])

    def explored(costs: np.ndarray, number: int) -> Sequence[CompileRef | None]:
        asked = explore(members(costs), number)
        for one in filter(None, asked):
            evidence[one.module] = evidence[one.module].add(one)
        return asked

    def validated(state: MarginalState) -> MarginalState:
        candidate = members(state.costs[-1]) if state.done else start
        rewards = validate(candidate)
        return state.validated(candidate, float(rewards.mean()), len(rewards))

    def next_round(state: MarginalState) -> MarginalState:
        number = state.done + 1
        asked = explored(state.costs[-1], state.done)
        found = successful(asked, "marginal", f"round {number}")
        fits = fit_members(state.costs[-1], shape, evidence, compiles, heuristic, config, seed, state.done, threads)
        record = {
            "round": number,
            "evaluations": state.history[-1]["evaluations"] + len(asked),
            **_rewards(evidence, found),
            **{name: float(np.mean([fit.record[name] for fit in fits])) for name in fits[0].record},
        }
        costs = np.stack([fit.costs for fit in fits])
        return replace(state, costs=(*state.costs, costs), history=(*state.history, record))

    if state is None:
        costs = np.stack([as_costs(one, shape) for one in start])
        state = validated(MarginalState(start, float("-inf"), ({"round": 0, "evaluations": 0},), (costs,)))
    for past in range(state.done):  # known to the response trees, so a resumed run compiles little of this again
        explored(state.costs[past], past)
    return run_steps(state, config.rounds, next_round, after_round, validated)


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
