"""What ships without a policy: at other levels of the compiler, and with nothing inlined that it asks about."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo.base.artifacts import Row
from mlgo.corpus.capture.levels import module_at_level
from mlgo.corpus.store import Module
from mlgo.errors import CompileError
from mlgo.evaluate.evaluation import EvaluationRun
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.shipped import measure_programs, object_paths
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import generation_of
from mlgo.host.tasks.task import Task, get_task

LEVELS = ("-Oz", "-Os", "-O2")
"""Levels that a user could have chosen instead."""

NEVER = "never"
"""Nothing is inlined that the compiler asks about."""


def reference_names(task: Task, optimization: str) -> tuple[str, ...]:
    """Contenders beside the heuristic and the policies, in the order of tables."""
    return () if task.in_code_generation else (NEVER, *(level for level in LEVELS if level != optimization))


def measure_references(run: EvaluationRun, front_end: FrontEnd, task_name: str) -> list[Row]:
    """Compile the modules of programs in each of these ways, link the programs, and measure them.

    Args:
        run: its host compiles at the level of ``front_end`` unless a job names another.
        front_end: reads and writes modules.
        task_name: decision problem.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES``. Modules after ThinLTO's import are compiled at no other level, since a
        level decides before the import, too.
    """
    task, rows, bitcode = get_task(task_name), list[Row](), run.bitcode
    modules = list({module.key: module for program in run.programs for module in program.modules}.values())
    imported = any(generation_of(bitcode[module.key]).index for module in modules)
    for name in reference_names(task, front_end.settings.optimization):
        if name != NEVER and imported:
            continue
        place = run.folder / "references" / name
        place.mkdir(parents=True)
        if name == NEVER:
            files, advisor, level = {one.key: bitcode[one.key] for one in modules}, task.references.passive, ""
        else:
            files, advisor, level = (
                _at_level(front_end, modules, bitcode, name, place, run.linking.num_threads),
                None,
                name,
            )
        objects = object_paths(modules, place)
        jobs = [
            CompileJob(key, file, advisor, optimization=level, object_path=objects[key]) for key, file in files.items()
        ]
        run.host.compile_all(jobs, name)
        rows += measure_programs(run.linking, name, run.programs, objects)
    return rows


def _at_level(
    front_end: FrontEnd,
    modules: Sequence[Module],
    bitcode: Mapping[str, Path],
    level: str,
    folder: Path,
    num_threads: int,
) -> dict[str, Path]:
    """Files of modules as another level wants them, by key."""

    def write(number: int) -> Path | None:
        file = folder / f"{number:06d}.bc"
        try:
            module_at_level(front_end, bitcode[modules[number].key], level, file)
        except CompileError:
            return None
        return file

    with ThreadPoolExecutor(num_threads) as pool:
        files = pool.map(write, range(len(modules)))
        return {module.key: file for module, file in zip(modules, files, strict=True) if file is not None}
