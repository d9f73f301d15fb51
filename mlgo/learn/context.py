"""What a training is given: settings, start policy, compiles, checkpoint, progress. The same for all learners."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from mlgo.base.config import Section, Settings, WorkersConfig, parse_section
from mlgo.base.files import content_hash, file_sha256, source_hash
from mlgo.base.registry import Kind, Learner
from mlgo.base.scratch import shared_folder
from mlgo.errors import ConfigError, TrialPruned
from mlgo.evaluate.compiles import Quarantine
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import SampledCompile, State, Trained
from mlgo.learn.checkpoint import BackgroundSaver, load_state, save_state
from mlgo.learn.cloning import BCConfig
from mlgo.learn.cost import PREFIXES, CompileCounts, TrainingCost, recorded_cost
from mlgo.learn.progress import TrainingProgress, missed_limit, write_history
from mlgo.objects.measures import FAILED_REWARD

_QUARANTINE_AFTER = 10
"""Failures of an instance that are too many, for learners without a setting of their own."""


@dataclass(frozen=True)
class TrainOrder:
    """What is to be trained, and where."""

    learner: Learner
    settings: Settings  # of the configuration; those that the learner and its kind of task read
    seed: int
    home: Path  # folder with `corpus/` and `baseline/`
    work: Path  # folder for what is neither in Git nor in DVC
    output: Path
    workers: int  # processes that compile, unless `where`, section `workers`, says
    where: WorkersConfig
    start: Path | None = None
    languages: Sequence[str] = ()  # learn from modules in these alone
    min_questions: int = 1  # and, where it compiles, from those that ask so many under the heuristic
    by_project: bool = False  # whether projects take turns when modules are drawn
    # Rewards that it must reach by some steps, or it ends early: of a trial in a study.
    limits: Mapping[int, float] = field(default_factory=dict)
    # `time.monotonic()` from which on the training's time counts.
    started: float = field(default_factory=time.monotonic)


SectionType = TypeVar("SectionType", bound=Section)
Instance = TypeVar("Instance")


class TrainContext(ABC, Generic[Instance]):
    """Surroundings of a training: what it reads and, within the block of `training`, its compiles and its progress."""

    kind: Kind
    origin: dict[str, Any]  # provenance; what is added within the block goes into all that the training leaves
    policy: Any  # features and architecture of all policies that are compiled
    quarantine: Quarantine
    progress: TrainingProgress
    saver: BackgroundSaver
    counts: CompileCounts | None = None  # what was asked for and what was compiled; None where nothing compiles
    watched: Mapping[str, Any] = {}  # figures of the last compiles, for the log
    _checkpoint: Path | None = None
    _total: int
    _counts_validations: bool

    def __init__(self, order: TrainOrder) -> None:
        self.order, self.seed = order, order.seed
        self.task: str = order.settings.value("task")
        self.baseline = order.home / "baseline"
        self.shared = shared_folder(order.work)

    @property
    def label(self) -> str:
        """Name of the training in the work folder."""
        return PREFIXES[self.kind] + self.order.output.name

    @cached_property
    def config(self) -> Any:
        """The learner's own section; None where it reads none on such tasks."""
        learner, name = self.order.learner, self.order.learner.name
        if learner.section is None or name not in learner.sections[self.kind]:
            return None
        if name not in self.order.settings:
            return parse_section(learner.section, {}, f"section {name}")
        return self.section(name, learner.section)

    def section(self, key: str, section: type[SectionType]) -> SectionType:
        """Another section that the learner reads."""
        return self.order.settings.section(key, section)

    @property
    def compiles(self) -> bool:
        """Whether the learner compiles."""
        return self.kind in self.order.learner.compiles

    @cached_property
    def start(self) -> Any:
        """Policy to go on from; has ``weights`` float32 [num_params], ``architecture`` and ``with_weights``."""
        if self.order.start is None:
            raise ConfigError(f"learner {self.order.learner.name} goes on from a policy; name its folder with --start")
        return self._load(self.order.start)

    @property
    @abstractmethod
    def actions(self) -> ActionSpace:
        """Action space of the start policy."""

    @cached_property
    @abstractmethod
    def train(self) -> Sequence[Instance]:
        """Instances to learn from."""

    @cached_property
    @abstractmethod
    def validation(self) -> Sequence[Instance]:
        """Instances that choose between policies."""

    @property
    def validation_weights(self) -> np.ndarray:
        """What the validation instances count for, float64 [num_validation] with a mean of 1."""
        return np.ones(len(self.validation))

    @abstractmethod
    def fresh(self, hidden: Sequence[int]) -> Any:
        """A policy with fresh weights and so many units in each hidden layer."""

    @abstractmethod
    def demonstrations(self, split: str, config: BCConfig) -> Any:
        """What to imitate in a split, as the cloning of the policies' kind takes it."""

    @staticmethod
    @abstractmethod
    def save_policy(policy: Any, folder: Path) -> None:
        """Write a policy."""

    @abstractmethod
    def draw(self, most: int, number: int) -> Sequence[Instance]:
        """Training instances that still compile, at most so many, drawn anew for each number."""

    @abstractmethod
    def sampled(
        self, weights: np.ndarray, instances: Sequence[Instance], episodes: int, number: int, credited: bool = False
    ) -> list[SampledCompile | None]:
        """Compile instances some times each under answers drawn with a policy's own probabilities.

        Args:
            weights: float32 [num_params].
            number: of the step; each draws otherwise.
            credited: ask for the functions of the decisions, and their sizes, where the compiler tells them.

        Returns:
            Compiles of an instance one after another; None where one failed.
        """

    @abstractmethod
    def _load(self, folder: Path) -> Any:
        """Load the policy to go on from."""

    @abstractmethod
    def _provenance(self, sections: Mapping[str, Any], hashes: Mapping[str, Any]) -> dict[str, Any]:
        """Of the policy, as far as it is known beforehand."""

    @abstractmethod
    def _open(self, stack: ExitStack) -> CompileCounts:
        """Open what compiles; it is closed with the stack."""

    @abstractmethod
    def answers(self) -> Callable[[np.ndarray], np.ndarray]:
        """How weights, float32 [num_params], answer some questions of the training instances, always the same: [num].

        Raises:
            ConfigError: their answers cannot be told without a compile, or are no choices.
        """

    @abstractmethod
    def _rewards(
        self, candidates: np.ndarray, instances: Sequence[Instance], counted: bool, asked: np.ndarray | None = None
    ) -> np.ndarray:
        """See `evaluate`; failures are counted or not."""

    @contextmanager
    def training(
        self,
        total: int,
        unit: str,
        states: tuple[type, ...] = (),
        *,
        policy: Any = None,
        sections: Mapping[str, Any] | None = None,
        hashes: Mapping[str, Any] | None = None,
        asks_again: bool = False,
    ) -> Iterator[Any]:
        """Begin to train, or go on where an earlier session was stopped: yields the state there, None for a new one.

        Within the block compilers are open, the cost is recorded, and progress is shown. Data that the training needs
        should be read before: mistakes in them then end it before a compiler starts.

        Args:
            total: steps in all; ``unit`` is what a step is called.
            states: dataclasses that the learner's states are made of; none for a training that is not worth a
                checkpoint.
            policy: features and architecture of the policies; by default those of the start policy.
            sections: of the configuration, as plain values, for the provenance; by default the learner's own.
            hashes: of further inputs, by name, for the provenance.
            asks_again: whether a resumed training asks for the compiles of earlier steps again. Failures are then
                counted anew, and those of validations, which it does not ask for again, are not counted.
        """
        order, learner = self.order, self.order.learner
        self.origin = self._provenance(sections or {learner.name: self.config.model_dump()}, hashes or {})
        code = file_sha256(Path(inspect.getfile(type(learner))))
        state_hash = content_hash([[self.origin, code], source_hash()])  # a file of its own for other inputs or code
        path = self.shared / "checkpoints" / f"{self.label}-{state_hash}.npz"
        self._checkpoint = path if states else None
        self._total, self._counts_validations = total, not asks_again
        state, extra = load_state(path, *states)
        if state is not None:
            self._end_if_pruned(state.history)
        failures = getattr(self.config, "quarantine_after", _QUARANTINE_AFTER)
        self.quarantine = Quarantine(int(failures), None if asks_again or extra is None else extra["failures"])
        with ExitStack() as stack:
            self.saver = stack.enter_context(BackgroundSaver())
            if self.compiles:
                self.policy = policy or self.start
                self.counts = self._open(stack)
            cost = TrainingCost(path.stem, self.counts.num_workers if self.counts else 1)
            stack.enter_context(
                recorded_cost(order.work, self.label, cost, self.counts, state is not None, order.started)
            )
            board = order.work / "tensorboard" / self.label
            self.progress = stack.enter_context(TrainingProgress(board, total, state.done if state else 0, unit))
            stack.enter_context(self.quarantine.explaining())
            if self._checkpoint and state is None and any(path.parent.glob(f"{self.label}-*.npz")):
                self.progress.say(f"{self.label} begins anew: its checkpoint is of other settings, inputs or code")
            yield state

    def evaluate(
        self, candidates: np.ndarray, instances: Sequence[Instance], asked: np.ndarray | None = None
    ) -> np.ndarray:
        """Rewards of candidates, float32 [num_candidates, num_params].

        Args:
            asked: bool [num_candidates, num_instances], which instances a candidate compiles; None is all.

        Returns:
            float64 [num_candidates, num_instances], shares of the heuristic's score; NaN where a compile failed, masked
            where none was asked for.
        """
        with self.saver.writing_allowed():  # most of this is waiting for compilers
            rewards = self._rewards(candidates, instances, True, asked)
        return rewards if asked is None else np.ma.masked_array(rewards, ~asked)

    def validate(self, weights: np.ndarray) -> np.ndarray:
        """Weighted rewards of policies on the validation instances; their mean chooses between policies.

        Args:
            weights: float32 [num_params] of one policy, or [num_policies, num_params].

        Returns:
            float64 [num_validation] or [num_policies, num_validation], `measures.FAILED_REWARD` at least once where a
            compile failed: who breaks code must not look better.
        """
        with self.saver.writing_allowed():
            rewards = self._rewards(np.atleast_2d(weights), self.validation, self._counts_validations)
        share = self.validation_weights
        weighted = np.where(np.isnan(rewards), FAILED_REWARD * np.maximum(share, 1.0), share * rewards)
        return weighted if weights.ndim > 1 else weighted[0]

    def after(self, state: State) -> None:
        """Save a state, and log the last record of its history, the compiles so far and what was watched.

        Raises:
            TrialPruned: this is a trial of a study, and others were better at this step.
        """
        if self._checkpoint is not None:
            save_state(state, self._checkpoint, {"failures": self.quarantine.state()})
        figures, elapsed = dict(self.watched), self.progress.elapsed_s
        shown: dict[str, Any] = {"best": f"{state.best_reward:+.4f}"}
        if (counts := self.counts) is not None:
            hits = counts.num_asked - counts.num_compiled
            figures |= {
                "compiles": counts.num_compiled,
                "cache_hits": hits,
                "evaluations_per_second": counts.num_asked / elapsed,
                "compiles_per_second": counts.num_compiled / elapsed,
                "recalled_share": hits / max(1, counts.num_asked),
                "elapsed_s": elapsed,
            }
            shown |= {"compiles": counts.num_compiled, "recalled": figures["recalled_share"]}
        self.progress.advance(state.done, {**state.history[-1], **figures}, **shown)
        self._end_if_pruned(state.history)

    def log(self, history: Sequence[Mapping[str, Any]], step: str) -> None:
        """Log a history that is known as a whole; ``step`` is what counts its records."""
        for record in history:
            self.progress.advance(int(record[step]), dict(record))

    def write(self, trained: Trained) -> None:
        """Write what a training leaves to the folder of the policy."""
        if not hasattr(self, "origin"):
            raise RuntimeError(f"learner {self.order.learner.name} has begun no training")
        policy = replace(trained.policy, origin={**self.origin, **trained.facts})
        self.save_policy(policy, self.order.output)
        write_history(self.order.output / "history.csv", trained.history)

    def _end_if_pruned(self, history: Sequence[Mapping[str, Any]]) -> None:
        """End a trial whose rewards stay below its limits; it leaves its history up to there."""
        if (missed := missed_limit(self.order.limits, history, self._total)) is not None:
            step, reason = missed
            write_history(self.order.output / "history.csv", history[: step + 1])
            raise TrialPruned(reason)
