"""Trainings on units of whose candidates some are chosen."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.artifacts import provenance
from mlgo.base.config import CseConfig, ReplayConfig
from mlgo.base.files import file_sha256
from mlgo.base.seeding import generator, sample
from mlgo.errors import ConfigError
from mlgo.host.actions import ActionSpace
from mlgo.jit.baseline import EligibleUnit, eligible_units, names_of, observer_for, stored_labels
from mlgo.jit.compiler import SuperPmiSpec
from mlgo.jit.outcome import CompiledUnit, Failed, Outcome
from mlgo.jit.policy import (
    ChoiceEpisode,
    ChoicePolicy,
    demonstrated,
    greedy,
    load_choice_policy,
    sampled,
    save_choice_policy,
)
from mlgo.jit.pool import LOST, ChoicePool
from mlgo.jit.state import SUBSET, Observer
from mlgo.learn.base import SampledCompile, Trajectory
from mlgo.learn.cloning import BCConfig, CloneData
from mlgo.learn.context import TrainContext
from mlgo.learn.cost import CompileCounts
from mlgo.objects.measures import relative_reward
from mlgo.pool.records import known_compiles


class ChoiceContext(TrainContext[EligibleUnit]):
    """Baseline, labels and compiler of a task that chooses among candidates."""

    kind = "choices"
    save_policy, _load = staticmethod(save_choice_policy), staticmethod(load_choice_policy)
    pool: ChoicePool

    @cached_property
    def cse(self) -> CseConfig:
        return self.section("cse", CseConfig)

    @cached_property
    def spec(self) -> SuperPmiSpec:
        return SuperPmiSpec.of(self.cse.superpmi)

    @property
    def actions(self) -> ActionSpace:
        return SUBSET

    @cached_property
    def observer(self) -> Observer:
        return observer_for(self.baseline, self.cse.max_candidates)

    def units(self, split: str) -> list[EligibleUnit]:
        return eligible_units(self.baseline, split)

    @cached_property
    def train(self) -> list[EligibleUnit]:
        return self.units("train")

    @cached_property
    def validation(self) -> list[EligibleUnit]:
        """Units that choose between policies; all of the split for learners without a setting for that."""
        most, units = getattr(self.config, "validation_modules", None), self.units("validation")
        return units if most is None else sample(units, most, self.seed, "cse", "validation")

    def fresh(self, hidden: Sequence[int]) -> ChoicePolicy:
        return ChoicePolicy.fresh(self.task, self.observer, list(hidden), generator(self.seed, "cse", "policy"))

    def imitated(self, config: BCConfig) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sections and hashes of what is imitated, for the provenance."""
        sections = {"bc": config.model_dump(), "imitate": self.cse.imitate, "orders": self.cse.orders}
        return sections, {"labels_sha256": file_sha256(self._labels)}

    def demonstrations(self, split: str, config: BCConfig) -> CloneData:
        """Episodes in which the best known choices are made, or those of the built-in heuristic."""
        units, wanted = self.units(split), stored_labels(self._labels)  # without units whose search has failed
        if self.cse.imitate == "heuristic":
            wanted = {unit.name: unit.heuristic_choice for unit in units}
        units = [unit for unit in units if unit.name in wanted]
        work = partial(demonstrated, policy=self.policy, choices=wanted, num_orders=self.cse.orders, seed=self.seed)
        return demonstrations(list(self.pool.map(work, names_of(units), "demonstrations").values()))

    @property
    def _labels(self) -> Path:
        return self.order.home / "labels/labels.parquet"

    def _provenance(self, sections: Mapping[str, Any], hashes: Mapping[str, Any]) -> dict[str, Any]:
        started = {"start_sha256": file_sha256(self.order.start / "weights.npy")} if self.order.start else {}
        return provenance(
            algorithm=self.order.learner.name,
            seed=self.seed,
            **sections,
            compiler=self.spec.described,
            **started,
            baseline_sha256=file_sha256(self.baseline / "compiles.parquet"),
            **hashes,
        )

    def open_pool(self) -> ChoicePool:
        """Workers that compile; they know what earlier runs have found out."""
        known = known_compiles(self.shared / "replay", self.section("replay", ReplayConfig))
        return ChoicePool(self.spec, self.order.workers, self.order.where, known)

    def _open(self, stack: ExitStack) -> CompileCounts:
        self.pool = stack.enter_context(self.open_pool())
        return self.pool

    def draw(self, most: int, number: int) -> list[EligibleUnit]:
        units = [unit for unit in self.train if unit.name not in self.quarantine]
        return sample(units, most, self.seed, "cse", self.order.learner.name, number)

    def answers(self) -> Callable[[np.ndarray], np.ndarray]:
        """There are none, [0], without a compile."""
        raise ConfigError("es.flip_share: choices are known only when a unit compiles; set it to 0")

    def _rewards(
        self, candidates: np.ndarray, instances: Sequence[EligibleUnit], counted: bool, asked: np.ndarray | None = None
    ) -> np.ndarray:
        if asked is not None:
            raise ConfigError("es.modules_per_pair: all candidates compile the same units; set it to 0")
        found = self.pool.map(partial(greedy, policy=self.policy, weights=candidates), names_of(instances))
        outcomes = [found.get(unit.name, []) for unit in instances]
        if counted:
            self._note(instances, outcomes)
        if instances is not self.validation:
            self.watched = results(instances, outcomes)
        pairs = zip(instances, outcomes, strict=True)
        rewards = np.array([rewards_of(unit, each or [LOST] * len(candidates)) for unit, each in pairs])
        return rewards.reshape(-1, len(candidates)).T.copy()

    def sampled(
        self, weights: np.ndarray, instances: Sequence[EligibleUnit], episodes: int, number: int, credited: bool = False
    ) -> list[SampledCompile | None]:
        policy = self.policy.with_weights(weights)
        names = ("cse", self.order.learner.name, "luck", number)  # a name that gives the same random numbers as ever
        work = partial(sampled, policy=policy, num_episodes=episodes, seed=self.seed, names=names)
        found = self.pool.map(work, names_of(instances))
        of_units = [found.get(unit.name, []) for unit in instances]
        outcomes = [[one.outcome for one in each] for each in of_units]
        self._note(instances, outcomes)
        self.watched = results(instances, outcomes)
        pairs = zip(instances, of_units, strict=True)
        return [one for unit, each in pairs for one in sampled_compiles(unit, each)]

    def _note(self, units: Sequence[EligibleUnit], outcomes: Sequence[Sequence[Outcome]]) -> None:
        for unit, each in zip(units, outcomes, strict=True):
            for one in each or [LOST]:
                self.quarantine.note(unit.name, f"{one.kind}: {one.message}" if isinstance(one, Failed) else "")


def demonstrations(episodes: Sequence[Sequence[ChoiceEpisode]]) -> CloneData:
    """Steps of all episodes, as cloning takes them; each unit has the same total weight.

    A unit that takes many steps, or has many orders, would otherwise rule.
    """
    per_unit = [[one for one in of_unit if len(one.actions)] for of_unit in episodes]
    per_unit = [of_unit for of_unit in per_unit if of_unit]
    if not per_unit:
        return CloneData(np.zeros((0, 1, 1), np.float16), np.zeros(0, np.int64))
    inputs = np.concatenate([one.inputs for of_unit in per_unit for one in of_unit])
    actions = np.concatenate([one.actions for of_unit in per_unit for one in of_unit])
    steps = np.array([sum(len(one.actions) for one in of_unit) for of_unit in per_unit])
    weights = np.repeat(1.0 / steps, steps) * (steps.sum() / len(steps))
    return CloneData(inputs.astype(np.float16), actions, weights.astype(np.float32))


def rewards_of(unit: EligibleUnit, outcomes: Sequence[Outcome]) -> np.ndarray:
    """Relative gains over the built-in heuristic, float64 [num_outcomes]; NaN where a compile failed."""
    scores = np.array([one.score if isinstance(one, CompiledUnit) else np.nan for one in outcomes])
    return relative_reward(scores, np.array(unit.heuristic))


def sampled_compiles(unit: EligibleUnit, episodes: Sequence[ChoiceEpisode]) -> list[SampledCompile | None]:
    """Episodes of a unit with their rewards; None where a compile failed."""
    rewards = rewards_of(unit, [one.outcome for one in episodes]).tolist()
    return [
        None
        if np.isnan(reward)
        else SampledCompile(reward, (Trajectory(unit.name, one.inputs, one.actions.astype(np.uint8), reward),))
        for one, reward in zip(episodes, rewards, strict=True)
    ]


def results(units: Sequence[EligibleUnit], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """Figures for the log, as means over the compiles that went well.

    ``results/vs_heuristic`` and ``results/vs_no_cse`` are gains over the two baselines, ``results/better`` and
    ``results/worse`` shares of episodes beside the heuristic; ``results/failed`` is a share of all.
    """
    pairs = [
        (unit, one)
        for unit, of_unit in zip(units, outcomes, strict=True)
        for one in of_unit
        if isinstance(one, CompiledUnit)
    ]
    if not pairs:
        return {"results/failed": 1.0}
    scores = np.array([outcome.score for _, outcome in pairs])
    heuristic, none = (np.array([getattr(unit, way) for unit, _ in pairs]) for way in ("heuristic", "none"))
    return {
        "results/vs_heuristic": float(np.mean(relative_reward(scores, heuristic))),
        "results/vs_no_cse": float(np.mean(relative_reward(scores, none))),
        "results/better": float(np.mean(scores < heuristic)),
        "results/worse": float(np.mean(scores > heuristic)),
        "results/num_cse": float(np.mean([outcome.num_performed for _, outcome in pairs])),
        "results/failed": 1.0 - len(pairs) / sum(len(of_unit) for of_unit in outcomes),
    }
