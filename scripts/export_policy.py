"""Export a policy as a SavedModel and check it on recorded questions.

Example:
    python scripts/export_policy.py --policy data/policies/es-s0 --trace data/baseline/trace.parquet \
        --model data/export/es-s0/saved_model --parity data/export/es-s0/parity.json
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.cli.arguments import settings_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.files import file_sha256, write_json
from mlgo.core.seeding import sample
from mlgo.export.column_model import compare_columns, export_column_model, recorded_questions, run_column_model
from mlgo.export.parity import Parity, compare_decisions
from mlgo.export.priority_model import compare_priorities, export_priority_model, recorded_ranges, run_priority_model
from mlgo.export.saved_model import export_saved_model, run_saved_model
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.features import check_features
from mlgo.policy.policy import Policy
from mlgo.policy.priority_policy import PriorityPolicy
from mlgo.policy.stored import as_network_policy, load_policy
from mlgo.tasks import get_task

PARITY_QUESTIONS = 1000


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--trace", type=Path, required=True, help="recorded questions for the parity check")
    parser.add_argument("--model", type=Path, required=True, help="output folder")
    parser.add_argument("--parity", type=Path, required=True, help="output file")
    args = parser.parse_args()

    policy, trace = load_policy(args.policy), read_table(args.trace)
    check_features(policy.normalisation.features, trace.column_names, "the trace")
    if not trace.num_rows:
        raise ArtifactError(f"{args.trace} holds no question; parity cannot be shown")
    questions = trace.take(sample(range(trace.num_rows), PARITY_QUESTIONS, settings_of(args).value("seed"), "parity"))
    parity = _export(policy, questions, args.model)
    files = {
        path.relative_to(args.model).as_posix(): file_sha256(path)
        for path in sorted(args.model.rglob("*"))
        if path.is_file()
    }
    write_json(args.parity, {**parity.record(), "files": files})


def _export(policy: Policy, questions: pa.Table, model: Path) -> Parity:
    decision = get_task(policy.task).decision
    if isinstance(policy, ColumnPolicy):
        export_column_model(policy, decision, questions, model)
        asked = recorded_questions(questions, policy)
        return compare_columns(policy, asked, run_column_model(model, decision, asked))
    if isinstance(policy, PriorityPolicy):
        export_priority_model(policy, decision, questions, model)
        ranges = recorded_ranges(questions, policy)
        return compare_priorities(policy, ranges, run_priority_model(model, decision, ranges))
    network, features = as_network_policy(policy), policy.normalisation.features
    observations = np.column_stack([questions[name].to_numpy() for name in features])
    export_saved_model(network, decision, model)
    return compare_decisions(network.decide(observations), run_saved_model(model, features, decision, observations))


if __name__ == "__main__":
    run_program(main)
