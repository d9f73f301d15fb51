"""Projects on which a finished policy is tried: a captured one, or those of any corpus."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from mlgo.base import artifacts
from mlgo.base.files import canonical_json, content_hash
from mlgo.corpus import store
from mlgo.corpus.link_time import Tools, whole_programs
from mlgo.errors import ArtifactError, CorpusError
from mlgo.evaluate.evaluation import Evaluation
from mlgo.evaluate.shipped import UNMERGED, other_modules

_TABLES = {"results": artifacts.RESULTS, "shipped": artifacts.SHIPPED_SIZES, "search": artifacts.SEARCH_COURSE}
"""What is kept of a finished project, by part of the file name, in the order of `Evaluation`."""


@dataclass(frozen=True)
class EvaluationTarget:
    """A project on which a policy is tried."""

    project: str
    table: Path  # table of its sources, whose provenance tells what it was made for
    modules: Sequence[store.Module]
    programs: Sequence[store.Program]
    # Gives the bitcode file of each module, by key, also of those that only programs need.
    unpack: Callable[[], Mapping[str, Path]]

    def check(self, task: str, optimization: str) -> None:
        """See that its modules are what a policy decides about."""
        made = artifacts.read_provenance(self.table)
        for what, wanted in (("task", task), ("optimization", optimization)):
            if made.get(what) != wanted:
                raise CorpusError(
                    f"{self.table} was made for {what} {made.get(what)}, this is an evaluation for {wanted}; name a "
                    f"--preset with this {what}, or make the project again with one"
                )

    @property
    def content(self) -> str:
        """Hash of all that is compiled and of how it is linked."""
        every = [*self.modules, *other_modules(self.modules, self.programs)]
        return content_hash([{one.key: one.sha256 for one in every}, [program.row for program in self.programs]])


def one_project(path: Path, bitcode_dir: Path) -> EvaluationTarget:
    """A project by itself.

    Args:
        path: folder that ``mlgo capture`` has written, or the table of sources in it or in a corpus.
        bitcode_dir: for files named by their hash.
    """
    if path.parent.name == "projects" and path.suffix == ".parquet":
        table, programs = path, path.parent.parent / "programs" / path.name
    else:
        folder = path.parent if path.name == store.CAPTURED_NAME else path
        table, programs = folder / store.CAPTURED_NAME, folder / store.PROGRAMS_NAME
    modules, files = store.unpack_project(table, bitcode_dir)
    linked = store.project_programs(
        artifacts.read_table(programs, artifacts.PROGRAMS_OF_PROJECT).to_pylist(), modules, "test"
    )
    return EvaluationTarget(modules[0].project, table, modules, linked, lambda: files)


def merged_programs(target: EvaluationTarget, tools: Tools, bitcode_dir: Path) -> EvaluationTarget:
    """The project with its linked files merged into modules, see `whole_programs`; perhaps none can be."""
    chosen = {module.name for module in [*target.modules, *other_modules(target.modules, target.programs)]}
    rows = [
        row
        for row in artifacts.table_rows(target.table, artifacts.PROJECT, artifacts.PROJECT.names)
        if row["module"] in chosen
    ]
    merged, programs = whole_programs(rows, [dict(program.row) for program in target.programs], tools)
    reasons = {row["module"].partition("#")[0]: row["skip_reason"] for row in merged if row["skip_reason"]}
    programs = [row if row["parts"] else row | {UNMERGED: reasons.get(row["program"], "")} for row in programs]
    split = target.modules[0].split
    modules, files = store.unpack_rows(merged, split, bitcode_dir)
    linked = store.project_programs(programs, modules, split)
    return replace(target, modules=modules, programs=linked, unpack=lambda: files)


def corpus_projects(
    corpus_dir: Path, bitcode_dir: Path, split: str | None, project: str | None
) -> list[EvaluationTarget]:
    """Projects of a corpus, in manifest order, with their modules as the manifest lists them."""
    splits = None if split is None else [split]
    modules: dict[str, list[store.Module]] = {}
    for module in store.load_modules(corpus_dir, project=project, splits=splits):
        modules.setdefault(module.project, []).append(module)
    if not modules:
        which = " ".join(["", *(["split", split] if split else []), *(["project", project] if project else [])])
        raise CorpusError(f"{corpus_dir} holds no module{' of' if which else ''}{which}")
    programs: dict[str, list[store.Program]] = {}
    for program in store.load_programs(corpus_dir, project=project, splits=splits):
        programs.setdefault(program.row["project"], []).append(program)
    targets = []
    for name, members in modules.items():
        linked = programs.get(name, [])
        unpack = partial(store.unpack_bitcode, corpus_dir, [*members, *other_modules(members, linked)], bitcode_dir)
        targets.append(EvaluationTarget(name, corpus_dir / "projects" / f"{name}.parquet", members, linked, unpack))
    return targets


def evaluate_targets(
    targets: Sequence[EvaluationTarget],
    evaluate: Callable[[EvaluationTarget], Evaluation],
    folder: Path,
    origin: artifacts.RowView,
    say: Callable[[str], None] = lambda message: None,
) -> tuple[pa.Table, ...]:
    """Evaluate project by project; what an earlier run has finished is taken as it is.

    Gives tables of ``artifacts.RESULTS``, ``artifacts.SHIPPED_SIZES`` and ``artifacts.SEARCH_COURSE``.
    """
    done = []
    for number, target in enumerate(targets, start=1):
        stored = {folder / f"{target.project}.{name}.parquet": schema for name, schema in _TABLES.items()}
        own = {**origin, "project": target.project, "content": target.content}
        known = False
        with suppress(ArtifactError):
            known = all(canonical_json(artifacts.read_provenance(path)) == canonical_json(own) for path in stored)
        say(f"{target.project} ({number} of {len(targets)}){', known' if known else ''}")
        if not known:
            found = evaluate(target)
            for (path, schema), rows in zip(stored.items(), (found.results, found.sizes, found.course), strict=True):
                artifacts.write_rows(path, rows, schema, own)
        done.append([artifacts.read_table(path, schema) for path, schema in stored.items()])
    return tuple(pa.concat_tables(tables) for tables in zip(*done, strict=True))
