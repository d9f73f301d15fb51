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
from tqdm import tqdm

from mlgo.artifacts import FAILURES, write_rows
from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.config import PPOConfig, ReplayConfig, parse_section
from mlgo.corpus.store import unpack_bitcode
from mlgo.files import content_hash, file_sha256, source_hash
from mlgo.learn.history import TensorBoardLog, write_history
from mlgo.learn.ppo import PpoState, Sampled, optimise
from mlgo.learn.ppo.checkpoint import load_state, save_state
from mlgo.policy.network_policy import load_policy, save_policy
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.sampling import sample_episodes
from mlgo.rollout.training import open_memory, training_modules, training_origin, validation_rewards
from mlgo.seeding import generator, sample
from mlgo.tasks.reward import relative_reward


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replay", required=True, help="section replay of the configuration, as JSON")
    parser.add_argument("--ppo", required=True, help="section ppo of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config, (toolchain, settings) = parse_section(PPOConfig, args.ppo), compiler_of(args)
    start = load_policy(args.start)
    train, validation = training_modules(
        args.corpus,
        args.baseline,
        "ppo",
        args.seed,
        max_questions=config.max_questions,
        num_validation=config.validation_modules,
    )
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], args.work / "bitcode")
    baseline = {one.module.key: float(getattr(one, settings.objective)) for one in train}
    origin = training_origin(
        toolchain,
        settings,
        args.start / "weights.npy",
        args.corpus,
        args.baseline,
        algorithm="ppo",
        seed=args.seed,
        ppo=config.model_dump(),
    )
    replay = parse_section(ReplayConfig, args.replay)
    memory = open_memory(args.work / "replay", replay, toolchain, start.task, settings)
    run_key = content_hash([origin, source_hash(), file_sha256(Path(__file__))])
    checkpoint = args.work / "checkpoints" / f"{args.output.name}-{run_key}.npz"
    state, failures = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after, failures)

    with (
        CompileHost(toolchain, start.task, settings, args.workers, memory) as host,
        TensorBoardLog(args.work / "tensorboard" / args.output.name) as board,
        tqdm(
            total=config.iterations,
            initial=state.iteration if state else 0,
            desc=args.output.name,
            unit="iteration",
            disable=None,
        ) as progress,
    ):
        evaluator = CandidateEvaluator(host, start, bitcode, settings.objective, quarantine)
        clock = time.monotonic()

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
                one
                and Sampled(
                    one.module,
                    one.inputs,
                    one.answers,
                    float(relative_reward(np.float64(one.score), np.float64(baseline[one.module]))),
                )
                for one in episodes
            ]

        def after_iteration(state: PpoState) -> None:
            save_state(state, checkpoint, quarantine.state())
            effort = {"compiles": memory.num_compiled if memory else state.evaluations}
            board.add({**state.history[-1], **effort, "seconds": time.monotonic() - clock}, state.iteration)
            progress.update()
            progress.set_postfix(best=f"{state.best_reward:+.4f}", evaluations=state.evaluations)

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
    save_policy(policy, args.output)
    write_history(args.output / "history.csv", list(state.history))
    write_rows(args.output / "failures.parquet", quarantine.rows(), FAILURES, origin)


if __name__ == "__main__":
    run_program(main)
