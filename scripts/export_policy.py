"""Export a policy as a SavedModel and check it on recorded questions.

Example:
    python scripts/export_policy.py --policy data/policies/es-s0 --trace data/baseline/trace.parquet --seed 0 \
        --model data/export/es-s0/saved_model --parity data/export/es-s0/parity.json
"""

from pathlib import Path

import numpy as np

from mlgo.artifacts import read_table
from mlgo.cli.arguments import stage_parser
from mlgo.cli.program import run_program
from mlgo.errors import ArtifactError
from mlgo.export.parity import compare_decisions
from mlgo.export.saved_model import export_saved_model, run_saved_model
from mlgo.files import file_sha256, write_json
from mlgo.policy.features import check_features
from mlgo.policy.network_policy import load_policy
from mlgo.seeding import sample
from mlgo.tasks import get_task

PARITY_QUESTIONS = 1000


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--trace", type=Path, required=True, help="recorded questions for the parity check")
    parser.add_argument("--seed", type=int, required=True, help="chooses the questions")
    parser.add_argument("--model", type=Path, required=True, help="output folder")
    parser.add_argument("--parity", type=Path, required=True, help="output file")
    args = parser.parse_args()

    policy = load_policy(args.policy)
    features, decision = policy.normalisation.features, get_task(policy.task).decision
    trace = read_table(args.trace)
    check_features(features, trace.column_names, "the trace")
    if not trace.num_rows:
        raise ArtifactError(f"{args.trace} holds no question; parity cannot be shown")
    rows = sample(range(trace.num_rows), PARITY_QUESTIONS, args.seed, "parity")
    questions = trace.select(list(features)).take(rows)
    observations = np.column_stack([questions[name].to_numpy() for name in features])

    export_saved_model(policy, decision, args.model)
    decisions = run_saved_model(args.model, features, decision, observations)
    parity = compare_decisions(policy.decide(observations), decisions)
    files = {
        path.relative_to(args.model).as_posix(): file_sha256(path)
        for path in sorted(args.model.rglob("*"))
        if path.is_file()
    }
    write_json(args.parity, {**parity.record(), "files": files})


if __name__ == "__main__":
    run_program(main)
