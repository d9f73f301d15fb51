"""Improve a chooser of eliminations by proximal policy optimisation. Goes on where an earlier run was stopped.

Example:
    python scripts/train_cse_ppo.py --task gcc-pre --cse "$(cat cse.json)" --ppo "$(cat ppo.json)" --seed 0 \
        --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline --start data/cse/policies/bc-s0 \
        --workers 2 --work data/work --output data/cse/policies/ppo-s0
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import provenance
from mlgo.core.config import PPOConfig, parse_section
from mlgo.core.files import file_sha256
from mlgo.core.work import shared_folder
from mlgo.learn.answers import LegalColumn
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.choice.outcome import write_choice_outcome
from mlgo.learn.choice.sampled import results, sampled_compiles
from mlgo.learn.effort import recorded_effort
from mlgo.learn.ppo import PpoState, SampledCompile, optimise
from mlgo.learn.ppo.checkpoint import load_state, save_state
from mlgo.learn.progress import TrainingProgress
from mlgo.problems.subset.jobs import SampleJob
from mlgo.problems.subset.judging import validation_rewards
from mlgo.problems.subset.policy import load_choice_policy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.stored import in_batches, judged_units, sampled


def main() -> None:
    parser = cse_parser(__doc__, "ppo")
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints, TensorBoard logs and timings")
    args = parser.parse_args()
    started, name = time.monotonic(), args.output.name
    (_, spec), ppo = cse_compiler_of(args), parse_section(PPOConfig, args.ppo)
    start = load_choice_policy(args.start)
    train = judged_units(args.baseline, "train")
    validation = sampled(
        judged_units(args.baseline, "validation"), ppo.validation_modules, args.seed, "cse", "validation"
    )
    origin = provenance(
        algorithm="ppo",
        seed=args.seed,
        ppo=ppo.model_dump(),
        compiler=spec.described(),
        start_sha256=file_sha256(args.start / "weights.npy"),
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
    )
    checkpoint = checkpoint_path(shared_folder(args.work) / "checkpoints", f"cse-{name}", origin, Path(__file__))
    state, _ = load_state(checkpoint)
    done = state.iteration if state else 0
    watched: dict[str, Any] = {}
    with (
        CsePool(spec, args.workers) as pool,
        recorded_effort(args.work, f"cse-{name}", checkpoint.stem, args.workers, pool, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / f"cse-{name}", ppo.iterations, done, "iteration") as progress,
    ):

        def collect(weights: np.ndarray, iteration: int) -> list[SampledCompile | None]:
            units = sampled(train, ppo.modules, args.seed, "cse", "ppo", iteration)
            policy, names = start.with_weights(weights), ("cse", "ppo", "luck", iteration)
            jobs = [SampleJob(batch, policy, ppo.episodes, args.seed, names) for batch in in_batches(units)]
            found = pool.map(jobs)
            episodes = [found.get(unit.name, []) for unit in units]
            watched.clear()
            watched.update(results(units, episodes))
            return [one for unit, each in zip(units, episodes, strict=True) for one in sampled_compiles(unit, each)]

        def validate(weights: np.ndarray) -> np.ndarray:
            return validation_rewards(pool, start, weights[None], validation)[0]

        def after_iteration(state: PpoState) -> None:
            save_state(state, checkpoint)
            record = {**state.history[-1], **watched, "compiles": pool.num_compiled}
            progress.advance(state.iteration, record, best=f"{state.best_reward:+.4f}", compiles=pool.num_compiled)

        state = optimise(
            start.weights,
            start.architecture,
            LegalColumn(),
            collect,
            validate,
            ppo,
            args.seed,
            state,
            after_iteration,
        )
    policy = replace(start.with_weights(state.best), origin={**origin, "validation_reward": state.best_reward})
    write_choice_outcome(args.output, policy, state.history)


if __name__ == "__main__":
    run_program(main)
