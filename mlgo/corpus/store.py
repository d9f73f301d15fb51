"""The corpus on disk: manifest, bitcode shards, and single bitcode files where a compiler can read them."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from mlgo.base.artifacts import MODULES, PROGRAMS_OF_CORPUS, PROJECT, RowView, read_table, table_rows
from mlgo.base.files import file_sha256, relative, write_bytes
from mlgo.base.names import language_together
from mlgo.errors import CorpusError

CAPTURED_NAME = "project.parquet"
"""Table of ``artifacts.PROJECT`` in the folder of a captured project."""
PROGRAMS_NAME = "programs.parquet"
"""Table of ``artifacts.PROGRAMS_OF_PROJECT`` there; of ``artifacts.PROGRAMS_OF_CORPUS`` in the folder of a corpus."""
OBJECTS_NAME = "objects.parquet"
"""Table of ``artifacts.OBJECTS_OF_BUILD`` there."""
VERIFIED_NAME = "verified.parquet"
"""Table of ``artifacts.VERIFIED`` there."""
IN_CAPTURED = (
    *(CAPTURED_NAME, PROGRAMS_NAME, OBJECTS_NAME, VERIFIED_NAME, "records", "crates", "tools", "parts", "evaluation"),
    *("source", "unpacked", "bin", "tmp", "wheel", "build.log", "constraints.txt", "exports.map"),
)
"""All that captures and what looks at them have put into such a folder."""


@dataclass(frozen=True)
class Module:
    """One compilation unit."""

    project: str  # project it belongs to
    name: str  # source path within the project
    language: str  # `c` or `c++`
    split: str  # `train`, `validation` or `test`
    sha256: str  # hash of its bitcode

    @property
    def key(self) -> str:
        """Name that is unique in the corpus."""
        return f"{self.project}/{self.name}"


def _module(project: str, name: str, language: str, split: str, sha256: str) -> Module:
    """A module of a table, whose project and hash become parts of file names."""
    return Module(relative(project, "project"), name, language, split, relative(sha256, "hash of bitcode"))


def load_modules(
    corpus_dir: Path,
    *,
    project: str | None = None,
    splits: Iterable[str] | None = None,
    languages: Iterable[str] | None = None,
) -> list[Module]:
    """List the corpus's modules, in manifest order."""
    table = read_table(corpus_dir / "modules.parquet", MODULES).filter(pc.field("skip_reason") == "")
    modules = [
        _module(row["project"], row["module"], row["language"], row["split"], row["bitcode_sha256"])
        for row in table.to_pylist()
    ]
    _check_splits(modules, corpus_dir)
    asked = {"project": None if project is None else {project}, "split": splits, "language": languages}
    wanted = {name: set(values) for name, values in asked.items() if values is not None}
    return [one for one in modules if all(getattr(one, name) in values for name, values in wanted.items())]


@dataclass(frozen=True)
class Program:
    """A linked file of a project."""

    row: RowView  # how it is linked, a row of `artifacts.PROGRAMS_OF_PROJECT`
    split: str  # of its project
    # What it is linked of, each once; also those that are no modules of the corpus as they are duplicates.
    modules: tuple[Module, ...]

    @property
    def language(self) -> str:
        """That of its modules together."""
        return language_together(module.language for module in self.modules)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its modules."""
        return tuple(module.name for module in self.modules)


def load_programs(
    corpus_dir: Path, *, project: str | None = None, splits: Iterable[str] | None = None
) -> list[Program]:
    """List the corpus's linked files, in manifest order."""
    wanted = None if splits is None else set(splits)
    rows = [
        row
        for row in read_table(corpus_dir / PROGRAMS_NAME, PROGRAMS_OF_CORPUS).to_pylist()
        if project in (None, row["project"]) and (wanted is None or row["split"] in wanted)
    ]
    modules = {one.key: one for one in load_modules(corpus_dir, project=project, splits=splits)}
    for row in rows:
        for one in row["duplicates"]:
            module = _module(row["project"], one["module"], one["language"], row["split"], one["bitcode_sha256"])
            modules[module.key] = module
    return [_program(row, row["split"], modules) for row in rows]


def bitcode_hashes(corpus_dir: Path) -> set[str]:
    """Hashes of all bitcode that the corpus names: of modules, and of duplicates that programs are linked of."""
    modules = read_table(corpus_dir / "modules.parquet", MODULES, columns=["bitcode_sha256"])
    hashes = set(modules["bitcode_sha256"].to_pylist())
    if (corpus_dir / PROGRAMS_NAME).exists():
        programs = read_table(corpus_dir / PROGRAMS_NAME, PROGRAMS_OF_CORPUS, columns=["duplicates"])
        hashes |= {one["bitcode_sha256"] for row in programs["duplicates"].to_pylist() for one in row}
    return hashes


def _program(row: RowView, split: str, modules: Mapping[str, Module]) -> Program:
    """A linked file with its modules, by their keys."""
    names = dict.fromkeys(name for part in row["parts"] for name in part["modules"])
    missing = [name for name in names if f"{row['project']}/{name}" not in modules]
    if missing:
        raise CorpusError(
            f"{row['project']}: {row['program']} is linked of {missing[0]}, which is no module of the project; "
            "capture the build again, or make the corpus again"
        )
    return Program(row, split, tuple(modules[f"{row['project']}/{name}"] for name in names))


def project_programs(rows: Iterable[RowView], modules: Iterable[Module], split: str) -> list[Program]:
    """Linked files of one project."""
    by_key = {module.key: module for module in modules}
    return [_program(row, split, by_key) for row in rows]


def unpack_project(path: Path, bitcode_dir: Path) -> tuple[list[Module], dict[str, Path]]:
    """Modules of one project's table, all as of split ``test``, and their files by key; few are in memory at a time."""
    columns = ["project", "module", "language", "skip_reason", "bitcode"]
    modules, files = unpack_rows(table_rows(path, PROJECT, columns), "test", bitcode_dir)
    if not modules:
        raise CorpusError(f"{path} holds no module; every source of the project was left out")
    return modules, files


def table_of(path: Path) -> Path:
    """Table of the sources of a project: of a captured one by its folder, else the table itself."""
    return path if path.suffix == ".parquet" else path / CAPTURED_NAME


def unpack_rows(rows: Iterable[RowView], split: str, bitcode_dir: Path) -> tuple[list[Module], dict[str, Path]]:
    """The same for rows of such a table, which may hold no module."""
    modules, files = [], {}
    for row in rows:
        if row["bitcode"] is not None and not row["skip_reason"]:
            digest = hashlib.sha256(row["bitcode"]).hexdigest()
            module = _module(row["project"], row["module"], row["language"], split, digest)
            files[module.key] = bitcode_dir / f"{digest}.bc"
            if not _is_unpacked(files[module.key]):
                write_bytes(files[module.key], row["bitcode"])
            modules.append(module)
    return modules, files


def _is_unpacked(path: Path) -> bool:
    """Whether the bitcode is there that a file is named by; what is damaged is unpacked again."""
    return path.exists() and file_sha256(path) == path.stem


def _check_splits(modules: Iterable[Module], corpus_dir: Path) -> None:
    """Refuse a corpus that tests on what it trains on; `assemble` makes none, other tools may."""
    projects: dict[str, str] = {}
    first: dict[str, Module] = {}
    for one in modules:
        if projects.setdefault(one.project, one.split) != one.split:
            raise CorpusError(
                f"{corpus_dir}: project {one.project} is in two splits ({projects[one.project]} and {one.split}); "
                "a project belongs to one: assemble the corpus again"
            )
        known = first.setdefault(one.sha256, one)
        if known.split != one.split:
            raise CorpusError(
                f"{corpus_dir}: {one.key} ({one.split}) is the same code as {known.key} ({known.split}), so the splits "
                "leak; assemble the corpus again, which leaves duplicates out"
            )


def unpack_bitcode(corpus_dir: Path, modules: Iterable[Module], bitcode_dir: Path) -> dict[str, Path]:
    """Path by module key; each module lies as a file in ``bitcode_dir``, named by its hash."""
    modules = list(modules)
    paths = {module.key: bitcode_dir / f"{module.sha256}.bc" for module in modules}
    missing = [module for module in modules if not _is_unpacked(paths[module.key])]
    for project in dict.fromkeys(module.project for module in missing):
        wanted = {one.name: one for one in missing if one.project == project}
        shard = corpus_dir / "projects" / f"{project}.parquet"
        for row in read_table(shard, PROJECT, ["module", "bitcode"], [("module", "in", list(wanted))]).to_pylist():
            module = wanted.get(row["module"])
            if module and row["bitcode"] is not None and hashlib.sha256(row["bitcode"]).hexdigest() == module.sha256:
                write_bytes(paths[module.key], row["bitcode"])
                del wanted[module.name]
        if wanted:
            raise CorpusError(
                f"{next(iter(wanted.values())).key}: its shard does not hold the bitcode that the manifest names; "
                "delete the corpus folder and make it again"
            )
    return paths
