"""Compile held-out modules under a policy: scores of modules and functions, sizes of their projects once linked.

Example:
    python scripts/evaluate_policy.py --policy data/policies/es-s0 --evaluate "$(cat evaluate.json)" \
        --compile "$(cat compile.json)" --toolchain auto --target x86_64-linux-gnu --seed 0 --corpus data/corpus \
        --baseline data/baseline --workers 2 --work data/work --output data/evaluation/parts/es-s0.parquet \
        --linked data/evaluation/parts/es-s0.linked.parquet --functions data/evaluation/parts/es-s0.functions.parquet
"""

from pathlib import Path

from mlgo.cli.arguments import add_compiler_arguments, add_workers_arguments, compiler_of, stage_parser, workers_of
from mlgo.cli.program import run_program
from mlgo.compiler.toolchain import find_linker
from mlgo.core.artifacts import FUNCTIONS, LINKED, RESULTS, TIMINGS, provenance, write_rows
from mlgo.core.config import EvaluateConfig, parse_section
from mlgo.core.files import file_sha256
from mlgo.core.names import PolicyName
from mlgo.core.scratch import scratch_directory
from mlgo.core.work import shared_folder
from mlgo.corpus.store import unpack_bitcode
from mlgo.policy.stored import load_policy
from mlgo.rollout import CompileHost
from mlgo.rollout.evaluation import evaluate_policy, evaluated_modules
from mlgo.rollout.linking import Linking, measure_projects, object_paths
from mlgo.rollout.scored import load_copies


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="folder named <algorithm>-s<seed>")
    parser.add_argument("--evaluate", required=True, help="section evaluate of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--seed", type=int, required=True, help="chooses the training modules")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    add_workers_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of modules")
    parser.add_argument("--linked", type=Path, help="table of projects; nothing is linked without it")
    parser.add_argument("--functions", type=Path, help="table of functions; not written without it")
    args = parser.parse_args()

    config, (toolchain, settings) = parse_section(EvaluateConfig, args.evaluate), compiler_of(args)
    policy = load_policy(args.policy)
    scored = evaluated_modules(config, args.corpus, args.baseline, args.seed)
    modules = [one.module for one in scored]
    bitcode = unpack_bitcode(args.corpus, modules, shared_folder(args.work) / "bitcode")
    name = PolicyName.of(args.policy.name)
    linking = Linking(find_linker(), settings.compile_timeout_s, args.workers)
    with scratch_directory() as folder:
        objects = object_paths(modules, folder) if args.linked else None
        with CompileHost(
            toolchain, policy.task, settings, args.workers, copies=load_copies(args.baseline), workers=workers_of(args)
        ) as host:
            evaluation = evaluate_policy(host, policy, name, scored, bitcode, config.max_failed_share, objects)
        linked = measure_projects(linking, args.policy.name, modules, objects) if objects is not None else []
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=settings.model_dump(),
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        scores_sha256=file_sha256(args.baseline / "scores.parquet"),
    )
    write_rows(args.output, evaluation.results, RESULTS, origin)
    if args.linked:
        write_rows(args.linked, linked, LINKED, {**origin, "linker_sha256": file_sha256(linking.linker)})
    if args.functions:
        write_rows(args.functions, evaluation.functions, FUNCTIONS, origin)
    times = args.work / "timings" / "evaluation" / f"{args.policy.name}.parquet"
    write_rows(times, evaluation.timings, TIMINGS, origin)


if __name__ == "__main__":
    run_program(main)
