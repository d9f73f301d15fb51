"""Compile units of some splits under the choices of a trained policy.

Example:
    python scripts/evaluate_cse.py --preset config/presets/gcc-pre.yaml --home data/cse \
        --policy data/cse/policies/bc-s0 --workers 2 --output data/cse/evaluation/bc-s0.parquet
"""

from pathlib import Path

from tqdm import tqdm

from mlgo.cli.arguments import choice_pool, corpus_and_baseline, cse_compiler_of, cse_parser, settings_of
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_RESULTS, provenance, write_rows
from mlgo.core.files import file_sha256
from mlgo.core.names import PolicyName
from mlgo.problems.subset.compiler import Failed
from mlgo.problems.subset.jobs import GreedyJob
from mlgo.problems.subset.policy import load_choice_policy
from mlgo.problems.subset.stored import choice_row, in_batches, judged_units


def main() -> None:
    parser = cse_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    args = parser.parse_args()
    settings, (_, baseline) = settings_of(args), corpus_and_baseline(args)
    _, spec = cse_compiler_of(args, settings)
    policy = load_choice_policy(args.policy)
    units = judged_units(baseline, *settings.value("evaluate.splits"))
    jobs = [GreedyJob(names, policy, policy.weights[None]) for names in in_batches(units)]
    name = PolicyName.of(args.policy.name)
    with (
        choice_pool(args, settings, spec) as pool,
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
        task=settings.value("task"),
        compiler=spec.described(),
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        baseline_sha256=file_sha256(baseline / "compiles.parquet"),
    )
    write_rows(args.output, rows, CSE_RESULTS, origin)


if __name__ == "__main__":
    run_program(main)
