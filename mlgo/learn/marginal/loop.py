"""Rounds of exploring and fitting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mlgo.base.seeding import generator
from mlgo.evaluate.baseline import ScoredModule, baselines
from mlgo.evaluate.episodes import Inlined
from mlgo.host.actions import Binary
from mlgo.learn.base import State, Validate, run_steps, successful
from mlgo.learn.bc import clone
from mlgo.learn.cloning import BCConfig, CloneData
from mlgo.learn.dataset import whole_modules
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.evidence import CompileFile, CompileRef, Evidence
from mlgo.learn.marginal.fit import CostFitter, as_costs, as_policy
from mlgo.objects.measures import relative_reward
from mlgo.policy.ensemble import scaled
from mlgo.policy.features import Normalisation
from mlgo.policy.network import flatten


def sure_clones(
    questions: CloneData, validation: CloneData, config: MarginalConfig, cloning: BCConfig, seed: int
) -> np.ndarray:
    """Clone the heuristic once per member: float32 [num_members, num_params].

    A clone is as sure as its training was long; here a logit means bytes, so the logits are scaled to a given median
    size, which changes no answer.
    """
    members = []
    for member in range(config.members):
        own_seed = int(generator(seed, "marginal", "clone", member).integers(2**32))
        layers, _ = clone(questions, validation, Binary(), config.hidden, cloning, own_seed)
        members.append(flatten(scaled(layers, questions.inputs, config.start_logit)))
    return np.stack(members)


def heuristic_evidence(
    trace: pa.Table,
    modules: Sequence[ScoredModule],
    normalise: Normalisation,
    objective: str,
    traces_heuristic: bool,
    file: CompileFile,
) -> dict[str, Evidence]:
    """The heuristic's own compile of each module, where the trace is of the heuristic."""
    sizes = baselines(modules, objective)
    if not traces_heuristic:
        return {key: Evidence(size, ()) for key, size in sizes.items()}
    return {
        key: Evidence(sizes[key], (file.store(Inlined.of(key, sizes[key], inputs, answers)),))
        for key, inputs, answers in whole_modules(trace, sizes, Binary(), normalise)
    }


Explore = Callable[[np.ndarray, int], Sequence[CompileRef | None]]
"""``(members float32 [num_members, num_params], round) -> compiles around them``; None where one failed."""


@dataclass(frozen=True)
class MarginalState(State):
    """State of a run, enough to resume it; the compiles of earlier rounds are asked for again.

    Costs are float32 [num_members, num_params of `cost_shape`], before the first round and after each.
    """

    costs: tuple[np.ndarray, ...]


def learn_costs(
    start: np.ndarray,
    known: Mapping[str, Evidence],
    fitter: CostFitter,
    explore: Explore,
    validate: Validate,
    state: MarginalState | None = None,
    after_round: Callable[[MarginalState], None] = lambda state: None,
    threads: int = 1,
) -> MarginalState:
    """Compile around the members, float32 [num_members, num_params], fit each to all compiles so far; repeat."""
    evidence, shape = dict(known), fitter.shape

    def members(costs: np.ndarray) -> np.ndarray:
        return np.stack([as_policy(one, shape) for one in costs])

    def explored(costs: np.ndarray, number: int) -> Sequence[CompileRef | None]:
        asked = explore(members(costs), number)
        for one in filter(None, asked):
            evidence[one.module] = evidence[one.module].add(one)
        return asked

    def validated(state: MarginalState) -> MarginalState:
        candidate = members(state.costs[-1]) if state.done else start
        return state.validated(candidate, validate(candidate))

    def next_round(state: MarginalState) -> MarginalState:
        asked = explored(state.costs[-1], state.done)
        compiles = successful(asked, "marginal", f"round {state.done + 1}")
        costs, records = zip(*fitter.fit_members(state.costs[-1], evidence, state.done, threads), strict=True)
        record = {
            "round": state.done + 1,
            "evaluations": state.history[-1]["evaluations"] + len(asked),
            **_rewards(evidence, compiles),
            **{name: float(np.mean([one[name] for one in records])) for name in records[0]},
        }
        return replace(state, costs=(*state.costs, np.stack(costs)), history=(*state.history, record))

    if state is None:
        costs = np.stack([as_costs(one, shape) for one in start])
        state = validated(MarginalState(start, float("-inf"), ({"round": 0, "evaluations": 0},), (costs,)))
    for past in range(state.done):  # known to the response trees, so a resumed run compiles little of this again
        explored(state.costs[past], past)
    return run_steps(state, fitter.config.rounds, next_round, after_round, validated)


def _rewards(evidence: Mapping[str, Evidence], explored: Sequence[CompileRef]) -> dict[str, float]:
    """Mean gain of this round's compiles, and of the best compile known of each module."""

    def gains(compiles: Sequence[CompileRef], baseline: float) -> np.ndarray:
        return relative_reward(np.array([one.score for one in compiles]), np.array(baseline))

    known = [each for each in evidence.values() if each.compiles]
    return {
        "mean_reward": float(np.mean([gains([one], evidence[one.module].baseline)[0] for one in explored])),
        "best_known_reward": float(np.mean([gains(each.compiles, each.baseline).max() for each in known])),
        "equations": sum(len(each.compiles) for each in evidence.values()),
    }
