"""Compile units of some splits under the choices of a trained policy.

Example:
    python scripts/evaluate_cse.py --preset jit.yaml --home data/cse \
        --policy data/cse/policies/bc-s0 --workers 2 --output data/cse/evaluation/bc-s0.parquet
"""

from functools import partial
from pathlib import Path

from mlgo.base.artifacts import CSE_RESULTS, provenance, write_rows
from mlgo.base.files import file_sha256
from mlgo.base.names import PolicyName
from mlgo.cli.program import corpus_and_baseline, run_program, settings_of, stage_parser, workers_of
from mlgo.jit.baseline import eligible_units, names_of
from mlgo.jit.cache import choice_row
from mlgo.jit.policy import greedy, load_choice_policy
from mlgo.jit.pool import LOST, ChoicePool


def main() -> None:
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("--policy", type=Path, required=True, help="folder named <algorithm>-s<seed>")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values, (_, baseline) = settings_of(args), corpus_and_baseline(args)
    policy, name = load_choice_policy(args.policy), PolicyName.of(args.policy.name)
    units = eligible_units(baseline, *values.value("evaluate.splits"))
    work = partial(greedy, policy=policy, weights=policy.weights[None])
    with ChoicePool.of(values, args.workers, workers_of(values), args.work) as pool:
        found = pool.map(work, names_of(units), str(name))
    rows = [
        {"unit": unit.name, "split": unit.split, "policy": name.learner, "seed": name.seed}
        | choice_row(found.get(unit.name, [LOST])[0])
        for unit in units
    ]
    origin = provenance(
        task=values.value("task"),
        compiler=pool.spec.described,
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        baseline_sha256=file_sha256(baseline / "compiles.parquet"),
    )
    write_rows(args.output, rows, CSE_RESULTS, origin)


if __name__ == "__main__":
    run_program(main)
