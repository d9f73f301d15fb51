"""Improve a cloned policy by proximal policy optimisation. Goes on where an earlier run was stopped.

Example:
    python scripts/train_ppo.py --seed 0 --ppo "$(cat ppo.json)" --replay "$(cat replay.json)" \
        --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/ppo-s0
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import compiler_of, training_parser, workers_of
from mlgo.cli.program import run_program
from mlgo.compiler.session import CompileResult
from mlgo.core.config import PPOConfig, ReplayConfig, parse_section
from mlgo.core.files import file_sha256
from mlgo.core.measures import get_measure
from mlgo.core.seeding import generator, sample
from mlgo.core.work import shared_folder
from mlgo.corpus.store import unpack_bitcode
from mlgo.learn.answers import answers_of
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.effort import recorded_effort
from mlgo.learn.outcome import write_outcome
from mlgo.learn.ppo import PpoState, Sampled, SampledCompile, optimise
from mlgo.learn.ppo.checkpoint import load_state, save_state
from mlgo.learn.progress import TrainingProgress
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.episodes import Episode
from mlgo.rollout.functions import episode_reader
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.sampling import sample_episodes
from mlgo.rollout.scored import baselines
from mlgo.rollout.training import (
    load_start,
    needed_copies,
    open_trees,
    training_modules,
    training_origin,
    validation_rewards,
)


def main() -> None:
    parser = training_parser(__doc__, "ppo")
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    args = parser.parse_args()
    started = time.monotonic()
    name = args.output.name
    shared = shared_folder(args.work)

    config, (toolchain, settings) = parse_section(PPOConfig, args.ppo), compiler_of(args)
    start = load_start(args.start, args.baseline)
    train, validation = training_modules(args.corpus, args.baseline, "ppo", config, args.seed)
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], shared / "bitcode")
    answers = answers_of(start, "ppo")
    read = episode_reader(start, settings.objective, args.baseline)
    sampled = sampled_compiles(read, baselines(train, settings.objective), settings.objective)
    learner = {"algorithm": "ppo", "seed": args.seed, "ppo": config.model_dump()}
    hashes = {"start_sha256": file_sha256(args.start / "weights.npy")}
    origin = training_origin(learner, toolchain, settings, hashes, args.corpus, args.baseline)
    replay, copies = parse_section(ReplayConfig, args.replay), needed_copies(settings, args.baseline)
    trees = open_trees(shared / "replay", replay, toolchain, start.task, settings, copies)
    checkpoint = checkpoint_path(shared / "checkpoints", name, origin, Path(__file__))
    state, failures = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after, failures)

    done = state.iteration if state else 0
    with (
        CompileHost(toolchain, start.task, settings, args.workers, trees, copies, workers=workers_of(args)) as host,
        recorded_effort(args.work, name, checkpoint.stem, host.num_workers, host, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / name, config.iterations, done, "iteration") as progress,
        quarantine.explaining(),
    ):
        evaluator = CandidateEvaluator(host, start, bitcode, settings.objective, quarantine)

        def collect(weights: np.ndarray, iteration: int) -> list[SampledCompile | None]:
            fit = [one for one in train if one.module.key not in quarantine]
            return sample_episodes(
                host,
                start.with_weights(weights),
                sample(fit, config.modules, args.seed, "ppo", "modules", iteration),
                bitcode,
                sampled,
                quarantine,
                config.episodes,
                generator(args.seed, "ppo", "luck", iteration),
            )

        def after_iteration(state: PpoState) -> None:
            save_state(state, checkpoint, quarantine.state())
            record = {**state.history[-1], "compiles": host.num_compiled, "elapsed_s": progress.elapsed_s}
            shown = {"best": f"{state.best_reward:+.4f}", "evaluations": state.evaluations}
            progress.advance(state.iteration, record, **shown)

        state = optimise(
            start.weights,
            start.architecture,
            answers,
            collect,
            lambda weights: validation_rewards(evaluator, weights, validation),
            config,
            args.seed,
            state,
            after_iteration,
        )
    policy = replace(start.with_weights(state.best), origin={**origin, "validation_reward": state.best_reward})
    write_outcome(args.output, policy, state.history, quarantine.rows(), origin)


def sampled_compiles(
    read: Callable[[str, CompileResult], list[Episode]], baseline: Mapping[str, float], objective: str
) -> Callable[[str, CompileResult], SampledCompile]:
    """Add rewards to episodes.

    Args:
        read: gives a compile's episodes, see `episode_reader`.
        baseline: score of each module under the heuristic.
        objective: which score counts.
    """
    measure = get_measure(objective)

    def rewarded(module: str, result: CompileResult) -> SampledCompile:
        score, under_heuristic = result.score(objective), baseline[module]
        episodes = [
            Sampled(f"{module} {one.function}", one.inputs, one.answers, one.reward(under_heuristic, measure.offset))
            for one in read(module, result)
        ]
        reward = measure.reward(np.array(score), np.array(under_heuristic))
        return SampledCompile(float(reward), tuple(episodes))

    return rewarded


if __name__ == "__main__":
    run_program(main)
