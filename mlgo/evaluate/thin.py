"""A policy under ThinLTO. It gives advice in both compiles, since most inlining happens in the first."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mlgo.base.names import PolicyName
from mlgo.corpus.store import Program
from mlgo.corpus.thin_lto import back_end_module, fat_module, thin_link
from mlgo.errors import CompileError, CompilerExit
from mlgo.evaluate.evaluation import EvaluationRun, Shipped, compile_both
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.shipped import (
    Linking,
    measure_programs,
    not_compiled,
    not_measured,
    object_paths,
)
from mlgo.host.linker import LinkedFile
from mlgo.host.tasks.task import HEURISTIC
from mlgo.policy.stored import StoredPolicy, advisor_in


def evaluate_thin(run: EvaluationRun, policy: StoredPolicy, name: PolicyName) -> Shipped:
    """Build a project with ThinLTO under the heuristic and under a policy, and measure its programs.

    Returns:
        Results are those of the pre-link compiles, whose objects are those of ordinary ones.
    """
    (run.folder / "fat").mkdir(parents=True)
    fat = {}
    for number, module in enumerate(run.every_module):
        fat[module.key] = run.folder / "fat" / f"{number}.bc"
        fat[module.key].write_bytes(fat_module(run.bitcode[module.key]))
    results = compile_both(replace(run, bitcode=fat), policy, name)
    sizes = []
    for who, advisor in ((HEURISTIC, None), (str(name), policy)):
        for number, program in enumerate(run.programs):
            place = run.folder / f"{who}-{number}"
            place.mkdir()
            try:
                linked, back_ends = _thin_linked(program, run.bitcode, run.objects(who), run.linking, place)
            except CompileError as error:
                sizes += not_measured(who, program, error)
                continue
            made = object_paths(linked.modules, place)
            jobs = [
                CompileJob(
                    one.key,
                    back_ends[one.key],
                    advisor and advisor_in(advisor, one.language),
                    object_path=made[one.key],
                )
                for one in linked.modules
            ]
            run.host.compile_all(jobs, f"{program.row['program']} {who}")
            sizes += measure_programs(run.linking, who, [linked], made)
    return Shipped(results, sizes)


def _thin_linked(
    program: Program, bitcode: Mapping[str, Path], objects: Mapping[str, Path], linking: Linking, folder: Path
) -> tuple[Program, dict[str, Path]]:
    """The program of modules after their import, and the file of each by its key."""
    by_name = {module.name: module for module in program.modules}
    fat = {name: objects[module.key] for name, module in by_name.items()}
    if missing := not_compiled(fat):
        raise CompilerExit(missing)
    file = LinkedFile.of_row(program.row)
    modules, files = [], {}
    for number, (name, (imported, index)) in enumerate(
        thin_link(linking.linker, file, fat, folder, linking.timeout_s).items()
    ):
        module = by_name[name]
        path = folder / f"{number}.back-end.bc"
        data = back_end_module(imported.read_bytes(), index, bitcode[module.key])
        path.write_bytes(data)
        modules.append(replace(module, sha256=hashlib.sha256(data).hexdigest()))
        files[module.key] = path
    parts = [{"kind": "object", "modules": [module.name]} for module in modules]
    return Program({**program.row, "parts": parts}, program.split, tuple(modules)), files
