"""Improve a chooser of eliminations by evolution strategies. Goes on where an earlier run was stopped.

Example:
    python scripts/train_cse_es.py --task gcc-pre --cse "$(cat cse.json)" --es "$(cat es.json)" --seed 0 \
        --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline --start data/cse/policies/bc-s0 \
        --workers 2 --work data/work --output data/cse/policies/es-s0
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import provenance
from mlgo.core.config import ESConfig, parse_section
from mlgo.core.files import file_sha256
from mlgo.core.work import shared_folder
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.choice.outcome import write_choice_outcome
from mlgo.learn.effort import recorded_effort
from mlgo.learn.es import Coordinates, EsState, evolve
from mlgo.learn.es.checkpoint import load_state, save_state
from mlgo.learn.progress import TrainingProgress
from mlgo.problems.subset.judging import greedy_rewards, validation_rewards
from mlgo.problems.subset.policy import load_choice_policy
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.stored import judged_units, sampled


def main() -> None:
    parser = cse_parser(__doc__, "es")
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints, TensorBoard logs and timings")
    args = parser.parse_args()
    started, name = time.monotonic(), args.output.name
    (_, spec), es = cse_compiler_of(args), parse_section(ESConfig, args.es)
    start = load_choice_policy(args.start)
    train = judged_units(args.baseline, "train")
    validation = sampled(
        judged_units(args.baseline, "validation"), es.validation_modules, args.seed, "cse", "validation"
    )
    origin = provenance(
        algorithm="es",
        seed=args.seed,
        es=es.model_dump(),
        compiler=spec.described(),
        start_sha256=file_sha256(args.start / "weights.npy"),
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
    )
    checkpoint = checkpoint_path(shared_folder(args.work) / "checkpoints", f"cse-{name}", origin, Path(__file__))
    coordinates = Coordinates.last_layers(
        start.weights,
        start.architecture.layer_slices(),
        es.trainable_layers,
        es.perturbation_unit,
        es.perturbation_epsilon,
    )
    state, _ = load_state(checkpoint)
    done = state.generation if state else 0
    with (
        CsePool(spec, args.workers) as pool,
        recorded_effort(args.work, f"cse-{name}", checkpoint.stem, args.workers, pool, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / f"cse-{name}", es.generations, done, "generation") as progress,
    ):

        def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
            units = sampled(train, es.modules, args.seed, "cse", "es", generation)
            return greedy_rewards(pool, start, candidates, units)

        def validate(weights: np.ndarray) -> float:
            return float(validation_rewards(pool, start, weights[None], validation).mean())

        def after_generation(state: EsState, rewards: np.ndarray) -> None:
            save_state(state, checkpoint)
            record = {**state.history[-1], "compiles": pool.num_compiled, "evaluations_asked": pool.num_asked}
            progress.advance(state.generation, record, best=f"{state.best_reward:+.4f}", compiles=pool.num_compiled)

        state = evolve(coordinates, evaluate, validate, es, args.seed, state, after_generation, len(validation))
    best = start.with_weights(coordinates.weights(state.best))
    policy = replace(best, origin={**origin, "validation_reward": state.best_reward})
    write_choice_outcome(args.output, policy, state.history)


if __name__ == "__main__":
    run_program(main)
