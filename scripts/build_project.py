"""Compile one project's sources to bitcode.

Example:
    python scripts/build_project.py --project zstandard --recipe config/corpora/zstandard.yaml \
        --task inline-size --toolchain auto --target x86_64-linux-gnu --compile "$(cat compile.json)" \
        --max-modules 60 --max-failed-share 0.1 --seed 0 --threads 2 \
        --work data/work --output data/corpus/projects/zstandard.parquet
"""

from pathlib import Path

from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.compiler.frontend import FrontEnd
from mlgo.core.artifacts import PROJECT, provenance, write_rows
from mlgo.core.files import content_hash
from mlgo.core.work import shared_folder
from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.recipe import load_recipe
from mlgo.tasks import get_task


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--project", required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--task", required=True)
    add_compiler_arguments(parser)
    parser.add_argument("--max-modules", type=int, required=True)
    parser.add_argument("--max-failed-share", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    (toolchain, settings), shared = compiler_of(args), shared_folder(args.work)
    recipe = load_recipe(args.recipe)
    limits = BuildLimits(args.max_modules, args.max_failed_share, args.seed, args.threads)
    front_end = FrontEnd(toolchain, settings, shared / "zig-cache", get_task(args.task))
    rows = build_project(args.project, recipe, front_end, limits, shared / "sdists")
    origin = provenance(
        compiler=toolchain.name,
        target=toolchain.target,
        task=args.task,
        optimization=settings.optimization,
        recipe=content_hash(recipe.model_dump()),
        seed=args.seed,
    )
    write_rows(args.output, rows, PROJECT, origin)


if __name__ == "__main__":
    run_program(main)
