"""Programs of the corpus that are compiled under a profile of their own run."""

import sys
from dataclasses import replace
from pathlib import Path

from mlgo.base.artifacts import Row
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.recipe import Recipe
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import ProgramRunner
from mlgo.host.sample_profile import WITH_LINES, profile_of_program
from mlgo.host.session import compile_plain

_ACCURATE = "-fprofile-sample-accurate"  # else what never ran counts as unknown, not as cold


def build_under_own_profile(
    project: str, recipe: Recipe, compiler: FrontEnd, limits: BuildLimits, cache_dir: Path, runner: ProgramRunner
) -> list[Row]:
    """Rows as those of `build_project`, of sources that know what the program executes that they make.

    Raises:
        LinkError, ProgramError: they make no program, or not one that prints what the recipe says.
    """
    with scratch_directory() as folder:
        plain, objects = replace(compiler, task=None), []
        exact = compiler.settings.model_copy(update={"optimization": "-O0"})  # an optimized loop counts lines otherwise
        whole = replace(limits, max_modules=sys.maxsize, max_failed_share=0.0)
        for number, row in enumerate(build_project(project, _with(recipe, *WITH_LINES), plain, whole, cache_dir)):
            module = folder / f"{number}.bc"
            module.write_bytes(row["bitcode"])
            objects.append(module.with_suffix(".o"))
            compile_plain(compiler.toolchain, module, exact, object_path=objects[-1])
        profile = folder / f"{project}.prof"
        profile.write_text(profile_of_program(runner, objects, recipe.expected))
        knowing = _with(recipe, *WITH_LINES, _ACCURATE)
        return build_project(project, knowing, compiler, limits, cache_dir, ("-fprofile-sample-use=", profile))


def _with(recipe: Recipe, *flags: str) -> Recipe:
    units = [unit.model_copy(update={"flags": [*unit.flags, *flags]}) for unit in recipe.units]
    return recipe.model_copy(update={"units": units})
