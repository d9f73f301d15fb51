"""Export a policy as a SavedModel and as C++, and check both on recorded questions.

Example:
    python scripts/export_policy.py --policy data/policies/es-s0 --trace data/baseline/trace.parquet \
        --model data/export/es-s0/saved_model --cpp data/export/es-s0/cpp --parity data/export/es-s0/parity.json
"""

from pathlib import Path

import numpy as np

from mlgo.cli.arguments import settings_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.core.files import file_sha256, write_json
from mlgo.core.work import shared_folder
from mlgo.export.cpp import export_cpp, run_cpp
from mlgo.export.parity import compare_decisions
from mlgo.export.saved_model import export_saved_model, recorded_questions, run_saved_model, sampled_questions
from mlgo.policy.stored import load_policy
from mlgo.problems.llvm.task import get_task


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--trace", type=Path, required=True, help="recorded questions for the parity check")
    parser.add_argument("--model", type=Path, required=True, help="output folder of the SavedModel")
    parser.add_argument("--cpp", type=Path, required=True, help="output folder of header and implementation")
    parser.add_argument("--parity", type=Path, required=True, help="output file")
    args = parser.parse_args()

    policy = load_policy(args.policy)
    questions = sampled_questions(args.trace, policy, settings_of(args).value("seed"))
    export_saved_model(policy, questions, args.model)
    asked = recorded_questions(questions, policy)
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    task = get_task(policy.task)
    by_model = compare_decisions(policy.actions, logits, run_saved_model(args.model, task.decision, asked))
    export_cpp(policy, questions, args.cpp)
    decisions, _ = run_cpp(args.cpp, task, asked, shared_folder() / "zig-cache")
    by_cpp = compare_decisions(policy.actions, logits, decisions)
    parity = {**by_model.record(), "files": _hashes(args.model)}
    write_json(args.parity, {**parity, "cpp": {**by_cpp.record(), "files": _hashes(args.cpp)}})


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


if __name__ == "__main__":
    run_program(main)
