"""Export a policy in the forms that LLVM takes, and check each on recorded questions.

Example:
    python scripts/export_policy.py --policy data/policies/es-s0 --trace data/baseline/trace.parquet \
        --output data/export/es-s0
    python scripts/export_policy.py --policy data/released/marginal-s0 --trace data/baseline/trace.parquet \
        --output /tmp/released --forms cpp aot
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from mlgo.base.files import file_sha256, write_record
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.deploy.export import ALL_FORMS, FORMS
from mlgo.deploy.export.form import Form, check_form, draw_questions, read_questions
from mlgo.deploy.release import policy_hashes
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--trace", type=Path, required=True, help="recorded questions for the parity check")
    parser.add_argument(
        "--forms", choices=ALL_FORMS, nargs="+", default=list(FORMS), help=f"default: {', '.join(FORMS)}"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder: one for each form, and parity.json")
    args = parser.parse_args()

    policy, seed = load_policy(args.policy), settings_of(args).value("seed")
    identity = policy_hashes(args.policy)
    trace = read_questions(args.trace, policy)
    parity = {}
    for name in args.forms:
        form = ALL_FORMS[name]
        questions = draw_questions(trace, form.max_questions, seed)
        parity[name] = {"policy": identity, **_export(form, policy, questions, args.output / name)}
    write_record(args.output / "parity.json", parity)


def _export(form: Form, policy: Policy, questions: pa.Table, folder: Path) -> dict[str, Any]:
    form.write(policy, questions, folder)
    with tqdm(total=questions.num_rows, desc=form.name, unit="question", disable=None) as bar:
        found = check_form(form, folder, policy, questions, bar.update)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}
    return {**asdict(found), "files": hashes}


if __name__ == "__main__":
    run_program(main)
