"""Compile one project's sources to bitcode, and list what is linked of them.

Example:
    python scripts/build_project.py --preset config/presets/tiny.yaml --project lz \
        --recipe config/corpora/sample/lz.yaml --threads 2 --output data/corpus/projects/lz.parquet \
        --programs data/corpus/programs/lz.parquet
"""

import platform
import sys
from functools import partial
from pathlib import Path

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, provenance, write_rows
from mlgo.base.files import content_hash
from mlgo.base.names import ProjectName
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.seeding import sample
from mlgo.cli.program import compiler_of, run_program, settings_of, stage_parser
from mlgo.corpus.build import BuildLimits, build_project, captured_project, fetch_sources, program_of_all
from mlgo.corpus.capture.crates import CrateBuild, crate_project
from mlgo.corpus.capture.project import Extraction
from mlgo.corpus.capture.wheels import wheel_project
from mlgo.corpus.link_time import RunCheck, Tools, in_form, runnable_program
from mlgo.corpus.profiled import build_under_own_profile
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import ConfigError
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import ProgramRunner
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import ask_version, find_linker


def main() -> None:
    parser = stage_parser(__doc__, "--work")
    parser.add_argument("--project", required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True, help="table of modules")
    parser.add_argument("--programs", type=Path, required=True, help="table of linked files")
    args = parser.parse_args()

    values, shared = settings_of(args), shared_folder(args.work)
    (toolchain, settings), task, seed = compiler_of(values), values.value("task"), values.value("seed")
    recipe = load_recipe(args.recipe)
    own_profile = values.value("corpus.own_profile")
    if own_profile and not recipe.units:
        raise ConfigError(f"corpus.own_profile runs what a recipe's own sources make, and {args.recipe} has none")
    most, failed = values.value("corpus.max_modules_per_project"), values.value("corpus.max_failed_share")
    form = ProjectName.of(args.project).form or settings.ships.form
    limits = BuildLimits(most if form == "objects" else sys.maxsize, failed, seed, args.threads)
    front_end = FrontEnd(toolchain, settings, shared / "zig-cache", get_task(task))
    runner = ProgramRunner(toolchain.target, (shared / "zig-cache").absolute(), settings.compile_timeout_s)
    if recipe.wheel is not None or recipe.crate is not None:
        with scratch_directory() as scratch:
            folder = scratch / "captured"
            extraction = Extraction(args.project, recipe.license, front_end, args.threads)
            if recipe.crate is not None:
                crate_project(CrateBuild.of(recipe, shared, folder), extraction)
            else:
                log = args.work / "logs" / "wheels" / f"{args.project}.log"
                wheel_project(fetch_sources(recipe, shared / "sdists"), folder, recipe.wheel, extraction, log)
            built = recipe.model_copy(update={"captured": str(folder)})
            rows, programs = captured_project(args.project, built, task, limits)
    elif recipe.captured is not None:
        rows, programs = captured_project(args.project, recipe, task, limits)
    else:
        build = partial(build_under_own_profile, runner=runner) if own_profile else build_project
        rows = build(args.project, recipe, front_end, limits, shared / "sdists")
        programs = program_of_all(args.project, rows)
    tools = Tools(front_end, find_linker(), values.value("corpus.max_merged_instructions"), args.threads)
    if form != "objects":
        programs = sample(programs, most, seed, "corpus", args.project)
    if form == "program":
        growth = values.value("corpus.max_program_growth")
        rows, programs = runnable_program(rows, programs, tools, RunCheck(runner, recipe.expected, growth))
    else:
        rows, programs = in_form(form, rows, programs, tools)
    limit = {"max_program_growth": growth} if form == "program" else {"max_merged_instructions": tools.max_instructions}
    unset = {name for name in ("quarters", "crate") if getattr(recipe, name) is None}  # which hashes did not know
    origin = provenance(
        compiler=toolchain.name,
        target=toolchain.target,
        task=task,
        optimization=settings.optimization,
        recipe=content_hash(recipe.model_dump(exclude=unset)),
        seed=seed,
        **({"python": platform.python_version()} if recipe.python else {}),
        **({"rustc": ask_version(["rustc", "--verbose"])} if recipe.crate else {}),
        **({} if form == "objects" else {"form": form, **limit}),
    )
    write_rows(args.output, rows, PROJECT, origin)
    write_rows(args.programs, programs, PROGRAMS_OF_PROJECT, origin)


if __name__ == "__main__":
    run_program(main)
