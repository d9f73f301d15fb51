"""Translation units of projects, by their recipes."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlgo.base.config import CseConfig
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.corpus.build import BuildLimits, source_folder
from mlgo.corpus.recipe import Recipe, SourceGroup, find_sources, write_generated_files
from mlgo.errors import CompileError
from mlgo.jit.gcc.find import Gcc, find_gcc
from mlgo.jit.gcc.preprocess import preprocess


def translation_units(
    config: CseConfig, recipes: Mapping[str, Recipe], limits: BuildLimits, cache_dir: Path
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Preprocess the sources of projects by the GCC of this machine; see `mlgo.jit.choices.problem.Sources`."""
    gcc = find_gcc(config.gcc.command)
    rows = [
        row for project, recipe in recipes.items() for row in project_units(project, recipe, gcc, limits, cache_dir)
    ]
    return rows, {"compiler": gcc.name, "compiler_sha256": gcc.sha256}


def project_units(project: str, recipe: Recipe, gcc: Gcc, limits: BuildLimits, cache_dir: Path) -> list[dict[str, Any]]:
    """Preprocess a project's sources.

    Args:
        project: name in the corpus.
        recipe: how it is built.
        gcc: preprocesses.
        limits: how much of it is taken.
        cache_dir: folder of downloaded source distributions.

    Returns:
        A row of ``artifacts.CSE_SOURCES`` per source that was taken, sorted by path.

    Raises:
        PackageError: the sources cannot be had.
        CorpusError: they cannot be used.
    """
    with scratch_directory() as folder, source_folder(recipe, cache_dir, folder) as root:
        write_generated_files(recipe, root)
        sources = find_sources(recipe, root)
        chosen = set(sample([source for _, source in sources], limits.max_modules, limits.seed, "corpus", project))
        jobs = [job for job in sources if job[1] in chosen]
        row = _row_of(project, gcc, root)
        with ThreadPoolExecutor(limits.num_threads) as pool:
            return list(tqdm(pool.map(row, jobs), project, len(jobs), unit="unit", disable=None))


def _row_of(project: str, gcc: Gcc, root: Path) -> Callable[[tuple[SourceGroup, str]], dict[str, Any]]:
    def row(job: tuple[SourceGroup, str]) -> dict[str, Any]:
        unit, source = job
        arguments = unit.arguments()
        found = {
            "unit": f"{project}/{source}",
            "project": project,
            "language": unit.language,
            "arguments": arguments,
            "source": None,
            "skip_reason": "",
        }
        try:
            return found | {"source": preprocess(gcc, root, unit.language, arguments, source)}
        except CompileError as error:
            return found | {"skip_reason": f"{error.kind}: {str(error).replace(str(root) + '/', '')}"}

    return row
