"""Episodes of environments: modules with their scores under the heuristic, and a compile question by question."""

import functools
import os
import queue
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError

from mlgo.base.artifacts import Row
from mlgo.base.config import CompileConfig, default_compile, parse_section
from mlgo.base.files import file_sha256
from mlgo.base.types import TensorSpec
from mlgo.corpus.store import unpack_bitcode
from mlgo.errors import CompileError, ConfigError, CorpusError, ReplayMismatch, ToolchainError
from mlgo.evaluate.baseline import baseline_origin, load_scored_modules
from mlgo.host.frontend import FrontEnd
from mlgo.host.log import Header
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.task import Responder, Task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.measures import DEFAULT, get_measure
from mlgo.pool.module_trees import ModuleTrees
from mlgo.pool.response_tree import Walk
from mlgo.pool.tree_store import ReplayStore

Info = dict[str, Any]
"""What Gymnasium calls ``info`` and ``options``."""


class HostingEnv(gymnasium.Env[Any, Any]):
    """An environment with a compiler of its own, which is neither used after its end nor copied."""

    _is_closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        if self._is_closed:
            raise ClosedEnvironmentError("reset() after close(); make the environment again, with gymnasium.make")
        return super().reset(seed=seed, options=options)

    def close(self) -> None:
        self._is_closed = True

    def __reduce__(self) -> Any:  # of copies and pickles
        raise TypeError(
            f"{type(self).__name__} has a compiler and cannot be copied; make another with gymnasium.make, reset() it "
            "to the same module or unit, and give it the same actions"
        )


@dataclass(frozen=True)
class ModuleProblem:
    """A module to decide about, with its score under the heuristic in the unit of the objective."""

    name: str
    bitcode: Path
    sha256: str
    baseline: float


def problems_of_files(
    files: Mapping[str, Path], toolchain: Toolchain, task: Task, settings: CompileConfig, folder: Path
) -> Callable[[str], ModuleProblem]:
    """Bitcode, textual IR, C or C++ by name, each compiled when first asked for; CompileError where that fails."""
    front_end, numbers = FrontEnd(toolchain, settings, folder, task), {name: i for i, name in enumerate(files)}

    @functools.cache
    def problem_of(name: str) -> ModuleProblem:
        bitcode = front_end.module_of(files[name], folder / f"{numbers[name]}.bc")
        plain = compile_plain(toolchain, bitcode, settings, task=task)
        return ModuleProblem(name, bitcode, file_sha256(bitcode), plain.score(settings.objective))

    return problem_of


def named_files(modules: Sequence[str]) -> dict[str, Path]:
    if isinstance(modules, str | bytes | os.PathLike) or not isinstance(modules, Sequence):
        raise ConfigError(f"modules: a list of files is wanted, not {modules!r}")
    if not modules:
        raise ConfigError("modules: the list is empty; name a file, or leave modules out for the sample corpus")
    for name in modules:
        if not isinstance(name, str | os.PathLike):
            raise ConfigError(f"modules: {name!r} is no name of a file")
        if not Path(name).is_file():
            raise CorpusError(f"{name} is no file; name bitcode (.bc, .ll) or a source of C or C++")
    if len(set(modules)) < len(modules):
        raise CorpusError("a module is named twice")
    return {str(name): Path(name) for name in modules}


def problems_of_corpus(
    corpus: Path, baseline: Path, split: str, toolchain: Toolchain, objective: str, folder: Path
) -> dict[str, ModuleProblem]:
    """Modules of a split that the compiler asks something about, by key."""
    measured = baseline_origin(baseline)[1].get("compiler", toolchain.name)
    if measured != toolchain.name:
        raise ToolchainError(f"{baseline} was measured with {measured}, this is {toolchain.name}; name that one")
    scored = [one for one in load_scored_modules(corpus, baseline, split) if one.num_questions]
    if not scored:
        raise CorpusError(f"no module of split {split} in {corpus} is asked about")
    bitcode = unpack_bitcode(corpus, [one.module for one in scored], folder)
    return {
        one.module.key: ModuleProblem(one.module.key, bitcode[one.module.key], one.module.sha256, one.score(objective))
        for one in scored
    }


def choose_settings(
    task: Task, baseline: Path | None, settings: CompileConfig | None, objective: str | None, optimization: str | None
) -> CompileConfig:
    """How modules are compiled: as ``settings`` say, else as a baseline was measured, else by default.

    The task's first objective is the default, and for those in code generation ``-O2`` is. An environment runs no
    programs: of a task that does, text is the objective, at ``-O2``.
    """
    if settings is not None and (objective or optimization):
        raise ConfigError("settings= holds objective and optimization; do not give them a second time")
    runs = task.measure.of_run
    own = {"objective": DEFAULT.name if runs else task.measure.name}
    own |= {"optimization": "-O2"} if task.in_code_generation or runs else {}
    measured: Row = {}
    if baseline is not None:
        other, origin = baseline_origin(baseline)
        if other.name != task.name:
            raise ConfigError(f"{baseline} was measured for task {other.name}, this environment is of task {task.name}")
        measured = {name: one for name, one in origin.get("compile", {}).items() if name in CompileConfig.model_fields}
    asked = {name: one for name, one in (("objective", objective), ("optimization", optimization)) if one}
    if settings is None:
        settings = parse_section(CompileConfig, default_compile().model_dump() | own | measured | asked)
    for name in ("optimization", "size_stop_factor"):  # they decide what a compile comes to; the others only bound it
        if name in measured and measured[name] != getattr(settings, name):
            raise ConfigError(f"{name}: {getattr(settings, name)}, but {baseline} was measured with {measured[name]}")
    task.check_objective(settings.objective)
    name, measure = settings.objective, get_measure(settings.objective)
    if measure.of_run:
        raise ConfigError(f"objective: an environment runs no programs, so it has no {name}; give text_bytes")
    if measure.needs_copies:
        raise ConfigError(f"objective: {name} depends on a project's other modules; choose {task.measure.name}")
    return settings


Observation = dict[str, np.ndarray]
"""Features by name."""


def observation_space(features: tuple[TensorSpec, ...]) -> spaces.Dict:
    """A box for each feature, of the compiler's own type and shape; what it may send has no bounds but the type's."""

    def box(spec: TensorSpec) -> spaces.Box:
        bounds = None if spec.dtype.kind == "f" else np.iinfo(spec.dtype)
        low, high = (bounds.min, bounds.max) if bounds else (-np.inf, np.inf)
        return spaces.Box(low, high, spec.shape, spec.dtype.type)

    return spaces.Dict({spec.name: box(spec) for spec in features})


_NO_DEADLINE_S = 1e9
"""For the whole compile, since it also waits for an agent that may think as long as it likes."""


@dataclass(frozen=True)
class Question:
    """What the compiler asks: ``number`` counts from 0, ``payload`` is the raw observation, repaired by the guard."""

    context: str
    number: int
    payload: bytes
    header: Header


Ending = CompileResult | CompileError
"""What a compile came to."""

Episode = Generator[Question, Any, Ending]
"""One compile, question by question: each is answered by what is sent, as bytes. Closing it ends the compile."""


def live_compile(toolchain: Toolchain, task: Task, module: Path, settings: CompileConfig, **options: Any) -> Episode:
    """Compile in a thread, which stands still at each question until it is answered.

    The deadline of the whole compile does not hold, that for a silent compiler does (``compile.answer_timeout_s``), and
    the number of questions is bounded, so a compile ends once it gets its answers.

    Args:
        **options: ``with_heuristic_feature``, ``record`` and ``known`` of `compile_under_advice`.

    Raises:
        OSError: the machine failed, not the compiler.
    """
    settings = settings.model_copy(update={"compile_timeout_s": _NO_DEADLINE_S})
    known = options.get("known")
    agent = _Agent(known.num_questions if known else 0)

    def run() -> None:
        try:
            ending = compile_under_advice(toolchain, task, module, agent, settings, entered=agent.enter, **options)
            agent.events.put(ending)
        except _AbandonedError:
            pass
        except BaseException as error:  # whatever it is belongs to the agent's thread
            agent.events.put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        event = agent.events.get()
        while isinstance(event, Question):
            agent.answers.put((yield event))
            event = agent.events.get()
    finally:  # wherever it is, nothing of it stays behind
        agent.answers.put(None)
        thread.join()
    if isinstance(event, BaseException) and not isinstance(event, CompileError):
        raise event
    return event


class _Agent:
    """The advisor that a compile in another thread asks; hands on what it is asked."""

    def __init__(self, num_known: int) -> None:
        self._context, self._num_asked = "", num_known
        self.events: queue.SimpleQueue[Question | Ending | BaseException] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def enter(self, context: str) -> None:
        self._context = context

    def respond_to(self, header: Header) -> Responder:
        def respond(payload: bytes) -> bytes:
            self.events.put(Question(self._context, self._num_asked, payload, header))
            self._num_asked += 1
            answer = self.answers.get()
            if answer is None:
                raise _AbandonedError
            return answer

        return respond


class _AbandonedError(Exception):
    """The agent does not want to know how the compile ends."""


def recalled_compile(
    store: ReplayStore,
    toolchain: Toolchain,
    task: Task,
    problem: ModuleProblem,
    settings: CompileConfig,
    starting: Callable[[], None],
) -> Episode:
    """Walk a module's trees with the agent's answers.

    At the first unknown question a compiler is started, after ``starting()``, and gets the answers so far in advance;
    once it has ended, what it has shown is added to the trees. An episode that is left adds nothing.

    The trees are those of training, of the compiler and flags in use. They hold sizes of modules that are one context,
    and costs of functions where each is a context; sizes of the latter are not known, so with a size as objective the
    compiler runs at the end, though it asks nothing.
    """
    known, num_repaired = None, 0
    if (trees := store.load(problem.sha256)) is not None:
        walks, num_repaired = yield from _walk(trees, task)
        result = trees.result_of(walks)
        if result is not None and result.scores[settings.objective] is not None:
            return replace(result, num_repaired_answers=num_repaired)
        known = trees.path_of(walks)
    starting()
    try:  # without the heuristic's decision, as the trees hold it: the same compiles as those of training
        ending = yield from live_compile(toolchain, task, problem.bitcode, settings, record=True, known=known)
        if isinstance(ending, CompileError):
            return ending
        if ending.header is not None:  # None where there is nothing to decide
            store.insert(problem.sha256, ending, known)
    except ReplayMismatch as error:
        raise ReplayMismatch(f"{problem.name}: {error}; delete {problem.sha256}.tree in the folder of trees") from error
    return replace(ending, num_repaired_answers=ending.num_repaired_answers + num_repaired)


def _walk(trees: ModuleTrees, task: Task) -> Generator[Question, Any, tuple[list[Walk], int]]:
    """Ask what the trees know; returns the way through each of them, and how many answers were repaired."""
    header = trees.header
    assert header.advice is not None
    guard = task.guard(header) if task.guard else None
    walks: list[Walk] = []
    num_asked = 0
    for context, tree in zip(trees.contexts, trees.by_context, strict=True):
        nodes: list[int] = []
        answers: list[int] = []
        place = tree.beginning() if not walks or walks[-1].leaf is not None else None
        while isinstance(place, int):
            questions, _ = tree.run_from(place)
            payload = questions[0].tobytes()
            advice = yield Question(context, num_asked, payload, header)
            if guard is not None:
                advice = guard.answer(payload, advice)
            nodes.append(place)
            answers.append(int(np.frombuffer(advice, header.advice.dtype)[0]))
            num_asked += 1
            place = tree.following(place, answers[-1])
        walks.append(Walk(np.array(nodes, np.int64), np.array(answers, np.int64), place))
    return walks, guard.num_repaired_answers if guard is not None else 0
