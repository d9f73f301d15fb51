"""Preprocess the translation units of all projects, for tasks that compile with GCC.

Example:
    python scripts/build_cse_sources.py --cse "$(cat cse.json)" --corpus "$(cat corpus.json)" --seed 0 \
        --workers 2 --work data/work --output data/cse/corpus/sources.parquet
"""

from pathlib import Path

from mlgo.cli.arguments import stage_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_SOURCES, provenance, write_rows
from mlgo.core.config import CorpusConfig, CseConfig, parse_section
from mlgo.core.work import shared_folder
from mlgo.corpus.build import BuildLimits
from mlgo.corpus.recipe import load_recipe
from mlgo.problems.gcc.find import find_gcc
from mlgo.problems.gcc.translation_units import translation_units


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--cse", required=True, help="section cse of the configuration, as JSON")
    parser.add_argument("--corpus", required=True, help="section corpus of the configuration, as JSON")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    config, corpus = parse_section(CseConfig, args.cse), parse_section(CorpusConfig, args.corpus)
    gcc = find_gcc(config.gcc.command, counter=config.gcc.counter)
    limits = BuildLimits(corpus.max_modules_per_project, corpus.max_failed_share, args.seed, args.workers)
    projects = sorted(project for projects in corpus.splits.model_dump().values() for project in projects)
    rows = [
        row
        for project in projects
        for row in translation_units(
            project,
            load_recipe(Path(corpus.recipes, f"{project}.yaml")),
            gcc,
            limits,
            shared_folder(args.work) / "sdists",
        )
    ]
    origin = provenance(compiler=gcc.name, compiler_sha256=gcc.sha256, corpus=corpus.model_dump(), seed=args.seed)
    write_rows(args.output, rows, CSE_SOURCES, origin)


if __name__ == "__main__":
    run_program(main)
