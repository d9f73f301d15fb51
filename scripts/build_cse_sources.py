"""Preprocess the translation units of all projects, for tasks that choose among candidates in them.

Example:
    python scripts/build_cse_sources.py --preset config/presets/gcc-pre.yaml \
        --workers 2 --output data/cse/corpus/sources.parquet
"""

from pathlib import Path

from mlgo.base.artifacts import CSE_SOURCES, provenance, write_rows
from mlgo.base.config import CorpusConfig, CseConfig
from mlgo.base.work import shared_folder
from mlgo.cli.arguments import add_work_argument, add_workers_arguments, settings_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.corpus.build import BuildLimits
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import ConfigError
from mlgo.jit.choices.problem import choice_problem


def main() -> None:
    parser = stage_parser(__doc__)
    add_work_argument(parser)
    add_workers_arguments(parser)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values = settings_of(args)
    seed, task, corpus = values.value("seed"), values.value("task"), values.section("corpus", CorpusConfig)
    sources, cache = choice_problem(task).sources, shared_folder(args.work) / "sdists"
    if sources is None:
        raise ConfigError(f"task {task} has no translation units")
    limits = BuildLimits(corpus.max_modules_per_project, corpus.max_failed_share, seed, args.workers)
    recipes = {project: load_recipe(Path(corpus.recipes, f"{project}.yaml")) for project in corpus.splits.projects}
    rows, compiler = sources(values.section("cse", CseConfig), recipes, limits, cache)
    origin = provenance(**compiler, corpus=corpus.model_dump(), seed=seed)
    write_rows(args.output, rows, CSE_SOURCES, origin)


if __name__ == "__main__":
    run_program(main)
