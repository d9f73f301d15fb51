"""Fit what eliminating a candidate saves; a candidate that saves enough is chosen.

Example:
    python scripts/train_cse_marginal.py --task gcc-pre --cse "$(cat cse.json)" --bc "$(cat bc.json)" \
        --policy "$(cat policy.json)" --seed 0 --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline \
        --effects data/cse/labels/effects.parquet --workers 2 --work data/work --output data/cse/policies/marginal-s0
"""

import time
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_EFFECTS, provenance, read_table
from mlgo.core.config import BCConfig, PolicyConfig, parse_section
from mlgo.core.files import content_hash, file_sha256
from mlgo.core.seeding import generator
from mlgo.learn.choice.outcome import write_choice_outcome
from mlgo.learn.choice.savings import Savings, fit_savings, savings
from mlgo.learn.effort import recorded_effort
from mlgo.learn.history import TensorBoardLog
from mlgo.problems.subset.compiler import Compiled
from mlgo.problems.subset.jobs import BaselineJob
from mlgo.problems.subset.judging import validation_rewards
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.problem import choice_problem
from mlgo.problems.subset.stored import in_batches, judged_units, observer_for


def main() -> None:
    parser = cse_parser(__doc__, "bc", "policy")
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--effects", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for TensorBoard logs and timings")
    args = parser.parse_args()
    started, name = time.monotonic(), args.output.name
    (config, spec), bc = cse_compiler_of(args), parse_section(BCConfig, args.bc)
    shape = parse_section(PolicyConfig, args.policy)
    observer = observer_for(args.baseline, choice_problem(args.task).columns, config.max_candidates)
    fresh = ChoicePolicy.fresh(args.task, observer, shape.hidden, generator(args.seed, "cse", "policy"))
    changes: dict[str, dict[int, float]] = {}
    for row in read_table(args.effects, CSE_EFFECTS).to_pylist():
        if row["mean_change"] is not None:
            changes.setdefault(row["unit"], {})[row["position"]] = row["mean_change"]
    origin = provenance(
        algorithm="marginal",
        seed=args.seed,
        bc=bc.model_dump(),
        margins=config.margins,
        max_effect=config.max_effect,
        compiler=spec.described(),
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
        effects_sha256=file_sha256(args.effects),
    )
    validation_units = judged_units(args.baseline, "validation")
    with (
        CsePool(spec, args.workers) as pool,
        recorded_effort(args.work, f"cse-{name}", content_hash(origin), args.workers, pool, started=started),
    ):

        def seen(split: str) -> Savings:
            units = judged_units(args.baseline, split)
            found = pool.map([BaselineJob(names) for names in in_batches(units)])
            compiled = [(unit, found[unit.name][0]) for unit in units if unit.name in found]
            pairs = [(unit, none) for unit, none in compiled if isinstance(none, Compiled)]
            return savings(observer, pairs, changes, config.max_effect)

        train, validation = seen("train"), seen("validation")
        fitted = [fit_savings(train, validation, margin, shape.hidden, bc, args.seed) for margin in config.margins]
        weights = np.stack([one for one, _ in fitted])
        rewards = validation_rewards(pool, fresh, weights, validation_units).mean(axis=1)
    best = int(rewards.argmax())
    history = [{**record, "evaluations": 0} for record in fitted[best][1]]
    history[-1] |= {"validation_reward": float(rewards[best]), "margin": config.margins[best]}
    chosen = {"margin": config.margins[best], "validation_reward": float(rewards[best])}
    policy = ChoicePolicy(args.task, observer, fresh.architecture, weights[best], {**origin, **chosen})
    write_choice_outcome(args.output, policy, history)
    with TensorBoardLog(args.work / "tensorboard" / f"cse-{name}") as board:
        for record in history:
            board.add(record, int(record["epoch"]))


if __name__ == "__main__":
    run_program(main)
