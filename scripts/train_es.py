"""Improve a cloned policy by evolution strategies on compile results. Goes on where an earlier run was stopped.

Example:
    python scripts/train_es.py --seed 0 --es "$(cat es.json)" --replay "$(cat replay.json)" \
        --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/es-s0
"""

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import compiler_of, training_parser, workers_of
from mlgo.cli.program import run_program
from mlgo.core.config import ESConfig, ReplayConfig, parse_section
from mlgo.core.files import file_sha256
from mlgo.core.seeding import sample
from mlgo.core.work import shared_folder
from mlgo.corpus.store import unpack_bitcode
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.effort import recorded_effort
from mlgo.learn.es import Coordinates, EsState, evolve
from mlgo.learn.es.checkpoint import load_state, save_state
from mlgo.learn.es.kept import KeptPolicies
from mlgo.learn.es.rewards import mean_over_common
from mlgo.learn.outcome import write_outcome
from mlgo.learn.progress import TrainingProgress
from mlgo.learn.saver import BackgroundSaver
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.scored import ScoredModule
from mlgo.rollout.training import (
    load_start,
    needed_copies,
    open_trees,
    training_modules,
    training_origin,
    validation_rewards,
)


def main() -> None:
    parser = training_parser(__doc__, "es")
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    args = parser.parse_args()
    started = time.monotonic()
    name = args.output.name
    shared = shared_folder(args.work)

    config, (toolchain, settings) = parse_section(ESConfig, args.es), compiler_of(args)
    start = load_start(args.start, args.baseline)
    train, validation = training_modules(args.corpus, args.baseline, "es", config, args.seed)
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], shared / "bitcode")
    learner = {"algorithm": "es", "seed": args.seed, "es": config.model_dump()}
    hashes = {"start_sha256": file_sha256(args.start / "weights.npy")}
    origin = training_origin(learner, toolchain, settings, hashes, args.corpus, args.baseline)
    replay, copies = parse_section(ReplayConfig, args.replay), needed_copies(settings, args.baseline)
    trees = open_trees(shared / "replay", replay, toolchain, start.task, settings, copies)
    checkpoint = checkpoint_path(shared / "checkpoints", name, origin, Path(__file__))
    coordinates = Coordinates.last_layers(
        start.weights,
        start.architecture.layer_slices(),
        config.trainable_layers,
        config.perturbation_unit,
        config.perturbation_epsilon,
    )
    state, failures = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after, failures)

    done = state.generation if state else 0
    with (
        BackgroundSaver() as saver,
        CompileHost(toolchain, start.task, settings, args.workers, trees, copies, workers=workers_of(args)) as host,
        recorded_effort(args.work, name, checkpoint.stem, host.num_workers, host, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / name, config.generations, done, "generation") as progress,
        quarantine.explaining(),
    ):
        evaluator = CandidateEvaluator(host, start, bitcode, settings.objective, quarantine)
        kept = KeptPolicies(saver, args.work / "policies" / name, config.save_every, start, coordinates, origin)

        @lru_cache(maxsize=1)
        def modules_of(generation: int) -> list[ScoredModule]:
            fit = [one for one in train if one.module.key not in quarantine]
            return sample(fit, config.modules, args.seed, "es", "modules", generation)

        def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
            modules = modules_of(generation)
            with saver.writing_allowed():  # most of this is waiting for compilers
                return evaluator.rewards(candidates, modules)

        def validate(weights: np.ndarray) -> float:
            with saver.writing_allowed():
                return float(validation_rewards(evaluator, weights, validation).mean())

        def after_generation(state: EsState, rewards: np.ndarray) -> None:
            saver.flush()
            save_state(state, checkpoint, quarantine.state())
            kept.keep(state)
            last, elapsed, compiles = state.history[-1], progress.elapsed_s, host.num_compiled
            hits = host.num_asked - compiles
            rate = {
                "compiles": compiles,
                "cache_hits": hits,
                "evaluations_per_second": host.num_asked / elapsed,
                "compiles_per_second": compiles / elapsed,
                "recalled_share": hits / max(1, host.num_asked),
            }
            progress.add_histogram("candidate_rewards", mean_over_common(rewards), state.generation)
            progress.add_histogram("module_rewards", rewards, state.generation)
            if last["skipped"]:
                usable = f"{last['successful_pairs']} of {config.pairs} directions are usable"
                share = f"es.min_success_share asks for {config.min_success_share:.0%}"
                progress.say(f"generation {state.generation} is skipped: {usable}, {share}")
            if last.get("chosen_weights") == 0:
                progress.say(f"generation {state.generation}: lasso found no slope at all; lower es.lasso_penalty")
            shown = {"best": f"{state.best_reward:+.4f}", "compiles": compiles, "recalled": rate["recalled_share"]}
            progress.advance(state.generation, {**last, **rate}, **shown)

        kept.begin(state)
        state = evolve(coordinates, evaluate, validate, config, args.seed, state, after_generation, len(validation))
    best = start.with_weights(coordinates.weights(state.best))
    policy = replace(best, origin={**origin, "validation_reward": state.best_reward})
    write_outcome(args.output, policy, state.history, quarantine.rows(), origin)


if __name__ == "__main__":
    run_program(main)
