"""Print docs/results/sealed-projects.md: the projects of the sealed test set, how much of each was seen in training.

Example:
    python scripts/sealed_table.py --corpus data/sealed/corpus --against data/corpus/projects/*.parquet
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, read_table
from mlgo.base.config import load_config
from mlgo.base.scratch import shared_folder
from mlgo.base.sealed import SEALED, SealedProject, load_sealed
from mlgo.cli.program import run_program
from mlgo.corpus.functions import BINDINGS
from mlgo.corpus.recipe import load_recipe
from mlgo.corpus.seen import EXACT, KINDS, NEAR, SeenBodies, project_bodies, shares
from mlgo.corpus.store import PROGRAMS_NAME, Module, table_of, unpack_project
from mlgo.host.frontend import FrontEnd
from mlgo.host.toolchain import find_toolchain
from mlgo.report.pages import Table, count_column, text_column

GENERATED = re.compile(r"(?:_ZL\d+)?_*(?:pyx_|Pyx_|cffi_|Pyx|SWIG|Swig)")
"""Functions that Cython, cffi and SWIG write, also where a source in C++ holds them: their names are made alike."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with projects/, or with captured projects")
    parser.add_argument("--against", type=Path, nargs="+", required=True, help="what training and validation take")
    parser.add_argument("--config", type=Path, default=Path("config/config.yaml"))
    parser.add_argument("--json", action="store_true", help="print JSON, with the longest functions that were seen")
    args = parser.parse_args()

    config, shared = load_config(args.config), shared_folder()
    front_end = FrontEnd(find_toolchain(config.toolchain, config.target), config.compile, shared / "zig-cache")

    def bodies(path: Path) -> tuple[list[Module], pa.Table]:
        modules, files = unpack_project(table_of(path), shared / "bitcode")
        return modules, project_bodies(front_end.print_ir, modules, files, shared / "bodies")

    seen = SeenBodies.of(pa.concat_tables([bodies(path)[1] for path in tqdm(args.against, "read", disable=None)]))
    rows = []
    for project in tqdm(load_sealed().projects, "compared", disable=None):
        captured = args.corpus / project.name
        sources = captured if captured.is_dir() else args.corpus / "projects" / f"{project.name}.parquet"
        programs = captured / PROGRAMS_NAME if captured.is_dir() else args.corpus / "programs" / sources.name
        modules, table = bodies(sources)
        rows.append(
            {
                **_told(project, modules, table),
                "files": read_table(programs, PROGRAMS_OF_PROJECT).num_rows,
                **_seen(seen, table),
            }
        )
    print(json.dumps(rows, indent=2) if args.json else _table(rows).markdown())


def _told(project: SealedProject, modules: Sequence[Module], bodies: pa.Table) -> dict[str, Any]:
    """What recipe and modules tell of a project."""
    recipe = load_recipe(SEALED.with_suffix("") / f"{project.name}.yaml")
    languages = {module.name: module.language for module in modules}
    sizes: Counter[str] = Counter()
    for row in bodies.select(["module", "instructions"]).to_pylist():
        sizes[languages[row["module"]]] += row["instructions"]
    told = {"version": recipe.version, "licence": recipe.license, "modules": len(modules)}
    return project.model_dump() | told | {"language": sizes.most_common()[0][0]}


def _seen(seen: SeenBodies, bodies: pa.Table) -> dict[str, Any]:
    """Instructions of a project by kind, and the longest functions that were seen."""
    kinds = seen.kinds(bodies)
    generated = [bool(GENERATED.match(name)) for name in bodies["function"].to_pylist()]
    kinds[np.array(generated)] = KINDS.index(BINDINGS)
    longest = seen.longest(bodies, kinds, 5)
    return {"instructions": shares(bodies, kinds), "longest": longest}


def _table(rows: list[dict[str, Any]]) -> Table:
    def share(row: dict[str, Any], *kinds: str) -> str:
        instructions = row["instructions"]
        return f"{100.0 * sum(instructions[kind] for kind in kinds) / sum(instructions.values()):.1f} %"

    return Table(
        [
            text_column("project", lambda row: f"{row['name']} {row['version']}"),
            text_column("domain", lambda row: row["domain"]),
            text_column("language", lambda row: row["language"]),
            count_column("modules", lambda row: row["modules"]),
            count_column("linked files", lambda row: row["files"]),
            count_column("instructions", lambda row: sum(row["instructions"].values())),
            text_column("standard library", lambda row: share(row, "standard")),
            text_column("bindings", lambda row: share(row, "bindings")),
            text_column("seen", lambda row: share(row, NEAR, EXACT)),
        ],
        rows,
    )


if __name__ == "__main__":
    run_program(main)
