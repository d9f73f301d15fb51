"""Export a policy as a SavedModel and check it on recorded questions.

Example:
    python scripts/export_policy.py --policy data/policies/es-s0 --trace data/baseline/trace.parquet \
        --model data/export/es-s0/saved_model --parity data/export/es-s0/parity.json
"""

from pathlib import Path

import numpy as np

from mlgo.actions.reading import check_features
from mlgo.cli.arguments import settings_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.files import file_sha256, write_json
from mlgo.core.seeding import sample
from mlgo.export.parity import compare_decisions
from mlgo.export.saved_model import asked_features, export_saved_model, recorded_questions, run_saved_model
from mlgo.policy.stored import load_policy
from mlgo.problems.llvm.task import get_task

PARITY_QUESTIONS = 1000


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--trace", type=Path, required=True, help="recorded questions for the parity check")
    parser.add_argument("--model", type=Path, required=True, help="output folder")
    parser.add_argument("--parity", type=Path, required=True, help="output file")
    args = parser.parse_args()

    policy, trace = load_policy(args.policy), read_table(args.trace)
    check_features(asked_features(policy), trace.column_names, "the trace")
    if not trace.num_rows:
        raise ArtifactError(f"{args.trace} holds no question; parity cannot be shown")
    questions = trace.take(sample(range(trace.num_rows), PARITY_QUESTIONS, settings_of(args).value("seed"), "parity"))
    export_saved_model(policy, questions, args.model)
    asked = recorded_questions(questions, policy)
    decisions = run_saved_model(args.model, get_task(policy.task).decision, asked)
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    parity = compare_decisions(policy.actions, logits, decisions)
    files = {
        path.relative_to(args.model).as_posix(): file_sha256(path)
        for path in sorted(args.model.rglob("*"))
        if path.is_file()
    }
    write_json(args.parity, {**parity.record(), "files": files})


if __name__ == "__main__":
    run_program(main)
