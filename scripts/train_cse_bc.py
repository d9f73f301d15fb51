"""Clone given choices of eliminations: the best known ones, or those of the built-in heuristic.

Example:
    python scripts/train_cse_bc.py --task gcc-pre --cse "$(cat cse.json)" --bc "$(cat bc.json)" \
        --policy "$(cat policy.json)" --seed 0 --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline \
        --labels data/cse/labels/labels.parquet --workers 2 --work data/work --output data/cse/policies/bc-s0
"""

import time
from pathlib import Path

from tqdm import tqdm

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import provenance
from mlgo.core.config import BCConfig, PolicyConfig, parse_section
from mlgo.core.files import content_hash, file_sha256
from mlgo.core.seeding import generator
from mlgo.learn.bc.columns import ColumnData, clone_columns
from mlgo.learn.choice.imitation import demonstrations
from mlgo.learn.choice.outcome import write_choice_outcome
from mlgo.learn.effort import recorded_effort
from mlgo.learn.history import TensorBoardLog
from mlgo.policy.network import flatten
from mlgo.problems.subset.jobs import FollowJob
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.problem import choice_problem
from mlgo.problems.subset.stored import JudgedUnit, in_batches, judged_units, observer_for, stored_labels


def main() -> None:
    parser = cse_parser(__doc__, "bc", "policy")
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for TensorBoard logs and timings")
    args = parser.parse_args()
    started, name = time.monotonic(), args.output.name
    (config, spec), bc = cse_compiler_of(args), parse_section(BCConfig, args.bc)
    shape = parse_section(PolicyConfig, args.policy)
    labels = stored_labels(args.labels)
    observer = observer_for(args.baseline, choice_problem(args.task).columns, config.max_candidates)
    policy = ChoicePolicy.fresh(args.task, observer, shape.hidden, generator(args.seed, "cse", "policy"))
    origin = provenance(
        algorithm="bc",
        seed=args.seed,
        bc=bc.model_dump(),
        imitate=config.imitate,
        orders=config.orders,
        compiler=spec.described(),
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
        labels_sha256=file_sha256(args.labels),
    )

    def examples(pool: CsePool, units: list[JudgedUnit]) -> ColumnData:
        wanted = labels  # without units whose search has failed
        if config.imitate == "heuristic":
            wanted = {unit.name: unit.heuristic_choice for unit in units}
        units = [unit for unit in units if unit.name in wanted]
        jobs = [
            FollowJob(names, policy, tuple(wanted[name] for name in names), config.orders, args.seed)
            for names in in_batches(units)
        ]
        with tqdm(total=len(units), desc="demonstrations", unit="unit", disable=None) as bar:
            return demonstrations(list(pool.map(jobs, bar.update).values()))

    with (
        CsePool(spec, args.workers) as pool,
        recorded_effort(args.work, f"cse-{name}", content_hash(origin), args.workers, pool, started=started),
    ):
        train, validation = (examples(pool, judged_units(args.baseline, split)) for split in ("train", "validation"))
        result = clone_columns(train, validation, shape.hidden, bc, args.seed)
    history = [{**record, "evaluations": 0} for record in result.history]
    fitted = ChoicePolicy(args.task, observer, policy.architecture, flatten(result.layers), origin)
    write_choice_outcome(args.output, fitted, history)
    with TensorBoardLog(args.work / "tensorboard" / f"cse-{name}") as board:
        for record in history:
            board.add(record, int(record["epoch"]))


if __name__ == "__main__":
    run_program(main)
