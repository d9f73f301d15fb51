"""Preprocess the translation units of all projects, for tasks that compile with GCC.

Example:
    python scripts/build_cse_sources.py --preset config/presets/gcc-pre.yaml \
        --workers 2 --output data/cse/corpus/sources.parquet
"""

from pathlib import Path

from mlgo.cli.arguments import add_work_argument, settings_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_SOURCES, provenance, write_rows
from mlgo.core.config import CorpusConfig, CseConfig
from mlgo.core.work import shared_folder
from mlgo.corpus.build import BuildLimits
from mlgo.corpus.recipe import load_recipe
from mlgo.problems.gcc.find import find_gcc
from mlgo.problems.gcc.translation_units import translation_units


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--workers", type=int, default=1)
    add_work_argument(parser)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    settings = settings_of(args)
    seed = settings.value("seed")
    config, corpus = settings.section("cse", CseConfig), settings.section("corpus", CorpusConfig)
    gcc = find_gcc(config.gcc.command, counter=config.gcc.counter)
    limits = BuildLimits(corpus.max_modules_per_project, corpus.max_failed_share, seed, args.workers)
    rows = [
        row
        for project in corpus.splits.projects
        for row in translation_units(
            project,
            load_recipe(Path(corpus.recipes, f"{project}.yaml")),
            gcc,
            limits,
            shared_folder(args.work) / "sdists",
        )
    ]
    origin = provenance(compiler=gcc.name, compiler_sha256=gcc.sha256, corpus=corpus.model_dump(), seed=seed)
    write_rows(args.output, rows, CSE_SOURCES, origin)


if __name__ == "__main__":
    run_program(main)
