"""Turn single answers of the heuristic round: what is each worth, and does a policy know?

Prints by language, and by the heuristic's answer, how many flips make the object smaller, by how much, and how well the
policy tells them from others: which it would make, what these change, and what share of all savings they find.
A ranking of 0.5 is that of a coin, 1 that of someone who knows.

Example:
    python scripts/measure_flips.py --policy data/policies/marginal-s0 --per-module 10 --workers 2 \
        --output data/flips.parquet
"""

import math
from pathlib import Path

from mlgo.base.artifacts import FLIPS, provenance, write_rows
from mlgo.base.files import file_sha256
from mlgo.base.work import shared_folder
from mlgo.cli.arguments import (
    add_folder_arguments,
    add_workers_arguments,
    compiler_of,
    corpus_and_baseline,
    settings_of,
    stage_parser,
    workers_of,
)
from mlgo.cli.options import positive
from mlgo.cli.program import run_program
from mlgo.compare.flips import tell_flips
from mlgo.corpus.store import unpack_bitcode
from mlgo.evaluate import CompileHost
from mlgo.evaluate.flips import measure_flips
from mlgo.evaluate.scored import load_scored_modules, with_questions
from mlgo.host.actions import Binary
from mlgo.host.tasks.sending import seen_by
from mlgo.host.tasks.task import get_task
from mlgo.policy.stored import load_policy, model_file
from mlgo.report.pages import Column, Table, count_column, text_column

TABLE = [
    text_column("calls", lambda row: row.scope),
    count_column("modules", lambda row: row.num_modules),
    count_column("flips", lambda row: row.num_flips),
    Column("save", lambda row, style: style.share(row.saving)),
    Column("bytes, mean", lambda row, style: f"{row.mean_saving:.0f}"),
    Column("others cost", lambda row, style: f"{row.mean_loss:.0f}"),
    Column("ranking by the policy", lambda row, style: style.rank(row.ranking)),
    Column("it would make", lambda row, style: style.share(row.chosen)),
    Column("these change", lambda row, style: "-" if row.mean_of_chosen is None else f"{row.mean_of_chosen:+.1f}"),
    Column("of these save", lambda row, style: style.share(row.right)),
    Column("savings found", lambda row, style: style.share(row.found)),
]


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="its outputs are held against the changes")
    parser.add_argument("--split", choices=("train", "validation"), default="validation", help="(default: %(default)s)")
    parser.add_argument("--per-module", type=positive, default=10, help="flips of each module (default: %(default)s)")
    parser.add_argument("--max-questions", type=positive, default=2000, help="of a module (default: %(default)s)")
    add_folder_arguments(parser)
    add_workers_arguments(parser)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values, (corpus, baseline) = settings_of(args), corpus_and_baseline(args)
    (toolchain, settings), seed, policy = compiler_of(values), values.value("seed"), load_policy(args.policy, Binary)
    task = get_task(policy.task)
    settings = seen_by(policy.features, task, settings)
    modules = with_questions(load_scored_modules(corpus, baseline, args.split), args.max_questions, args.split)
    bitcode = unpack_bitcode(corpus, [one.module for one in modules], shared_folder(args.work) / "bitcode")
    with CompileHost(toolchain, task.name, settings, args.workers, workers=workers_of(values)) as host:
        flips = measure_flips(host, task, policy, modules, bitcode, settings.objective, args.per_module, seed)
    rows = [
        {
            **{"project": one.module.module.project, "module": one.module.module.name},
            **{"language": one.module.module.language, "split": one.module.module.split},
            **{"question": one.question, "times": one.times, "inlined": one.inlined, "logit": one.logit},
            **{"change": None if math.isnan(one.change) else one.change, "score": one.before},
        }
        for one in flips
    ]
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=settings.model_dump(),
        policy_sha256=file_sha256(model_file(args.policy)),
        per_module=args.per_module,
        max_questions=args.max_questions,
        seed=seed,
    )
    write_rows(args.output, rows, FLIPS, origin)
    print(Table(TABLE, tell_flips(rows)).aligned())


if __name__ == "__main__":
    run_program(main)
