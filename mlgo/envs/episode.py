"""Episodes of environments: modules with their scores under the heuristic, and a compile question by question."""

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

import mlgo
from mlgo.base.artifacts import Row
from mlgo.base.config import DEFAULT_COMPILE, CompileConfig, parse_section
from mlgo.base.files import file_sha256
from mlgo.base.types import TensorSpec
from mlgo.corpus.store import unpack_bitcode
from mlgo.errors import CompileError, ConfigError, CorpusError, ReplayMismatch, ToolchainError
from mlgo.evaluate.baseline import baseline_origin, load_scored_modules
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.frontend import FrontEnd
from mlgo.host.log import Header
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.task import Responder, Task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.measures import DEFAULT, get_measure
from mlgo.pool.response_tree import Walk
from mlgo.pool.tree_store import ReplayStore


@dataclass(frozen=True)
class ModuleProblem:
    """A module to decide about, with its score under the heuristic in the unit of the objective."""

    name: str
    bitcode: Path
    sha256: str
    baseline: float


class FileProblems(Mapping[str, ModuleProblem]):
    """Bitcode, textual IR, or sources of C and C++, by name; each is compiled when it is first asked for.

    That raises CompileError where it does not compile.
    """

    def __init__(
        self, files: Mapping[str, Path], toolchain: Toolchain, task: Task, settings: CompileConfig, folder: Path
    ) -> None:
        self._files, self._toolchain, self._task, self._settings = dict(files), toolchain, task, settings
        self._folder, self._front_end = folder, FrontEnd(toolchain, settings, folder, task)
        self._made: dict[str, ModuleProblem] = {}

    def __getitem__(self, name: str) -> ModuleProblem:
        path = self._files[name]
        if name not in self._made:
            bitcode = self._front_end.module_of(path, self._folder / f"{len(self._made)}.bc")
            plain = compile_plain(self._toolchain, bitcode, self._settings, task=self._task)
            score = plain.score(self._settings.objective)
            self._made[name] = ModuleProblem(name, bitcode, file_sha256(bitcode), score)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def named_files(modules: Sequence[str]) -> dict[str, Path]:
    for name in modules:
        if not Path(name).is_file():
            raise CorpusError(f"{name} is no file; name bitcode (.bc, .ll) or a source of C or C++")
    if len(set(modules)) < len(modules):
        raise CorpusError("a module is named twice")
    return {name: Path(name) for name in modules}


def sample_files() -> dict[str, Path]:
    """Sources of the sample corpus, by project and file."""
    folder = Path(mlgo.__file__).parents[1] / "data/sample"
    found = {f"{path.parent.name}/{path.name}": path for path in sorted(folder.glob("*/*.c*"))}
    if not found:
        raise CorpusError(f"the sample corpus is not in {folder}; give modules=[files], or run from a checkout")
    return found


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
    task: Task,
    baseline: Path | None,
    settings: CompileConfig | None,
    objective: str | None,
    optimization: str | None,
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
        values = DEFAULT_COMPILE.model_dump() | own | measured | asked
        settings = parse_section(CompileConfig, values)
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

Info = dict[str, Any]
"""What Gymnasium calls ``info`` and ``options``."""


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


class LiveCompile:
    """One compile in a thread of its own, which stands still at each question until it is answered.

    The deadline of the whole compile does not hold, that for a silent compiler does (``compile.answer_timeout_s``), and
    the number of questions is bounded, so a compile ends once it gets its answers. Further options are
    ``with_heuristic_feature``, ``record`` and ``known`` of `compile_under_advice`.
    """

    compiled = True

    def __init__(self, toolchain: Toolchain, task: Task, module: Path, settings: CompileConfig, **options: Any) -> None:
        settings = settings.model_copy(update={"compile_timeout_s": _NO_DEADLINE_S})
        known = options.get("known")
        self._context, self._num_asked = "", known.num_questions if known else 0
        self._events: queue.SimpleQueue[Question | Ending | BaseException] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        compiling = toolchain, task, module, self, settings
        self._thread = threading.Thread(target=self._compile, args=compiling, kwargs=options, daemon=True)
        self._thread.start()

    def ask(self) -> Question | Ending:
        """Wait for the next question, or for the end; OSError where the machine failed, not the compiler."""
        event = self._events.get()
        if isinstance(event, BaseException) and not isinstance(event, CompileError):
            raise event
        return event

    def answer(self, advice: bytes) -> None:
        """Answer the question that was asked last."""
        self._answers.put(advice)

    def close(self) -> None:
        """End the compile, wherever it is; nothing of it stays behind."""
        if self._thread.is_alive():
            self._answers.put(None)
            self._thread.join()

    def _compile(self, *compiling: Any, **options: Any) -> None:
        try:
            self._events.put(compile_under_advice(*compiling, entered=self._enter, **options))
        except _AbandonedError:
            pass
        except BaseException as error:  # whatever it is belongs to the agent's thread
            self._events.put(error)

    def _enter(self, context: str) -> None:
        self._context = context

    def respond_to(self, header: Header) -> Responder:
        """The advisor that the session asks."""

        def respond(payload: bytes) -> bytes:
            self._events.put(Question(self._context, self._num_asked, payload, header))
            self._num_asked += 1
            answer = self._answers.get()
            if answer is None:
                raise _AbandonedError
            return answer

        return respond


class _AbandonedError(Exception):
    """The agent does not want to know how the compile ends."""


class RecalledCompile:
    """Walks a module's trees with the agent's answers.

    At the first unknown question a compiler is started, which gets the answers so far in advance; once it has ended,
    what it has shown is added to the trees. An episode that is left adds nothing.

    The trees are those of training, of the compiler and flags in use. They hold sizes of modules that are one context,
    and costs of functions where each is a context; sizes of the latter are not known, so with a size as objective the
    compiler runs at the end, though it asks nothing.
    """

    def __init__(
        self, store: ReplayStore, toolchain: Toolchain, task: Task, problem: ModuleProblem, settings: CompileConfig
    ) -> None:
        self._store, self._toolchain, self._task = store, toolchain, task
        self._problem, self._settings = problem, settings
        self._live: LiveCompile | None = None
        self._known: AnswerPrefix | None = None
        self._recalled, self._advice, self._num_repaired = self._recall(), b"", 0

    @property
    def compiled(self) -> bool:
        """Whether a compiler has been started."""
        return self._live is not None

    def ask(self) -> Question | Ending:
        if self._live is None:
            if (known := next(self._recalled, None)) is not None:
                return known
            self._live = LiveCompile(
                self._toolchain,
                self._task,
                self._problem.bitcode,
                self._settings,
                with_heuristic_feature=False,  # the trees hold none, and the same compiles as those of training
                record=True,
                known=self._known,
            )
        try:
            event = self._live.ask()
            if isinstance(event, CompileResult) and event.header is not None:  # None where there is nothing to decide
                self._store.insert(self._problem.sha256, event, self._known)
        except ReplayMismatch as error:
            raise ReplayMismatch(
                f"{self._problem.name}: {error}; delete {self._problem.sha256}.tree in the folder of trees"
            ) from error
        if isinstance(event, CompileResult):
            return replace(event, num_repaired_answers=event.num_repaired_answers + self._num_repaired)
        return event

    def answer(self, advice: bytes) -> None:
        if self._live is not None:
            self._live.answer(advice)
        self._advice = advice

    def close(self) -> None:
        if self._live is not None:
            self._live.close()

    def _recall(self) -> Iterator[Question | Ending]:
        """What the trees know, question by question; stops where a compiler has to go on."""
        loaded = self._store.load(self._problem.sha256)
        if loaded is None:
            return
        header, trees = loaded
        assert header.advice is not None
        guard = self._task.guard(header) if self._task.guard else None
        walks: list[Walk] = []
        num_asked = 0
        for context, tree in zip(trees.contexts, trees.by_context, strict=True):
            nodes: list[int] = []
            answers: list[int] = []
            place = tree.beginning() if not walks or walks[-1].leaf is not None else None
            while isinstance(place, int):
                payload = tree.observations[place].tobytes()
                yield Question(context, num_asked, payload, header)
                advice = self._advice if guard is None else guard.answer(payload, self._advice)
                nodes.append(place)
                answers.append(int(np.frombuffer(advice, header.advice.dtype)[0]))
                num_asked += 1
                place = tree.following(place, answers[-1])
            walks.append(Walk(np.array(nodes, np.int64), np.array(answers, np.int64), place))
        self._num_repaired = guard.num_repaired_answers if guard is not None else 0
        result = trees.result_of(header, walks)
        if result is not None and result.scores[self._settings.objective] is not None:
            yield replace(result, num_repaired_answers=self._num_repaired)
        self._known = trees.path_of(header, walks)
