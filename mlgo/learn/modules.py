"""Trainings on modules whose compiles ask questions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import FAILURES, VOCABULARY, provenance, provenance_in, read_table, write_rows
from mlgo.base.config import CompileConfig, ReplayConfig
from mlgo.base.files import file_sha256
from mlgo.base.seeding import generator, sample
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.errors import ConfigError
from mlgo.evaluate import CompileHost, training
from mlgo.evaluate.baseline import ScoredModule, baselines, episode_reader
from mlgo.evaluate.episodes import Episode
from mlgo.evaluate.worker import Copies, tree_key
from mlgo.host.actions import ActionSpace, Scaling
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.learn.base import SampledCompile, Trained, Trajectory
from mlgo.learn.cloning import BCConfig, CloneData
from mlgo.learn.context import TrainContext, TrainOrder
from mlgo.learn.cost import CompileCounts
from mlgo.learn.dataset import bounded_rows, check_trace, clone_data, recorded
from mlgo.objects.measures import get_measure
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy
from mlgo.policy.vocabulary import normalisation
from mlgo.pool.records import known_compiles
from mlgo.pool.tree_store import ReplayStore

_MOST_ANSWERS = 5000


class ModuleContext(TrainContext[ScoredModule]):
    """Corpus and baseline of a task of LLVM's, its compiler, and the policy to go on from."""

    kind = "modules"
    save_policy = staticmethod(save_policy)
    host: CompileHost
    bitcode: Mapping[str, Path]

    def __init__(self, order: TrainOrder) -> None:
        super().__init__(order)
        self.corpus = order.home / "corpus"
        self._drawn: tuple[tuple[int, int], list[ScoredModule]] | None = None

    @property
    def actions(self) -> ActionSpace:
        return get_task(self.task).actions

    @cached_property
    def compile(self) -> CompileConfig:
        return self.section("compile", CompileConfig)

    @cached_property
    def toolchain(self) -> Toolchain:
        return find_toolchain(self.order.settings.value("toolchain"), self.order.settings.value("target"))

    @property
    def objective(self) -> str:
        return self.compile.objective

    @cached_property
    def _modules(self) -> tuple[list[ScoredModule], list[ScoredModule]]:
        config, order, languages = self.config, self.order, self.order.languages or None
        limits, least = (config.max_questions, config.validation_modules), order.min_questions
        return training.training_modules(
            self.corpus, self.baseline, order.learner.name, *limits, self.seed, languages, least
        )

    @cached_property
    def train(self) -> list[ScoredModule]:
        return self._modules[0]

    @cached_property
    def validation(self) -> list[ScoredModule]:
        return self._modules[1]

    @cached_property
    def validation_weights(self) -> np.ndarray:
        """See `TrainContext.validation_weights`: projects are alike."""
        return training.validation_weights(self.validation, self.objective)

    @cached_property
    def _traced(self) -> tuple[pa.Table, Normalisation]:
        """What the traced reference was asked and answered, and from raw features to inputs."""
        trace, vocabulary = self._whole_trace, read_table(self.baseline / "vocabulary.parquet", VOCABULARY)
        units = get_task(self.task).units
        self.check_trace(normalisation(vocabulary, units))
        if self.order.languages:
            trace, vocabulary = training.trace_of_languages(trace, vocabulary, self.corpus, self.order.languages)
        return trace, normalisation(vocabulary, units)

    @property
    def _trace_path(self) -> Path:
        return self.baseline / "trace.parquet"

    @cached_property
    def _whole_trace(self) -> pa.Table:
        return read_table(self._trace_path)

    @cached_property
    def _trace_origin(self) -> dict[str, Any]:
        return provenance_in(self._trace_path, self._whole_trace.schema)

    def check_trace(self, normalise: Scaling) -> None:
        """Refuse a trace of another task, or with other features; see `check_trace`."""
        check_trace(self._whole_trace, self._trace_origin, self.task, normalise)

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
        return file_sha256(self._trace_path)

    def fresh(self, hidden: Sequence[int]) -> Policy:
        scaling = self.normalise
        architecture = Architecture((self.actions.num_inputs(len(scaling.features)), *hidden, 1))
        return Policy(self.task, scaling, architecture, np.zeros(architecture.num_params, np.float32))

    def imitated(self, config: BCConfig) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sections and hashes of what is imitated, for the provenance."""
        return {"bc": config.model_dump()}, {"trace_sha256": self.trace_sha256}

    def demonstrations(self, split: str, config: BCConfig) -> CloneData:
        projects = {module.project for module in load_modules(self.corpus, splits=[split])}
        most, weighting = config.max_steps_per_module, config.weighting
        return clone_data(
            self.trace, projects, self.actions, self.normalise, most, self.seed, weighting, config.balance
        )

    @cached_property
    def trees(self) -> ReplayStore | None:
        """Compiles that are known; None where the configuration turns them off."""
        known, task = known_compiles(self.shared / "replay", self.section("replay", ReplayConfig)), get_task(self.task)
        return None if known is None else ReplayStore(known, tree_key(self.toolchain, task, self.compile, self._copies))

    @cached_property
    def _copies(self) -> Copies | None:
        return training.needed_copies(self.compile, self.baseline)

    def _load(self, folder: Path) -> Policy:
        return training.load_start(folder, self.baseline)

    def _provenance(self, sections: Mapping[str, Any], hashes: Mapping[str, Any]) -> dict[str, Any]:
        learner = {"algorithm": self.order.learner.name, "seed": self.seed, **sections}
        if self.order.languages:
            learner["languages"] = list(self.order.languages)
        if self.compiles and self.order.min_questions > 1:
            learner["min_questions"] = self.order.min_questions
        if self.compiles and self.order.by_project:
            learner["draw"] = "projects"
        if self.order.start is not None:
            hashes = {"start_sha256": file_sha256(self.order.start / "weights.npy"), **hashes}
        if not self.compiles:
            return provenance(**learner, compiler=self._trace_origin.get("compiler"), **hashes)
        return provenance(
            **learner,
            compile=self.compile.model_dump(),
            **self.toolchain.provenance,
            **hashes,
            scores_sha256=file_sha256(self.baseline / "scores.parquet"),
            corpus_sha256=file_sha256(self.corpus / "modules.parquet"),
        )

    def write(self, trained: Trained) -> None:
        super().write(trained)
        if self.compiles:
            write_rows(self.order.output / "failures.parquet", self.quarantine.rows(), FAILURES, self.origin)

    def _open(self, stack: ExitStack) -> CompileCounts:
        modules = [one.module for one in (*self.train, *self.validation)]
        self.bitcode = unpack_bitcode(self.corpus, modules, self.shared / "bitcode")
        workers, where = self.order.workers, self.order.where
        host = CompileHost(self.toolchain, self.task, self.compile, workers, self.trees, self._copies, where)
        self.host = stack.enter_context(host)
        return self.host

    @property
    def compiling(self) -> list[ScoredModule]:
        """Training modules that still compile."""
        return [one for one in self.train if one.module.key not in self.quarantine]

    def draw(self, most: int, number: int) -> list[ScoredModule]:
        """See `TrainContext.draw`; projects take turns, or all modules are alike."""
        if self._drawn is None or self._drawn[0] != (most, number):  # the same to a step, whatever fails meanwhile
            modules = self.compiling
            projects = [one.module.project for one in modules] if self.order.by_project else None
            names = self.order.learner.name, "modules", number
            self._drawn = (most, number), sample(modules, most, self.seed, *names, turns=projects)
        return self._drawn[1]

    def answers(self) -> Callable[[np.ndarray], np.ndarray]:
        """See `TrainContext.answers`: to at most 5,000 questions of the trace, bool or int64 [num]."""
        policy, actions = self.start, self.actions
        if np.issubdtype(actions.dtype, np.floating):
            raise ConfigError("es.flip_share: priorities are no choices of which a share could change; set it to 0")
        projects = pa.array(sorted({one.module.project for one in self.train}), pa.string())
        trace = self.trace.filter(pc.is_in(self.trace["project"], projects))
        rows, _ = bounded_rows(trace, _MOST_ANSWERS, self.seed, _MOST_ANSWERS)
        seen = recorded(trace.take(pa.array(rows)), actions, policy.normalisation.features)
        return lambda weights: actions.greedy(np, policy.with_weights(weights).logits(seen))

    def _rewards(
        self, candidates: np.ndarray, instances: Sequence[ScoredModule], counted: bool, asked: np.ndarray | None = None
    ) -> np.ndarray:
        quarantine = self.quarantine if counted else None
        return training.candidate_rewards(
            self.host, self.policy, candidates, instances, self.bitcode, self.objective, quarantine, asked
        )

    def sampled(
        self, weights: np.ndarray, instances: Sequence[ScoredModule], episodes: int, number: int, credited: bool = False
    ) -> list[SampledCompile | None]:
        rng = generator(self.seed, self.order.learner.name, "luck", number)
        policy, measure = self.policy.with_weights(weights), get_measure(self.objective)

        def read(module: str, result: CompileResult) -> SampledCompile:
            reward = measure.reward(np.array(result.score(self.objective)), np.array(self._baselines[module]))
            return SampledCompile(float(reward), tuple(self.trajectories(module, result)))

        return training.sample_episodes(
            self.host, policy, instances, self.bitcode, read, self.quarantine, episodes, rng, with_credit=credited
        )

    def trajectories(self, module: str, result: CompileResult) -> list[Trajectory]:
        """What a compile of a training module teaches: of the module as a whole, or of its functions."""
        baseline, offset = self._baselines[module], get_measure(self.objective).offset
        return [
            Trajectory(module, one.inputs, one.answers, one.reward(baseline, offset), one.credit, one.function)
            for one in self._read(module, result)
        ]

    @cached_property
    def _baselines(self) -> Mapping[str, float]:
        return baselines(self.train, self.objective)

    @cached_property
    def _read(self) -> Callable[[str, CompileResult], list[Episode]]:
        return episode_reader(self.policy, self.objective, self.baseline)
