"""What environments compile: modules as files, with their scores under the heuristic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlgo
from mlgo.base.artifacts import Row
from mlgo.base.config import DEFAULT_COMPILE, CompileConfig, parse_section
from mlgo.base.files import file_sha256
from mlgo.corpus.store import unpack_bitcode
from mlgo.errors import ConfigError, CorpusError, ToolchainError
from mlgo.evaluate.baseline_modules import baseline_origin, load_scored_modules
from mlgo.host.frontend import FrontEnd
from mlgo.host.session import compile_plain
from mlgo.host.tasks.task import Task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.measures import DEFAULT, get_measure


@dataclass(frozen=True)
class ModuleProblem:
    """A module to decide about.

    Attributes:
        baseline: score under the heuristic, in the unit of the objective.
    """

    name: str
    bitcode: Path
    sha256: str
    baseline: float


class FileProblems(Mapping[str, ModuleProblem]):
    """Bitcode, textual IR, or sources of C and C++, by name; each is compiled when it is first asked for."""

    def __init__(
        self, files: Mapping[str, Path], toolchain: Toolchain, task: Task, settings: CompileConfig, folder: Path
    ) -> None:
        self._files, self._toolchain, self._task, self._settings = dict(files), toolchain, task, settings
        self._folder, self._front_end = folder, FrontEnd(toolchain, settings, folder, task)
        self._made: dict[str, ModuleProblem] = {}

    def __getitem__(self, name: str) -> ModuleProblem:
        """A module with its score under the heuristic.

        Raises:
            CompileError: it does not compile.
        """
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
    """Files by the names that the user gives them."""
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

    Args:
        task: decision problem; its first objective is the default, and for those in code generation ``-O2`` is. An
            environment runs no programs: of a task that does, text is the objective, at ``-O2``.
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
    for name in _DECIDING:
        if name in measured and measured[name] != getattr(settings, name):
            raise ConfigError(f"{name}: {getattr(settings, name)}, but {baseline} was measured with {measured[name]}")
    task.check_objective(settings.objective)
    name, measure = settings.objective, get_measure(settings.objective)
    if measure.of_run:
        raise ConfigError(f"objective: an environment runs no programs, so it has no {name}; give text_bytes")
    if measure.needs_copies:
        raise ConfigError(f"objective: {name} depends on a project's other modules; choose {task.measure.name}")
    return settings


_DECIDING = ("optimization", "size_stop_factor")
"""Settings that decide what a compile comes to; the others only bound it."""
