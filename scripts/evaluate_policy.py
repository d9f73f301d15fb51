"""Compile held-out modules under a policy and compare with the heuristic.

Example:
    python scripts/evaluate_policy.py --policy data/policies/es-s0 --evaluate "$(cat evaluate.json)" \
        --compile "$(cat compile.json)" --toolchain auto --target x86_64-linux-gnu --seed 0 --corpus data/corpus \
        --baseline data/baseline --workers 2 --work data/work --output data/evaluation/parts/es-s0.parquet
"""

from pathlib import Path

from mlgo.artifacts import RESULTS, TIMINGS, provenance, write_rows
from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.config import EvaluateConfig, parse_section
from mlgo.corpus.store import unpack_bitcode
from mlgo.files import file_sha256
from mlgo.policy.network_policy import load_policy
from mlgo.rollout import CompileHost
from mlgo.rollout.evaluation import evaluate_policy
from mlgo.rollout.scored import load_scored_modules
from mlgo.seeding import sample


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="folder named <algorithm>-s<seed>")
    parser.add_argument("--evaluate", required=True, help="section evaluate of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--seed", type=int, required=True, help="chooses the training modules")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config, (toolchain, settings) = parse_section(EvaluateConfig, args.evaluate), compiler_of(args)
    policy = load_policy(args.policy)
    by_split = {split: load_scored_modules(args.corpus, args.baseline, split) for split in config.splits}
    if "train" in by_split:
        by_split["train"] = sample(by_split["train"], config.max_train_modules, args.seed, "evaluate", "train")
    modules = [one for split in config.splits for one in by_split[split]]
    bitcode = unpack_bitcode(args.corpus, [one.module for one in modules], args.work / "bitcode")
    name, _, policy_seed = args.policy.name.rpartition("-s")
    with CompileHost(toolchain, policy.task, settings, args.workers) as host:
        rows, timings = evaluate_policy(host, policy, name, int(policy_seed), modules, bitcode, config.max_failed_share)
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=settings.model_dump(),
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        scores_sha256=file_sha256(args.baseline / "scores.parquet"),
    )
    write_rows(args.output, rows, RESULTS, origin)
    write_rows(args.work / "timings" / "evaluation" / f"{args.policy.name}.parquet", timings, TIMINGS, origin)


if __name__ == "__main__":
    run_program(main)
