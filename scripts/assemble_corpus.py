"""Join projects into a corpus: remove duplicates, assign splits, write the manifests of modules and programs.

Example:
    python scripts/assemble_corpus.py --corpus data/corpus
"""

from collections import Counter
from pathlib import Path

from mlgo.base.artifacts import (
    MODULES,
    PROGRAMS_OF_CORPUS,
    PROGRAMS_OF_PROJECT,
    provenance,
    read_provenance,
    read_table,
    write_rows,
)
from mlgo.base.config import Splits
from mlgo.base.files import write_record
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.corpus.assemble import assemble, assemble_programs, read_sources, shared_bodies


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder with projects/ and programs/, gets modules.parquet"
    )
    args = parser.parse_args()

    splits = settings_of(args).section("corpus.splits", Splits).model_dump()
    shards = {name: args.corpus / "projects" / f"{name}.parquet" for names in splits.values() for name in names}
    projects = {name: read_sources(path) for name, path in shards.items()}
    rows = assemble(projects, splits)
    origin = provenance(splits=splits, projects={name: read_provenance(path) for name, path in sorted(shards.items())})
    write_rows(args.corpus / "modules.parquet", rows, MODULES, origin)
    programs = {name: read_table(args.corpus / "programs" / f"{name}.parquet", PROGRAMS_OF_PROJECT) for name in shards}
    linked = assemble_programs(projects, programs, rows)
    write_rows(args.corpus / "programs.parquet", linked, PROGRAMS_OF_CORPUS, origin)

    modules = [row for row in rows if not row["skip_reason"]]
    summary = {
        "modules": len(modules),
        "by_split": Counter(row["split"] for row in modules),
        "by_language": Counter(row["language"] for row in modules),
        "by_project": {name: sum(row["project"] == name for row in modules) for name in sorted(shards)},
        "skipped": Counter(row["skip_reason"].split(":")[0] for row in rows if row["skip_reason"]),
        "bodies_shared_between_splits": shared_bodies(projects, rows),
    }
    write_record(args.corpus / "summary.json", summary)


if __name__ == "__main__":
    run_program(main)
