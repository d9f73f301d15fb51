"""Clone the built-in heuristic from its trace.

Example:
    python scripts/train_bc.py --seed 0 --task inline-size --bc "$(cat bc.json)" --policy "$(cat policy.json)" \
        --corpus data/corpus --baseline data/baseline --work data/work --output data/policies/bc-s0
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.cli.arguments import stage_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import VOCABULARY, provenance, read_provenance, read_table
from mlgo.core.config import BCConfig, PolicyConfig, parse_section
from mlgo.core.files import content_hash, file_sha256
from mlgo.corpus.store import load_modules
from mlgo.learn.bc import CloneResult, clone
from mlgo.learn.bc.columns import clone_columns, column_data
from mlgo.learn.bc.dataset import check_trace, clone_data
from mlgo.learn.bc.priorities import clone_priorities, priority_data
from mlgo.learn.effort import recorded_effort
from mlgo.learn.history import TensorBoardLog, write_history
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.network import Architecture, flatten
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.policy import Policy
from mlgo.policy.priority_policy import PriorityPolicy
from mlgo.policy.stored import KINDS, save_policy
from mlgo.policy.vocabulary import normalisation
from mlgo.tasks import get_task

WAYS: dict[type[Policy], tuple[Callable[..., Any], Callable[..., CloneResult]]] = {
    NetworkPolicy: (clone_data, clone),
    ColumnPolicy: (column_data, clone_columns),
    PriorityPolicy: (priority_data, clone_priorities),
}
"""By kind of policy: what to imitate, from the trace, and how to fit it."""


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--bc", required=True, help="section bc of the configuration, as JSON")
    parser.add_argument("--policy", required=True, help="section policy of the configuration, as JSON")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for TensorBoard logs and timings")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    started = time.monotonic()

    config, shape = parse_section(BCConfig, args.bc), parse_section(PolicyConfig, args.policy)
    vocabulary = read_table(args.baseline / "vocabulary.parquet", VOCABULARY)
    trace = read_table(args.baseline / "trace.parquet")
    baseline_origin = read_provenance(args.baseline / "trace.parquet")
    scaling = normalisation(vocabulary, get_task(args.task).units)
    check_trace(trace, baseline_origin, args.task, scaling)
    kind = KINDS[args.task]
    select, imitate = WAYS[kind]
    train, validation = (
        select(
            trace,
            {module.project for module in load_modules(args.corpus, splits=[split])},
            scaling,
            config.max_steps_per_module,
            args.seed,
            config.weighting,
            config.balance,
        )
        for split in ("train", "validation")
    )
    run_key = content_hash([args.seed, config.model_dump(), shape.model_dump()])
    with recorded_effort(args.work, args.output.name, run_key, started=started):
        result = imitate(train, validation, shape.hidden, config, args.seed)
    history = [{**record, "evaluations": 0} for record in result.history]
    origin = provenance(
        algorithm="bc",
        seed=args.seed,
        bc=config.model_dump(),
        compiler=baseline_origin.get("compiler"),
        trace_sha256=file_sha256(args.baseline / "trace.parquet"),
        train_questions=len(train.answers),
        **({"train_inline_share": float(np.mean(train.answers))} if kind is NetworkPolicy else {}),
        validation_accuracy=max(record["validation_accuracy"] for record in result.history),
    )
    architecture = Architecture((kind.num_inputs(len(scaling.features)), *shape.hidden, 1))
    save_policy(kind(args.task, scaling, architecture, flatten(result.layers), origin), args.output)
    write_history(args.output / "history.csv", history)
    with TensorBoardLog(args.work / "tensorboard" / args.output.name) as board:
        for record in history:
            board.add(record, int(record["epoch"]))


if __name__ == "__main__":
    run_program(main)
