"""Trainings on modules whose compiles ask questions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import FAILURES, VOCABULARY, provenance, read_provenance, read_table, write_rows
from mlgo.base.config import CompileConfig, ReplayConfig
from mlgo.base.files import file_sha256
from mlgo.base.seeding import generator, sample
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.errors import ConfigError
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.baseline_modules import ScoredModule, baselines, episode_reader
from mlgo.evaluate.compiles import Quarantine
from mlgo.evaluate.copies import Copies
from mlgo.evaluate.episodes import Episode, Read, compile_episodes
from mlgo.evaluate.training import (
    candidate_rewards,
    load_start,
    needed_copies,
    open_trees,
    sample_episodes,
    trace_of_languages,
    training_modules,
    training_origin,
)
from mlgo.host.action_space import ActionSpace, Scaling
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.learn.base import Sampled, SampledCompile, Trained
from mlgo.learn.bc.dataset import check_trace, clone_data
from mlgo.learn.bc.loop import BCConfig, CloneData
from mlgo.learn.context import Compiles, TrainContext, TrainOrder
from mlgo.objects.measures import get_measure
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy
from mlgo.policy.vocabulary import normalisation
from mlgo.pool.trees import ReplayStore


class ModuleContext(TrainContext[ScoredModule]):
    """Corpus and baseline of a task of LLVM's, its compiler, and the policy to go on from."""

    kind = "modules"

    def __init__(self, order: TrainOrder) -> None:
        super().__init__(order)
        self.corpus = order.home / "corpus"

    @cached_property
    def start(self) -> Policy:
        if self.order.start is None:
            raise ConfigError(f"learner {self.order.learner.name} goes on from a policy; name its folder with --start")
        return load_start(self.order.start, self.baseline)

    @property
    def actions(self) -> ActionSpace:
        return get_task(self.task).actions

    @cached_property
    def compile(self) -> CompileConfig:
        """How modules are compiled and scored."""
        return self.section("compile", CompileConfig)

    @cached_property
    def toolchain(self) -> Toolchain:
        """The compiler."""
        return find_toolchain(self.order.settings.value("toolchain"), self.order.settings.value("target"))

    @property
    def objective(self) -> str:
        """Which score counts."""
        return self.compile.objective

    @cached_property
    def _modules(self) -> tuple[list[ScoredModule], list[ScoredModule]]:
        order = self.order
        languages = order.languages or None
        return training_modules(self.corpus, self.baseline, order.learner.name, self.config, self.seed, languages)

    @cached_property
    def train(self) -> list[ScoredModule]:
        """Modules to learn from."""
        return self._modules[0]

    @cached_property
    def validation(self) -> list[ScoredModule]:
        """Modules that choose between policies."""
        return self._modules[1]

    @cached_property
    def _traced(self) -> tuple[pa.Table, Normalisation]:
        trace, vocabulary = self._whole_trace, read_table(self.baseline / "vocabulary.parquet", VOCABULARY)
        units = get_task(self.task).units
        self.check_trace(normalisation(vocabulary, units))
        if self.order.languages:
            trace, vocabulary = trace_of_languages(trace, vocabulary, self.corpus, self.order.languages)
        return trace, normalisation(vocabulary, units)

    @cached_property
    def _whole_trace(self) -> pa.Table:
        return read_table(self._trace_path)

    @property
    def _trace_path(self) -> Path:
        return self.baseline / "trace.parquet"

    def check_trace(self, normalise: Scaling) -> None:
        """Refuse a trace of another task, or with other features; see `check_trace`."""
        check_trace(self._whole_trace, read_provenance(self._trace_path), self.task, normalise)

    @property
    def trace(self) -> pa.Table:
        """What the traced reference was asked and answered, ``artifacts.trace_schema`` rows."""
        return self._traced[0]

    @property
    def normalise(self) -> Normalisation:
        """From raw features to inputs; knows training modules alone."""
        return self._traced[1]

    @property
    def trace_sha256(self) -> str:
        """Hash of the trace."""
        return file_sha256(self._trace_path)

    def projects(self, split: str) -> set[str]:
        """Projects of a split."""
        return {module.project for module in load_modules(self.corpus, splits=[split])}

    def fresh(self, hidden: Sequence[int]) -> Policy:
        scaling = self.normalise
        architecture = Architecture((self.actions.num_inputs(len(scaling.features)), *hidden, 1))
        return Policy(self.task, scaling, architecture, np.zeros(architecture.num_params, np.float32))

    def imitated(self, config: BCConfig) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sections and hashes of what is imitated, for the provenance."""
        return {"bc": config.model_dump()}, {"trace_sha256": self.trace_sha256}

    def demonstrations(self, split: str, config: BCConfig) -> CloneData:
        return clone_data(
            self.trace,
            self.projects(split),
            self.actions,
            self.normalise,
            config.max_steps_per_module,
            self.seed,
            config.weighting,
            config.balance,
        )

    @cached_property
    def trees(self) -> ReplayStore | None:
        """Compiles that are known; None where the configuration turns them off."""
        replay, folder = self.section("replay", ReplayConfig), self.shared / "replay"
        return open_trees(folder, replay, self.toolchain, self.task, self.compile, self._copies)

    @cached_property
    def _copies(self) -> Copies | None:
        return needed_copies(self.compile, self.baseline)

    def origin(self, sections: Mapping[str, Any], hashes: Mapping[str, Any]) -> dict[str, Any]:
        learner = {"algorithm": self.order.learner.name, "seed": self.seed, **sections}
        if self.order.languages:
            learner["languages"] = list(self.order.languages)
        if self.order.start is not None:
            hashes = {"start_sha256": file_sha256(self.order.start / "weights.npy"), **hashes}
        if not self.compiles:
            return provenance(**learner, compiler=read_provenance(self._trace_path).get("compiler"), **hashes)
        return training_origin(learner, self.toolchain, self.compile, hashes, self.corpus, self.baseline)

    def save_policy(self, policy: Policy, folder: Path) -> None:
        save_policy(policy, folder)

    def write(self, trained: Trained) -> None:
        super().write(trained)
        if self.compiles:
            rows = self.begun.quarantine.rows()
            write_rows(self.order.output / "failures.parquet", rows, FAILURES, self.begun.origin)

    def _opened(self, stack: ExitStack, quarantine: Quarantine, policy: Policy | None) -> Compiles[ScoredModule]:
        bitcode = unpack_bitcode(
            self.corpus, [one.module for one in (*self.train, *self.validation)], self.shared / "bitcode"
        )
        order = self.order
        host = CompileHost(
            self.toolchain, self.task, self.compile, order.workers, self.trees, self._copies, workers=order.where
        )
        return ModuleCompiles(self, stack.enter_context(host), policy or self.start, bitcode, quarantine)


class ModuleCompiles(Compiles[ScoredModule]):
    """Modules under policies."""

    def __init__(
        self,
        context: ModuleContext,
        host: CompileHost,
        policy: Policy,
        bitcode: Mapping[str, Path],
        quarantine: Quarantine,
    ) -> None:
        self.train, self.validation = context.train, context.validation
        self.host, self.policy, self.bitcode = host, policy, bitcode
        self.counts, self.num_workers = host, host.num_workers
        self._context, self._quarantine = context, quarantine
        self._drawn: tuple[tuple[int, int], list[ScoredModule]] | None = None

    @property
    def fit(self) -> list[ScoredModule]:
        """Training modules that still compile."""
        return [one for one in self.train if one.module.key not in self._quarantine]

    def draw(self, most: int, number: int, by_project: bool = False) -> list[ScoredModule]:
        """See `Compiles.draw`.

        Args:
            most: how many.
            number: of the step.
            by_project: whether projects take turns, instead of all modules being alike.
        """
        if self._drawn is None or self._drawn[0] != (most, number):  # the same to a step, whatever fails meanwhile
            context = self._context
            names = context.order.learner.name, "modules", number
            projects = [one.module.project for one in self.fit] if by_project else None
            drawn = sample(self.fit, most, context.seed, *names, turns=projects)
            self._drawn = (most, number), drawn
        return self._drawn[1]

    def rewards(self, candidates: np.ndarray, instances: Sequence[ScoredModule], counted: bool = True) -> np.ndarray:
        """See `Compiles.rewards`."""
        objective, quarantine = self._context.objective, self._quarantine if counted else None
        return candidate_rewards(self.host, self.policy, candidates, instances, self.bitcode, objective, quarantine)

    def sampled(
        self, weights: np.ndarray, instances: Sequence[ScoredModule], episodes: int, number: int, credited: bool
    ) -> list[SampledCompile | None]:
        """See `Compiles.sampled`."""
        context = self._context
        return sample_episodes(
            self.host,
            self.policy.with_weights(weights),
            instances,
            self.bitcode,
            self._rewarded,
            self._quarantine,
            episodes,
            generator(context.seed, context.order.learner.name, "luck", number),
            with_credit=credited,
        )

    def recorded(self, jobs: Sequence[CompileJob], read: Callable[[str, Any], Read], label: str) -> list[Read | None]:
        """Do recorded jobs, and count their failures; see `compile_episodes`."""
        return compile_episodes(self.host, jobs, read, label, self._quarantine.note)

    @cached_property
    def read(self) -> Callable[[str, CompileResult], list[Episode]]:
        """What a compile teaches: episodes of the module as a whole, or of its functions."""
        return episode_reader(self.policy, self._context.objective, self._context.baseline)

    @cached_property
    def _rewarded(self) -> Callable[[str, CompileResult], SampledCompile]:
        objective, heuristic = self._context.objective, baselines(self.train, self._context.objective)
        measure, read = get_measure(objective), self.read

        def rewarded(module: str, result: CompileResult) -> SampledCompile:
            baseline = heuristic[module]
            episodes = [
                Sampled(f"{module} {one.function}", one.inputs, one.answers, reward, one.credit)
                for one in read(module, result)
                for reward in [one.reward(baseline, measure.offset)]
            ]
            score = np.array(result.score(objective))
            return SampledCompile(float(measure.reward(score, np.array(baseline))), tuple(episodes))

        return rewarded
