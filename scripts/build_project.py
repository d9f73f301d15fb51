"""Compile one project's sources to bitcode.

Example:
    python scripts/build_project.py --project zstandard --recipe config/corpora/zstandard.yaml \
        --toolchain auto --target x86_64-linux-gnu --compile "$(cat compile.json)" \
        --max-modules 60 --max-failed-share 0.1 --seed 0 --threads 2 \
        --cache data/work --output data/corpus/projects/zstandard.parquet
"""

import argparse
from pathlib import Path

from mlgo.artifacts import PROJECT, content_hash, provenance, write_rows
from mlgo.cli.program import run_program
from mlgo.compiler.frontend import FrontEnd
from mlgo.compiler.toolchain import find_toolchain
from mlgo.config import CompileConfig, parse_section
from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.recipe import load_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--toolchain", default="auto")
    parser.add_argument("--target", required=True)
    parser.add_argument("--compile", required=True, help="section compile of the configuration, as JSON")
    parser.add_argument("--max-modules", type=int, required=True)
    parser.add_argument("--max-failed-share", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", type=Path, required=True, help="folder for downloads and compiler caches")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    settings = parse_section(CompileConfig, args.compile)
    recipe = load_recipe(args.recipe)
    toolchain = find_toolchain(args.toolchain, args.target)
    limits = BuildLimits(args.max_modules, args.max_failed_share, args.seed, args.threads)
    front_end = FrontEnd(toolchain, settings, args.cache / "zig-cache")
    rows = build_project(args.project, recipe, front_end, limits, args.cache / "sdists")
    origin = provenance(
        compiler=toolchain.name,
        target=toolchain.target,
        optimization=settings.optimization,
        recipe=content_hash(recipe.model_dump()),
        seed=args.seed,
    )
    write_rows(args.output, rows, PROJECT, origin)


if __name__ == "__main__":
    run_program(main)
