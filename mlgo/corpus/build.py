"""One project: from its recipe to its sources, rows with bitcode, and its linked files."""

import errno
import shutil
import tarfile
import zipfile
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, Row, RowView, read_provenance, read_table, table_rows
from mlgo.base.files import copy_folder, joined, open_input
from mlgo.base.packages import Package, TarHeader, bounded, fetch_package
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.base.threads import in_threads
from mlgo.corpus.functions import hash_functions
from mlgo.corpus.recipe import Recipe, SourceGroup, find_sources, write_generated_files
from mlgo.corpus.store import CAPTURED_NAME, PROGRAMS_NAME
from mlgo.errors import CompileError, CorpusError
from mlgo.host.frontend import FrontEnd


@dataclass(frozen=True)
class BuildLimits:
    """Limits of a project's size and failures."""

    max_modules: int  # larger projects are sampled down to this many sources
    max_failed_share: float  # a larger share of failing sources is an error
    seed: int  # root seed of the sampling
    num_threads: int  # compiles at a time

    @property
    def left_out(self) -> str:
        """Why a source is none of those that are taken."""
        return f"sampled: the project was cut to {self.max_modules} sources"


def captured_project(project: str, recipe: Recipe, task: str, limits: BuildLimits) -> tuple[list[Row], list[Row]]:
    """Rows of a captured project, ``artifacts.PROJECT`` and ``PROGRAMS_OF_PROJECT``, under its name in the corpus.

    Sources that are no modules, as they were skipped or sampled away, are among the foreign inputs of programs.
    """
    folder = Path(str(recipe.captured))
    path = folder / CAPTURED_NAME
    made_for = read_provenance(path).get("task")
    if made_for != task:
        raise CorpusError(
            f"{path} was captured for task {made_for}; capture the build again with a --preset whose task is {task}"
        )
    names = [name for row in table_rows(path, PROJECT, ["module"]) if recipe.takes(name := row["module"])]
    chosen = set(sample(names, limits.max_modules, limits.seed, "corpus", project))
    rows = []
    for row in table_rows(path, PROJECT, PROJECT.names):
        row |= {"project": project, "licence": recipe.license or row["licence"]}
        if row["module"] not in chosen:
            row |= columns_without(limits.left_out if recipe.takes(row["module"]) else "quarter: not of this recipe")
        rows.append(row)
    _check_failures(project, [row for row in rows if row["module"] in chosen], limits)
    modules = {row["module"] for row in rows if not row["skip_reason"]}
    programs = read_table(folder / PROGRAMS_NAME, PROGRAMS_OF_PROJECT).to_pylist()
    linked = [program_of(modules, program) | {"project": project} for program in programs]
    linked = [program for program in linked if program["parts"] or recipe.quarters is None]
    return sorted(rows, key=lambda row: str(row["module"])), linked


def build_project(
    project: str,
    recipe: Recipe,
    compiler: FrontEnd,
    limits: BuildLimits,
    cache_dir: Path,
    profile: tuple[str, Path] | None = None,
) -> list[Row]:
    """Rows of ``artifacts.PROJECT``, one per source, failed and left-out ones with their reason, sorted by path.

    A ``profile``, option and file, is that of all sources.
    """
    with scratch_directory() as folder:
        root = source_folder(recipe, cache_dir, folder)
        write_generated_files(recipe, root)
        sources = find_sources(recipe, root)
        chosen = set(sample([source for _, source in sources], limits.max_modules, limits.seed, "corpus", project))

        def build(job: tuple[SourceGroup, str]) -> Row:
            unit, source = job
            row = {"project": project, "module": source, "language": unit.language, "licence": recipe.license}
            if source not in chosen:
                return row | columns_without(limits.left_out)
            try:
                with scratch_directory() as own:
                    bitcode = own / "module.bc"
                    compiler.compile_to_bitcode(root, unit.language, unit.arguments(), source, bitcode, profile)
                    return row | columns_of(compiler, bitcode)
            except CompileError as error:
                return row | columns_without(f"{error.kind}: {str(error).replace(f'{root}/', '')}")

        built = in_threads(build, sources, limits.num_threads)
        rows = list(tqdm(built, project, len(sources), unit="module", disable=None))
    _check_failures(project, [row for row in rows if row["module"] in chosen], limits)
    return rows


def source_folder(recipe: Recipe, cache_dir: Path, folder: Path) -> Path:
    """Sources of a recipe in a new folder under ``folder``, without its generated files."""
    if not recipe.units:
        raise CorpusError(f"{recipe.name} is a captured build; its sources are compiled by mlgo capture alone")
    if recipe.path is None:
        return unpack(fetch_sources(recipe, cache_dir), folder / "sources")
    if not Path(recipe.path).is_dir():
        raise CorpusError(f"{recipe.name}: {recipe.path} is not a folder; run from the project's top folder")
    # A copy, so that generated files never land among the sources.
    root = joined(folder / "sources", recipe.name)
    copy_folder(Path(recipe.path), root)
    return root


def columns_of(compiler: FrontEnd, bitcode: Path, ir: bytes | None = None) -> Row:
    """Columns of ``artifacts.PROJECT`` that a source's unoptimized bitcode fills; ``ir`` is it as text, if known."""
    functions = hash_functions(ir_of(compiler, bitcode) if ir is None else ir)
    return {"skip_reason": "", "bitcode": compiler.finished(bitcode), **functions._asdict()}


def ir_of(compiler: FrontEnd, bitcode: Path) -> bytes:
    """Textual IR of bitcode."""
    with scratch_directory() as folder:
        compiler.print_ir(bitcode, folder / "module.ll")
        return (folder / "module.ll").read_bytes()


def columns_without(skip_reason: str) -> Row:
    """The same columns of a source that became no module."""
    return {"ir_sha256": "", "skip_reason": skip_reason, "bitcode": None, "function_hashes": [], "function_sizes": []}


def _check_failures(project: str, built: list[Row], limits: BuildLimits) -> None:
    failed = [row for row in built if row["skip_reason"]]
    if len(failed) > limits.max_failed_share * len(built):
        first = failed[0]
        raise CorpusError(
            f"{project}: {len(failed)} of {len(built)} sources do not compile, more than corpus.max_failed_share "
            f"allows ({limits.max_failed_share:g}); the first is {first['module']}: {first['skip_reason']}"
        )


def fetch_sources(recipe: Recipe, cache_dir: Path) -> Path:
    """Return the verified source distribution of a recipe with version and sha256; see `fetch_package`."""
    return fetch_package(Package(recipe.name, str(recipe.version), str(recipe.sha256), "sdist"), cache_dir)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution and return the single folder in it."""
    unpack_all(archive, folder)
    folders = [entry for entry in folder.iterdir() if entry.is_dir()]
    if len(folders) != 1:
        raise CorpusError(f"{archive.name} holds {len(folders)} folders at its top, expected one")
    return folders[0]


def unpack_all(archive: Path, folder: Path) -> None:
    """Unpack a source distribution or a wheel; `CorpusError` where it is damaged, or more than may be unpacked."""
    try:
        if archive.name.endswith((".zip", ".whl")):
            with open_input(archive) as file, zipfile.ZipFile(file) as zipped:
                zipped.extractall(folder, list(bounded(zipped.infolist())))
        else:
            with open_input(archive) as file, tarfile.open(fileobj=file, tarinfo=TarHeader) as tar:
                for member in bounded(tar):
                    path = joined(folder, member.name)
                    if member.islnk() and not joined(folder, member.linkname).exists():
                        raise ValueError(f"{member.name} is a link to what is not there")
                    if hasattr(tarfile, "data_filter"):
                        tar.extract(member, folder, filter="data")
                    else:  # Python 3.11.0 to 3.11.3
                        _extract(tar, member, path)
    except Exception as error:  # of damaged bytes these modules raise what they like, there is no list
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # not the archive's fault
        raise CorpusError(f"{archive.name} cannot be unpacked ({error}); delete it and run again") from error


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Extract a folder or an ordinary file."""
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise ValueError(f"{member.name} is a link or a device")
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def program_of(modules: Container[str], program: RowView) -> Row:
    """A row of ``artifacts.PROGRAMS_OF_PROJECT`` whose parts hold these modules alone; the others are foreign."""
    parts = [part | {"modules": [name for name in part["modules"] if name in modules]} for part in program["parts"]]
    missing = {name: True for part in program["parts"] for name in part["modules"] if name not in modules}
    return {**program, "parts": [part for part in parts if part["modules"]], "foreign": [*program["foreign"], *missing]}


def program_of_all(project: str, rows: Iterable[RowView]) -> list[Row]:
    """One row of ``artifacts.PROGRAMS_OF_PROJECT``, a shared object of all modules, for a recipe that lists no link.

    Everything is exported and nothing is dropped. ``-Bsymbolic`` makes calls within the file direct, as a release build
    with hidden symbols does; without it each function that is called has a stub of 16 bytes. There is no row if there
    is no module.
    """
    rows = list(rows)
    modules = [row["module"] for row in rows if not row["skip_reason"]]
    if not modules:
        return []
    return [
        {
            "project": project,
            "program": f"{project}.so",
            "kind": "shared",
            "parts": [{"kind": "object", "modules": modules}],
            "foreign": [row["module"] for row in rows if row["skip_reason"]],
            "libraries": [],
            "options": ["-Bsymbolic"],
            "version_script": "",
            "export_dynamic": False,
            "entry": "",
        }
    ]
