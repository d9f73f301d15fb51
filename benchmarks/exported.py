"""What a decision costs: of a policy in a form that is built into compilers, and in a process that hosts compilers.

Example:
    python -m benchmarks.exported
    python -m benchmarks.exported --policy data/policies/marginal-s0 --form aot --json
"""

import time

import numpy as np

from benchmarks.arguments import add_policy_option, compiling_parser, print_record, run_benchmark
from mlgo.base.scratch import scratch_directory
from mlgo.deploy.export.cpp import Cpp
from mlgo.deploy.export.form import draw_questions, read_questions, recorded_questions
from mlgo.deploy.export.tensorflow_forms import AheadOfTime
from mlgo.policy.stored import load_policy

NUM_QUESTIONS = 1000
FORMS = {form.name: form for form in (Cpp(), AheadOfTime())}
"""What a compiler is linked with."""


def main() -> None:
    """Run the benchmark and print."""
    parser = compiling_parser("benchmarks.exported", __doc__)
    add_policy_option(parser, "folder of the policy")
    parser.add_argument("--form", choices=FORMS, default=Cpp.name, help="(default: %(default)s)")
    args = parser.parse_args()
    policy = load_policy(args.policy)
    questions = draw_questions(read_questions(args.data / "baseline" / "trace.parquet", policy), NUM_QUESTIONS, 0)
    asked, rounds, repeats = recorded_questions(questions, policy), 3 if args.quick else 9, 10 if args.quick else 100
    seen = policy.actions.encode(
        np, policy.actions.pack(np, asked, policy.normalisation.features), policy.normalisation
    )
    with scratch_directory() as folder:
        form, files = FORMS[args.form], folder / "files"
        form.write(policy, questions, files)
        with form.harness(files, policy) as harness:
            decision = [harness.ask(asked, repeats)[1] for _ in range(rounds)]
        sizes = {file.name: file.stat().st_size for file in sorted(files.iterdir())}
    model, by_numpy = policy.model, []
    for _ in range(rounds):
        start = time.process_time_ns()
        for row in seen:
            model.logits(row)
        by_numpy.append((time.process_time_ns() - start) / len(seen))
    record = {
        "questions": questions.num_rows,
        "weights": policy.weights.size,
        "weights_not_zero": int(np.count_nonzero(policy.weights)),
        "form": args.form,
        "bytes": sizes,
        "decision_ns": round(float(np.median(decision))),
        "decision_ns_min": round(min(decision)),
        "decision_ns_max": round(max(decision)),
        "numpy_ns": round(float(np.median(by_numpy))),
    }
    print_record(record, as_json=args.json)


if __name__ == "__main__":
    run_benchmark("benchmarks.exported")
