"""Compile units of some splits under the choices of a trained policy.

Example:
    python scripts/evaluate_cse.py --task gcc-pre --cse "$(cat cse.json)" --seed 0 --splits train validation test \
        --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline --policy data/cse/policies/bc-s0 \
        --workers 2 --output data/cse/evaluation/bc-s0.parquet
"""

from pathlib import Path

from tqdm import tqdm

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_RESULTS, provenance, write_rows
from mlgo.core.files import file_sha256
from mlgo.core.names import PolicyName
from mlgo.problems.subset.compiler import Failed
from mlgo.problems.subset.jobs import GreedyJob
from mlgo.problems.subset.policy import load_choice_policy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.stored import choice_row, in_batches, judged_units


def main() -> None:
    parser = cse_parser(__doc__)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--splits", nargs="+", default=["test"])
    args = parser.parse_args()
    _, spec = cse_compiler_of(args)
    policy = load_choice_policy(args.policy)
    units = judged_units(args.baseline, *args.splits)
    jobs = [GreedyJob(names, policy, policy.weights[None]) for names in in_batches(units)]
    name = PolicyName.of(args.policy.name)
    with (
        CsePool(spec, args.workers) as pool,
        tqdm(total=len(units), desc=str(name), unit="unit", disable=None) as bar,
    ):
        found = pool.map(jobs, bar.update)
    lost = Failed("worker", "the worker died")
    rows = [
        {"unit": unit.name, "split": unit.split, "policy": name.learner, "seed": name.seed}
        | choice_row(found.get(unit.name, [lost])[0])
        for unit in units
    ]
    origin = provenance(
        task=args.task,
        compiler=spec.described(),
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
    )
    write_rows(args.output, rows, CSE_RESULTS, origin)


if __name__ == "__main__":
    run_program(main)
