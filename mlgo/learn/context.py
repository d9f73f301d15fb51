"""What a training is given: settings, start policy, compiles, checkpoint, progress. The same for all learners."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from mlgo.base.config import Section, Settings, WorkersConfig, parse_section
from mlgo.base.files import file_sha256
from mlgo.base.registry import Kind, Learner
from mlgo.base.scratch import shared_folder
from mlgo.errors import TrialPruned
from mlgo.evaluate.compiles import Quarantine
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import SampledCompile, State, Trained
from mlgo.learn.checkpoint import BackgroundSaver, checkpoint_path, load_state, save_state
from mlgo.learn.cloning import BCConfig
from mlgo.learn.cost import PREFIXES, CompileCounts, TrainingCost, recorded_cost
from mlgo.learn.progress import Limits, TrainingProgress, write_history
from mlgo.objects.measures import FAILED_REWARD

_QUARANTINE_AFTER = 10
"""Failures of an instance that are too many, for learners without a setting of their own."""


@dataclass(frozen=True)
class TrainOrder:
    """What is to be trained, and where.

    Attributes:
        settings: of the configuration; those that the learner and its kind of task read.
        home: folder with ``corpus/`` and ``baseline/``.
        work: folder for what is neither in Git nor in DVC.
        workers: processes that compile, unless ``where`` says.
        where: section ``workers``.
        languages: learn from modules in these alone.
        limits: rewards that it must reach, or it ends early: of a trial in a study.
        started: ``time.monotonic()`` from which on the training's time counts.
    """

    learner: Learner
    settings: Settings
    seed: int
    home: Path
    work: Path
    output: Path
    workers: int
    where: WorkersConfig
    start: Path | None = None
    languages: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    started: float = field(default_factory=time.monotonic)


SectionType = TypeVar("SectionType", bound=Section)
Instance = TypeVar("Instance")


class TrainContext(ABC, Generic[Instance]):
    """A training's surroundings before anything is compiled."""

    kind: Kind

    def __init__(self, order: TrainOrder) -> None:
        self.order, self.seed = order, order.seed
        self.task: str = order.settings.value("task")
        self.baseline = order.home / "baseline"
        self.shared = shared_folder(order.work)
        self._begun: Training[Instance] | None = None

    @property
    def label(self) -> str:
        """Name of the training in the work folder."""
        return PREFIXES[self.kind] + self.order.output.name

    @cached_property
    def config(self) -> Any:
        """The learner's own section; None where it reads none on such tasks."""
        learner = self.order.learner
        if learner.section is None or learner.name not in learner.sections[self.kind]:
            return None
        if learner.name not in self.order.settings:
            return parse_section(learner.section, {}, f"section {learner.name}")
        return self.order.settings.section(learner.name, learner.section)

    def section(self, key: str, section: type[SectionType]) -> SectionType:
        """Another section that the learner reads."""
        return self.order.settings.section(key, section)

    @property
    def compiles(self) -> bool:
        """Whether the learner compiles."""
        return self.kind in self.order.learner.compiles

    @cached_property
    @abstractmethod
    def start(self) -> Any:
        """Policy to go on from; has ``weights`` float32 [num_params], ``architecture`` and ``with_weights``."""

    @property
    @abstractmethod
    def actions(self) -> ActionSpace:
        """Action space of the start policy."""

    @abstractmethod
    def fresh(self, hidden: Sequence[int]) -> Any:
        """A policy with fresh weights.

        Args:
            hidden: units of each hidden layer.
        """

    @abstractmethod
    def demonstrations(self, split: str, config: BCConfig) -> Any:
        """What to imitate, as the cloning of the policies' kind takes it.

        Args:
            split: ``train`` or ``validation``.
            config: section ``bc``.
        """

    @abstractmethod
    def origin(self, sections: Mapping[str, Any], hashes: Mapping[str, Any]) -> dict[str, Any]:
        """Provenance of the policy, as far as it is known beforehand."""

    @abstractmethod
    def save_policy(self, policy: Any, folder: Path) -> None:
        """Write a policy."""

    @abstractmethod
    def _opened(self, stack: ExitStack, quarantine: Quarantine, policy: Any) -> "Compiles[Instance]":
        """Open what compiles; it is closed with the stack."""

    @property
    def begun(self) -> "Training[Instance]":
        """The training that was begun.

        Raises:
            RuntimeError: none was; a learner trains within the block of `training`.
        """
        if self._begun is None:
            raise RuntimeError(f"learner {self.order.learner.name} has begun no training")
        return self._begun

    def write(self, trained: Trained) -> None:
        """Write what a training leaves to the folder of the policy."""
        policy = replace(trained.policy, origin={**self.begun.origin, **trained.facts})
        self.save_policy(policy, self.order.output)
        write_history(self.order.output / "history.csv", list(trained.history))

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
    ) -> Iterator["Training[Instance]"]:
        """Begin to train, or go on where an earlier session was stopped.

        Within the block compilers are open, the cost is recorded, and progress is shown. Data that the training needs
        should be read before: mistakes in them then end it before a compiler starts.

        Args:
            total: steps in all.
            unit: what a step is called.
            states: dataclasses that the learner's states are made of; none for a training that is not worth a
                checkpoint.
            policy: features and architecture of the policies; by default those of the start policy.
            sections: of the configuration, as plain values, for the provenance; by default the learner's own.
            hashes: of further inputs, by name, for the provenance.
            asks_again: whether a resumed training asks for the compiles of earlier steps again. Failures are then
                counted anew, and those of validations, which it does not ask for again, are not counted.
        """
        order = self.order
        origin = self.origin(sections or {order.learner.name: self.config.model_dump()}, hashes or {})
        code = file_sha256(Path(inspect.getfile(type(order.learner))))
        path = checkpoint_path(self.shared / "checkpoints", self.label, [origin, code])
        state, extra = load_state(path, *states)
        if state is not None:
            self.end_if_pruned(state.history, total)
        extra = extra or {}
        failures = getattr(self.config, "quarantine_after", _QUARANTINE_AFTER)
        quarantine = Quarantine(int(failures), None if asks_again else extra.get("failures"))
        with ExitStack() as stack:
            saver = stack.enter_context(BackgroundSaver())
            opened = self._opened(stack, quarantine, policy) if self.compiles else Compiles[Instance]()
            cost = TrainingCost(path.stem, opened.num_workers)
            stack.enter_context(
                recorded_cost(order.work, self.label, cost, opened.counts, state is not None, order.started)
            )
            board = order.work / "tensorboard" / self.label
            progress = stack.enter_context(TrainingProgress(board, total, state.done if state else 0, unit))
            stack.enter_context(quarantine.explaining())
            self._begun = Training(
                self,
                opened,
                state,
                extra.get("notes", {}),
                origin,
                progress,
                saver,
                quarantine,
                path if states else None,
                not asks_again,
                total,
            )
            yield self._begun

    def end_if_pruned(self, history: Sequence[Mapping[str, Any]], total: int) -> None:
        """End a trial whose rewards stay below its limits; it leaves its history up to there."""
        limits = self.order.limits
        step = limits.missed(history, total)
        if step is not None:
            write_history(self.order.output / "history.csv", [dict(one) for one in history[: step + 1]])
            raise TrialPruned(limits.reason(history, step))


class Compiles(Generic[Instance]):
    """Instances of a task under policies; this class itself has none, for learners that compile nothing.

    Attributes:
        counts: what was asked for and what was compiled; None where nothing compiles.
        watched: figures of the last compiles, for the log.
    """

    train: Sequence[Instance] = ()
    validation: Sequence[Instance] = ()
    num_workers: int = 1
    counts: CompileCounts | None = None
    watched: Mapping[str, Any] = {}

    def draw(self, most: int, number: int) -> Sequence[Instance]:
        """Training instances that still compile, at most so many, drawn anew for each number."""
        raise NotImplementedError

    def rewards(self, candidates: np.ndarray, instances: Sequence[Instance], counted: bool = True) -> np.ndarray:
        """See `Training.evaluate`; failures are counted or not."""
        raise NotImplementedError

    def sampled(
        self, weights: np.ndarray, instances: Sequence[Instance], episodes: int, number: int, credited: bool = False
    ) -> list[SampledCompile | None]:
        """Compile instances under answers drawn with a policy's own probabilities.

        Args:
            weights: float32 [num_params].
            instances: what to compile.
            episodes: compiles of each.
            number: of the step; each draws otherwise.
            credited: tell the functions of the decisions, and their sizes, where the compiler does.

        Returns:
            Compiles of an instance one after another; None where one failed.
        """
        raise NotImplementedError


@dataclass
class Training(Generic[Instance]):
    """A training under way: compiles, checkpoints, progress.

    Attributes:
        compiles: of the context's kind, with more than all kinds share.
        state: where an earlier session stopped; None for a new training.
        notes: JSON values of the learner that a checkpoint keeps beside its state.
        origin: provenance; what is added goes into all that the training leaves.
        checkpoint: file of states; None for a training without.
    """

    context: TrainContext[Instance]
    compiles: Compiles[Instance]
    state: Any
    notes: dict[str, Any]
    origin: dict[str, Any]
    progress: TrainingProgress
    saver: BackgroundSaver
    quarantine: Quarantine
    checkpoint: Path | None
    counts_validations: bool
    total: int

    def evaluate(self, candidates: np.ndarray, instances: Sequence[Instance]) -> np.ndarray:
        """Rewards of candidates.

        Args:
            candidates: float32 [num_candidates, num_params].
            instances: what to compile.

        Returns:
            float64 [num_candidates, num_instances], shares of the heuristic's score; NaN where a compile failed.
        """
        with self.saver.writing_allowed():  # most of this is waiting for compilers
            return self.compiles.rewards(candidates, instances)

    def validate(self, weights: np.ndarray) -> np.ndarray:
        """Rewards of policies on the validation instances.

        Args:
            weights: float32 [num_params] of one policy, or [num_policies, num_params].

        Returns:
            float64 [num_validation] or [num_policies, num_validation], `measures.FAILED_REWARD` where a compile failed:
            who breaks code must not look better.
        """
        with self.saver.writing_allowed():
            instances = self.compiles.validation
            rewards = self.compiles.rewards(np.atleast_2d(weights), instances, self.counts_validations)
        return np.nan_to_num(rewards if weights.ndim > 1 else rewards[0], nan=FAILED_REWARD)

    def after(self, state: State) -> None:
        """Keep a state, and show how far the training is.

        The log of the work folder gets the last record of the history, the compiles so far and what was watched.

        Raises:
            TrialPruned: this is a trial of a study, and others were better at this step.
        """
        if self.checkpoint is not None:
            save_state(state, self.checkpoint, {"failures": self.quarantine.state(), "notes": self.notes})
        figures, elapsed = dict(self.compiles.watched), self.progress.elapsed_s
        shown: dict[str, Any] = {"best": f"{state.best_reward:+.4f}"}
        if (counts := self.compiles.counts) is not None:
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
        self.context.end_if_pruned(state.history, self.total)

    def log(self, history: Sequence[Mapping[str, Any]], step: str) -> None:
        """Log a history that is known as a whole; ``step`` is what counts its records."""
        for record in history:
            self.progress.advance(int(record[step]), dict(record))
