"""What a decision problem consists of, and what answers it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mlgo.base.config import CompileConfig
from mlgo.base.registry import PROBLEMS, Kind
from mlgo.base.seeding import generator
from mlgo.errors import ConfigError, PolicyError
from mlgo.host.actions import ActionSpace, answer_dtype, record_of
from mlgo.host.log import Header
from mlgo.host.tasks.ir2vec import IR2VecVocabulary, find_vocabulary, made_vocabulary
from mlgo.objects.measures import Measure, names

HEURISTIC = "heuristic"
"""Plain compile, without a channel. The baseline of all gains."""

Responder = Callable[[bytes], bytes]
"""Maps one observation's raw tensors to the raw answer."""


class Advisor(Protocol):
    """Something that can answer a compiler's questions: a policy, a constant, the echo of the default."""

    def respond_to(self, header: Header) -> Responder:
        """Bind to what this compiler sends; called once per compile, before the first question."""
        ...


Decide = Callable[[np.ndarray], np.ndarray]
"""Maps raw observations, uint8 [num, payload_bytes], to answers, int64 [num], or float32 where they are continuous."""


@runtime_checkable
class PureAdvisor(Advisor, Protocol):
    """An advisor whose answer depends on the observation alone, so that known questions need no compiler."""

    def decide_for(self, header: Header) -> Decide:
        """The same answers as `respond_to` gives, for many observations at once."""
        ...


class Remark(NamedTuple):
    """Something that options make the compiler report on stderr, by a text that occurs once in each report."""

    flags: tuple[str, ...]
    marker: bytes


class Guard(ABC):
    """Stands between one compile and its advisor, where the compiler would not survive every answer.

    Numbers of one float ``feature`` that are not finite are replaced.

    Attributes:
        num_repaired_answers: answers that were not legal and were replaced.
        num_repaired_observations: observations with values that are not numbers.
    """

    def __init__(self, header: Header, feature: str, stand_in: np.float32) -> None:
        self._count, self._start = header.features[header.index(feature)].num_elements, header.offset(feature)
        self._stand_in = stand_in
        self.num_repaired_answers = self.num_repaired_observations = 0

    def observation(self, payload: bytes) -> bytes:
        """The observation as the advisor gets it and as it is recorded."""
        numbers = np.frombuffer(payload, np.float32, self._count, self._start)
        finite = np.isfinite(numbers)
        if finite.all():
            return payload
        self.num_repaired_observations += 1
        repaired = np.where(finite, numbers, self._stand_in)
        return payload[: self._start] + repaired.tobytes() + payload[self._start + repaired.nbytes :]

    @abstractmethod
    def answer(self, payload: bytes, advice: bytes) -> bytes:
        """The answer as the compiler gets it; ``payload`` is the guarded observation."""


class DefaultDecision(NamedTuple):
    """Options that make the compiler add what its own heuristic would decide, and the feature that holds it."""

    flags: tuple[str, ...]
    feature: str


class GrowthStop(NamedTuple):
    """The option, ending in ``=``, for the growth at which the compiler stops asking, and what it then reports."""

    option: str
    remark: Remark


@dataclass(frozen=True)
class Setting:
    """What a reference may depend on."""

    seed: int  # root seed
    stream: str  # name of the module; what is random differs between streams
    inline_share: float  # probability that a random inliner inlines
    default_feature: str  # feature in which the compiler tells its own decision


@dataclass(frozen=True)
class References:
    """Ways of answering without weights, which every policy of a task is held against."""

    traced: str  # the one whose questions and answers are recorded, and with which a module must compile
    is_heuristic: bool  # whether the traced one decides as the compiler does, so that the same objects are expected
    advisors: Mapping[str, Callable[[Setting], Advisor]]  # how each is made; the heuristic itself is not among them
    passive: PureAdvisor  # inlines nothing, evicts nothing, finds all priorities equal

    @property
    def names(self) -> tuple[str, ...]:
        """All references, the heuristic first."""
        return (HEURISTIC, *self.advisors)

    @property
    def needed(self) -> tuple[str, str]:
        """Those that training reads: the heuristic and the traced one."""
        return HEURISTIC, self.traced


@dataclass(frozen=True)
class Task:
    """A decision problem that a stock compiler hands out."""

    name: str  # as in the configuration
    title: str  # of its report
    about_references: str  # what its reference advisors do, for the report, as HTML
    mode_flags: tuple[str, ...]  # options that make the compiler ask, without the channel
    channel_option: str  # option that takes the channel's base path, ending in `=`
    decision: str  # name of the answer tensor
    model: str  # class that LLVM's build calls a model of this task
    measure: Measure  # what its decisions are about; other measures can be minimised, too, see `objectives`
    probe: str  # textual IR on which the compiler asks at least once
    actions: ActionSpace  # what an answer may be, and how policies see a question
    references: References  # simple ways of answering
    # How to learn the heuristic's own decision; None where the compiler does not tell.
    default: DefaultDecision | None = None
    growth_stop: GrowthStop | None = None  # when the compiler stops asking; None where it never does
    done_remark: Remark | None = None  # reported for each change made, whether by advice or by the built-in heuristic
    # Made for each compile, of its header; None where every observation and answer is fine.
    guard: Callable[[Header], Guard] | None = None
    # Decisions come after the optimization of IR, so modules are kept optimized and only code is generated in each
    # compile; what register allocation cost each function is reported, too.
    in_code_generation: bool = False
    # In which policies take features, where not as they are, see `policy.features.Normalisation`.
    units: Mapping[str, float] = field(default_factory=dict)
    # Value in place of one that is no finite number, by feature; an exported model puts it there, as the guard does
    # here.
    not_finite: Mapping[str, np.float32] = field(default_factory=dict)
    embeds: bool = False  # whether LLVM 22 and newer can be made to send embeddings of functions, see `llvm.ir2vec`
    # What makes its Gymnasium environment, see `registry.Problem`.
    environment: ClassVar[str] = "mlgo.envs.env:CompileEnv"
    kind: ClassVar[Kind] = "modules"

    @property
    def environment_arguments(self) -> Mapping[str, str]:
        """Arguments of what makes its Gymnasium environment."""
        return {"task": self.name}

    @property
    def objectives(self) -> tuple[str, ...]:
        """Measures that can be minimised, the task's own first.

        What functions cost is known in code generation alone; what modules carry as copies, decisions before it decide;
        what programs execute, where they are run.
        """
        known = names(
            lambda one: (
                (self.measure.of_run or not one.of_run)
                and not (one.needs_copies if self.in_code_generation else one.is_by_function)
            )
        )
        return (self.measure.name, *(name for name in known if name != self.measure.name))

    def check_objective(self, objective: str) -> None:
        """Refuse a score that compiles of this task do not have."""
        if objective not in self.objectives:
            raise ConfigError(
                f"compile.objective: {objective} is not measured for task {self.name}; "
                f"choose one of {', '.join(self.objectives)}"
            )

    def ir2vec(self, setting: str) -> IR2VecVocabulary | None:
        """What ``compile.ir2vec`` names, see `find_vocabulary`."""
        if setting and not self.embeds:
            raise ConfigError(f"compile.ir2vec: the compiler sends no embeddings for task {self.name}; leave it empty")
        return find_vocabulary(setting)

    def check_told(self, tell_heuristic: bool) -> None:
        """Refuse ``compile.tell_heuristic`` where the compiler does not tell."""
        if tell_heuristic and self.default is None:
            raise ConfigError(
                f"compile.tell_heuristic: the compiler does not tell its own decisions for task {self.name}; set it to "
                "false"
            )

    @property
    def default_features(self) -> tuple[str, ...]:
        """Names of the features that tell the heuristic's decision; hidden without ``compile.tell_heuristic``."""
        return (self.default.feature,) if self.default else ()

    @property
    def module_flags(self) -> tuple[str, ...]:
        """Options with which every module of this task is compiled, under advice or not."""
        return ("-Xclang", "-disable-llvm-passes") if self.in_code_generation else ()

    def flags(
        self,
        channel_base: Path,
        size_stop_factor: float,
        *,
        with_heuristic_feature: bool,
        vocabulary: Path | None = None,
    ) -> list[str]:
        """Compiler options for one compile of a module under advice, without remarks.

        Args:
            channel_base: path of the FIFOs without their endings.
            size_stop_factor: growth at which the compiler stops asking.
            with_heuristic_feature: whether it adds the heuristic's decision.
            vocabulary: file that embeddings are made with; None for none.
        """
        if with_heuristic_feature and self.default is None:
            raise ConfigError(f"the compiler does not tell its own decisions for task {self.name}")
        shown = self.default.flags if with_heuristic_feature and self.default else ()
        shown += IR2VecVocabulary.flags(vocabulary) if vocabulary else ()
        return [
            *self.module_flags,
            *self.asking_flags(str(channel_base), size_stop_factor),
            *(part for option in shown for part in ("-mllvm", option)),
        ]

    def asking_flags(self, channel_base: str, size_stop_factor: float) -> list[str]:
        """Compiler options that make it ask over a channel, whatever it compiles."""
        stop = [f"{self.growth_stop.option}{size_stop_factor:g}"] if self.growth_stop else []
        options = [*self.mode_flags, f"{self.channel_option}{channel_base}", *stop]
        return [part for option in options for part in ("-mllvm", option)]


def get_task(name: str) -> Task:
    """Look a task up whose compiles ask questions; ConfigError without such a one."""
    problem = PROBLEMS.get(name)
    if not isinstance(problem, Task):
        raise ConfigError(f"task {name} asks no questions while a module is compiled; it chooses among candidates")
    return problem


def all_tasks() -> list[Task]:
    """All tasks whose compiles ask questions."""
    return [get_task(name) for name in PROBLEMS.names() if PROBLEMS.get(name).kind == "modules"]


def settings_for_policy(features: Sequence[str], task: Task, settings: CompileConfig) -> CompileConfig:
    """Settings of a compile under a policy, with what its features need beyond those of LLVM's models.

    A policy with a vocabulary from a file needs that file in ``compile.ir2vec``; its features are missing otherwise.
    """
    shows_default = settings.tell_heuristic or any(name in task.default_features for name in features)
    vocabulary = settings.ir2vec or made_vocabulary(features)
    return settings.model_copy(update={"ir2vec": vocabulary, "tell_heuristic": shows_default})


@dataclass(frozen=True)
class RuleAdvisor:
    """Answers that follow from some features by a rule.

    It maps features by name, each [num] or [num, num_actions], to answers, [num]: int64, or float32 where continuous.
    """

    features: tuple[str, ...]
    rule: Callable[[Any], np.ndarray]
    dtype: type = np.int64

    def decide_for(self, header: Header) -> Decide:
        record = record_of(header, self.features)
        return lambda payloads: self.rule(np.ascontiguousarray(payloads).view(record)[:, 0]).astype(self.dtype)

    def respond_to(self, header: Header) -> Responder:
        decide, advice = self.decide_for(header), answer_dtype(header)
        return lambda payload: advice.type(decide(np.frombuffer(payload, np.uint8)[None])[0]).tobytes()


@dataclass(frozen=True)
class RandomAdvisor:
    """Draws an answer at each question, independently, of a generator and features by name.

    ``stream`` is the name of the generator, for example the module's.
    """

    draw: Callable[[np.random.Generator, Any], Any]
    seed: int
    stream: str
    features: tuple[str, ...] = ()

    def respond_to(self, header: Header) -> Responder:
        """Start the stream anew, so that every compile with this advisor is the same."""
        advice, record = answer_dtype(header), record_of(header, self.features)
        rng = generator(self.seed, "random-advisor", self.stream)
        return lambda payload: advice.type(self.draw(rng, np.frombuffer(payload, record)[0])).tobytes()


@dataclass(frozen=True)
class EchoAdvisor:
    """Answers what a feature says; with the default decision as a feature this is the built-in heuristic."""

    feature: str

    def respond_to(self, header: Header) -> Responder:
        start, end = self._place(header)
        return lambda payload: payload[start:end]

    def decide_for(self, header: Header) -> Decide:
        (start, end), advice = self._place(header), answer_dtype(header)
        return lambda payloads: np.ascontiguousarray(payloads[:, start:end]).view(advice)[:, 0].astype(np.int64)

    def _place(self, header: Header) -> tuple[int, int]:
        advice = answer_dtype(header)
        spec = header.features[header.index(self.feature)]
        if spec.dtype != advice or spec.num_elements != 1:
            raise PolicyError(f"feature {self.feature!r} cannot be echoed as {advice}")
        start = header.offset(self.feature)
        return start, start + spec.num_bytes


@dataclass(frozen=True)
class ConstantAdvisor:
    """Always gives the same answer."""

    value: int

    def decide_for(self, header: Header) -> Decide:
        value = int(answer_dtype(header).type(self.value))
        return lambda payloads: np.full(len(payloads), value, np.int64)

    def respond_to(self, header: Header) -> Responder:
        advice = answer_dtype(header).type(self.value).tobytes()
        return lambda payload: advice


@dataclass(frozen=True)
class FunctionAdvisor:
    """Lets a function answer, which maps an observation, arrays by name of feature as in environments, to a number.

    1 or 0 for inlining, the position of a register for eviction, else a priority. What it raises ends the compile.
    """

    function: Callable[[dict[str, np.ndarray]], Any]

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features; PolicyError where the function answers no number of the type expected."""
        dtype = answer_dtype(header)

        def respond(payload: bytes) -> bytes:
            answer = np.asarray(self.function(header.unpack(payload)))
            if answer.size != 1 or not np.can_cast(answer.dtype, dtype, "same_kind"):
                raise PolicyError(f"the function answered {answer.tolist()!r:.80}, the compiler expects one {dtype}")
            return answer.astype(dtype).tobytes()

        return respond


@dataclass(frozen=True)
class RecordedAdvisor:
    """Gives the answers of an earlier compile in their order: raw and concatenated, as in ``CompileResult.answers``."""

    answers: bytes

    def respond_to(self, header: Header) -> Responder:
        width = answer_dtype(header).itemsize
        positions = count(step=width)

        def respond(payload: bytes) -> bytes:
            position = next(positions)
            advice = self.answers[position : position + width]
            if len(advice) != width:
                raise PolicyError(f"the record has only {len(self.answers) // width} answers, the compiler asks on")
            return advice

        return respond
