"""Improve a cloned policy by proximal policy optimisation. Goes on where an earlier run was stopped.

Example:
    python scripts/train_ppo.py --seed 0 --ppo "$(cat ppo.json)" --replay "$(cat replay.json)" \
        --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/ppo-s0
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import compiler_of, training_parser
from mlgo.cli.program import run_program
from mlgo.config import PPOConfig, ReplayConfig, parse_section
from mlgo.corpus.store import unpack_bitcode
from mlgo.files import file_sha256
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.effort import recorded_effort
from mlgo.learn.outcome import write_outcome
from mlgo.learn.ppo import PpoState, Sampled, optimise
from mlgo.learn.ppo.checkpoint import load_state, save_state
from mlgo.learn.progress import TrainingProgress
from mlgo.policy.stored import as_network_policy
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.sampling import sample_episodes
from mlgo.rollout.scored import baselines
from mlgo.rollout.training import (
    load_start,
    needed_copies,
    open_memory,
    training_modules,
    training_origin,
    validation_rewards,
)
from mlgo.seeding import generator, sample


def main() -> None:
    parser = training_parser(__doc__, "ppo")
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    args = parser.parse_args()
    started = time.monotonic()
    name = args.output.name

    config, (toolchain, settings) = parse_section(PPOConfig, args.ppo), compiler_of(args)
    start = as_network_policy(load_start(args.start, args.baseline))
    train, validation = training_modules(args.corpus, args.baseline, "ppo", config, args.seed)
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], args.work / "bitcode")
    baseline = baselines(train, settings.objective)
    learner = {"algorithm": "ppo", "seed": args.seed, "ppo": config.model_dump()}
    hashes = {"start_sha256": file_sha256(args.start / "weights.npy")}
    origin = training_origin(learner, toolchain, settings, hashes, args.corpus, args.baseline)
    replay, copies = parse_section(ReplayConfig, args.replay), needed_copies(settings, args.baseline)
    memory = open_memory(args.work / "replay", replay, toolchain, start.task, settings, copies)
    checkpoint = checkpoint_path(args.work / "checkpoints", name, origin, Path(__file__))
    state, failures = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after, failures)

    done = state.iteration if state else 0
    with (
        CompileHost(toolchain, start.task, settings, args.workers, memory, copies) as host,
        recorded_effort(args.work, name, checkpoint.stem, args.workers, host, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / name, config.iterations, done, "iteration") as progress,
        quarantine.explaining(),
    ):
        evaluator = CandidateEvaluator(host, start, bitcode, settings.objective, quarantine)

        def collect(weights: np.ndarray, iteration: int) -> list[Sampled | None]:
            fit = [one for one in train if one.module.key not in quarantine]
            episodes = sample_episodes(
                host,
                start.with_weights(weights),
                sample(fit, config.modules, args.seed, "ppo", "modules", iteration),
                bitcode,
                settings.objective,
                quarantine,
                config.episodes,
                generator(args.seed, "ppo", "luck", iteration),
            )
            return [
                one and Sampled(one.module, one.inputs, one.answers, one.reward(baseline[one.module]))
                for one in episodes
            ]

        def after_iteration(state: PpoState) -> None:
            save_state(state, checkpoint, quarantine.state())
            record = {**state.history[-1], "compiles": host.num_compiled, "elapsed_s": progress.elapsed_s}
            shown = {"best": f"{state.best_reward:+.4f}", "evaluations": state.evaluations}
            progress.advance(state.iteration, record, **shown)

        state = optimise(
            start.weights,
            start.architecture,
            collect,
            lambda weights: validation_rewards(evaluator, weights, validation),
            config,
            args.seed,
            state,
            after_iteration,
        )
    policy = replace(start.with_weights(state.best), origin={**origin, "validation_reward": state.best_reward})
    write_outcome(args.output, policy, state.history, quarantine.rows(), origin)


if __name__ == "__main__":
    run_program(main)
