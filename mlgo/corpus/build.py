"""One project: from its recipe to rows with bitcode."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from mlgo.base.artifacts import PROJECT, read_provenance, table_rows
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.corpus.fetch import copy_local, fetch_sources, unpack
from mlgo.corpus.functions import hash_functions
from mlgo.corpus.recipe import Recipe, Unit, find_sources, write_generated_files
from mlgo.corpus.store import CAPTURED_NAME
from mlgo.errors import CompileError, CorpusError


class SourceCompiler(Protocol):
    """What building a corpus needs of a compiler."""

    def compile_to_bitcode(
        self, root: Path, language: str, arguments: Sequence[str], source: str, output: Path
    ) -> None:
        """Compile one source to unoptimized bitcode or raise `CompileError`."""

    def finished(self, bitcode: Path) -> bytes:
        """The module as the corpus keeps it, made of such bitcode, or raise `CompileError`."""

    def print_ir(self, bitcode: Path, output: Path) -> None:
        """Print bitcode as textual IR or raise `CompileError`."""


@dataclass(frozen=True)
class BuildLimits:
    """How much of a project is taken.

    Attributes:
        max_modules: larger projects are sampled down to this many sources.
        max_failed_share: a larger share of failing sources is an error.
        seed: root seed of the sampling.
        num_threads: compiles at a time.
    """

    max_modules: int
    max_failed_share: float
    seed: int
    num_threads: int


def captured_project(project: str, recipe: Recipe, task: str, limits: BuildLimits) -> list[dict[str, Any]]:
    """A captured project's rows, under the name that it has in the corpus; see `build_project`.

    Raises:
        ArtifactError: the folder holds no captured project.
        CorpusError: it was captured for another task, or too many of its sources were left out.
    """
    path = Path(str(recipe.captured), CAPTURED_NAME)
    made_for = read_provenance(path).get("task")
    if made_for != task:
        raise CorpusError(
            f"{path} was captured for task {made_for}; capture the build again with a --preset whose task is {task}"
        )
    names = [row["module"] for row in table_rows(path, PROJECT, ["module"])]
    chosen = set(sample(names, limits.max_modules, limits.seed, "corpus", project))
    rows = []
    for row in table_rows(path, PROJECT, PROJECT.names):
        row |= {"project": project, "licence": recipe.license or row["licence"]}
        if row["module"] not in chosen:
            row |= columns_without(f"sampled: the project was cut to {limits.max_modules} sources")
        rows.append(row)
    _check_failures(project, [row for row in rows if row["module"] in chosen], limits)
    return sorted(rows, key=lambda row: str(row["module"]))


def build_project(
    project: str,
    recipe: Recipe,
    compiler: SourceCompiler,
    limits: BuildLimits,
    cache_dir: Path,
) -> list[dict[str, Any]]:
    """Compile a project's sources to bitcode.

    Args:
        project: name in the corpus.
        recipe: how it is built.
        compiler: front end.
        limits: how much of it is taken.
        cache_dir: folder of downloaded source distributions.

    Returns:
        A row of ``artifacts.PROJECT`` per source, failed and left-out ones with their reason, sorted by path.

    Raises:
        PackageError: the sources cannot be had.
        CorpusError: they cannot be used, or more of them fail than the limit allows.
    """
    with scratch_directory() as folder, source_folder(recipe, cache_dir, folder) as root:
        write_generated_files(recipe, root)
        sources = find_sources(recipe, root)
        chosen = set(sample([source for _, source in sources], limits.max_modules, limits.seed, "corpus", project))

        def build(job: tuple[Unit, str]) -> dict[str, Any]:
            return _build_source(project, recipe, compiler, root, folder, *job)

        with ThreadPoolExecutor(limits.num_threads) as pool:
            built = pool.map(build, [job for job in sources if job[1] in chosen])
            progress = tqdm(built, project, len(chosen), unit="module", disable=None)
            by_source = {row["module"]: row for row in progress}
    rows = [by_source.get(source) or _left_out(project, recipe, unit, source, limits) for unit, source in sources]
    _check_failures(project, list(by_source.values()), limits)
    return rows


@contextmanager
def source_folder(recipe: Recipe, cache_dir: Path, folder: Path) -> Iterator[Path]:
    """Sources of a recipe in a new folder under ``folder``, without its generated files.

    Raises:
        PackageError: they cannot be had.
        CorpusError: they cannot be used.
    """
    if recipe.captured is not None or recipe.wheel is not None:
        raise CorpusError(f"{recipe.name} is a captured build; its sources are compiled by mlgo capture alone")
    if recipe.path is not None:
        yield copy_local(recipe, folder / "sources")
    else:
        yield unpack(fetch_sources(recipe, cache_dir), folder / "sources")


def _build_source(
    project: str, recipe: Recipe, compiler: SourceCompiler, root: Path, folder: Path, unit: Unit, source: str
) -> dict[str, Any]:
    bitcode = folder / f"{hashlib.sha256(source.encode()).hexdigest()}.bc"
    try:
        compiler.compile_to_bitcode(root, unit.language, unit.arguments(), source, bitcode)
        columns = columns_of(compiler, bitcode)
    except CompileError as error:
        return _row(project, recipe, unit, source, f"{error.kind}: {str(error).replace(str(root) + '/', '')}")
    finally:
        bitcode.unlink(missing_ok=True)
    return _row(project, recipe, unit, source, "") | columns


def columns_of(compiler: SourceCompiler, bitcode: Path) -> dict[str, Any]:
    """Columns of ``artifacts.PROJECT`` that a source's unoptimized bitcode fills.

    Raises:
        CompileError: it cannot be read, or not be finished.
    """
    return columns_from(compiler, bitcode, ir_of(compiler, bitcode))


def ir_of(compiler: SourceCompiler, bitcode: Path) -> bytes:
    """Textual IR of bitcode.

    Raises:
        CompileError: it cannot be read.
    """
    text = bitcode.with_suffix(".ll")
    try:
        compiler.print_ir(bitcode, text)
        return text.read_bytes()
    finally:
        text.unlink(missing_ok=True)


def columns_from(compiler: SourceCompiler, bitcode: Path, ir: bytes) -> dict[str, Any]:
    """As `columns_of`, of bitcode whose textual IR is there already."""
    functions = hash_functions(ir)
    return {
        "skip_reason": "",
        "bitcode": compiler.finished(bitcode),
        "ir_sha256": functions.module_hash,
        "function_hashes": functions.hashes,
        "function_sizes": functions.sizes,
    }


def _left_out(project: str, recipe: Recipe, unit: Unit, source: str, limits: BuildLimits) -> dict[str, Any]:
    return _row(project, recipe, unit, source, f"sampled: the project was cut to {limits.max_modules} sources")


def _row(project: str, recipe: Recipe, unit: Unit, source: str, skip_reason: str) -> dict[str, Any]:
    named = {"project": project, "module": source, "language": unit.language, "licence": recipe.license}
    return named | columns_without(skip_reason)


def columns_without(skip_reason: str) -> dict[str, Any]:
    """The same columns of a source that became no module."""
    return {"ir_sha256": "", "skip_reason": skip_reason, "bitcode": None, "function_hashes": [], "function_sizes": []}


def _check_failures(project: str, built: list[dict[str, Any]], limits: BuildLimits) -> None:
    failed = [row for row in built if row["skip_reason"]]
    if len(failed) > limits.max_failed_share * len(built):
        first = failed[0]
        raise CorpusError(
            f"{project}: {len(failed)} of {len(built)} sources do not compile, more than corpus.max_failed_share "
            f"allows ({limits.max_failed_share:g}); the first is {first['module']}: {first['skip_reason']}"
        )
