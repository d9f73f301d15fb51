"""Linked files of a project of a corpus: those of its captured build, or one of all its modules."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, read_table
from mlgo.corpus.store import PROGRAMS_NAME


def captured_programs(project: str, captured: Path, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Linked files of a captured project, under the name that it has in the corpus.

    Args:
        project: this name.
        captured: folder of the captured project.
        rows: what became of its sources, rows of ``artifacts.PROJECT``.

    Returns:
        Rows of ``artifacts.PROGRAMS_OF_PROJECT``. Sources that are no modules, as they were skipped or sampled away,
        are among the foreign inputs.

    Raises:
        ArtifactError: there is no such table.
    """
    modules = _modules(rows)
    programs = read_table(captured / PROGRAMS_NAME, PROGRAMS_OF_PROJECT).to_pylist()
    return [_restricted(program, modules) | {"project": project} for program in programs]


def program_of_all(project: str, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One shared object of all modules, for a project whose recipe lists sources and tells of no link.

    It is linked as `mlgo.host.linker.linked_text` links the modules of a project: everything is exported, nothing
    is dropped, calls within it are direct. So every project has a linked file, which also tells its constants, unwind
    tables and compressed size.

    Args:
        project: name of the project.
        rows: what became of its sources, rows of ``artifacts.PROJECT``.

    Returns:
        One row of ``artifacts.PROGRAMS_OF_PROJECT``, or none if there is no module.
    """
    rows = list(rows)
    modules = _modules(rows)
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


def _modules(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [row["module"] for row in rows if not row["skip_reason"]]


def _restricted(program: Mapping[str, Any], modules: Collection[str]) -> dict[str, Any]:
    """The program without what is not among the modules."""
    kept = set(modules)
    parts = [part | {"modules": [name for name in part["modules"] if name in kept]} for part in program["parts"]]
    missing = {name: True for part in program["parts"] for name in part["modules"] if name not in kept}
    return {
        **program,
        "parts": [part for part in parts if part["modules"]],
        "foreign": [*program["foreign"], *missing],
    }
