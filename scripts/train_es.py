"""Improve a cloned policy by evolution strategies on compile results. Goes on where an earlier run was stopped.

Example:
    python scripts/train_es.py --seed 0 --es "$(cat es.json)" --replay "$(cat replay.json)" \
        --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/es-s0
"""

import argparse
import shutil
import sys
import time
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mlgo.artifacts import FAILURES, provenance, write_rows
from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import CompileConfig, ESConfig, ReplayConfig, parse_section
from mlgo.corpus.store import unpack_bitcode
from mlgo.files import content_hash, file_sha256, source_hash
from mlgo.learn.es import Coordinates, EsState, evolve
from mlgo.learn.es.checkpoint import load_state, save_state
from mlgo.learn.es.rewards import mean_over_common
from mlgo.learn.history import TensorBoardLog, write_history
from mlgo.learn.saver import BackgroundSaver
from mlgo.policy.network_policy import load_policy, save_policy
from mlgo.replay import ReplayStore, prune
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.memory import TreeMemory, tree_key
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.scored import ScoredModule, load_scored_modules, with_questions
from mlgo.seeding import sample
from mlgo.tasks import get_task

FAILED_REWARD = -1.0
"""What a module that fails to compile counts in a validation: as if it had doubled in size."""


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replay", required=True, help="section replay of the configuration, as JSON")
    parser.add_argument("--es", required=True, help="section es of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config, (toolchain, settings) = parse_section(ESConfig, args.es), compiler_of(args)
    start = load_policy(args.start)
    train, validation = (
        with_questions(load_scored_modules(args.corpus, args.baseline, split), config.max_questions, split)
        for split in ("train", "validation")
    )
    validation = sample(validation, config.validation_modules, args.seed, "es", "validation")
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], args.work / "bitcode")
    origin = provenance(
        algorithm="es",
        seed=args.seed,
        es=config.model_dump(),
        compile=settings.model_dump(),
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        start_sha256=file_sha256(args.start / "weights.npy"),
        scores_sha256=file_sha256(args.baseline / "scores.parquet"),
        corpus_sha256=file_sha256(args.corpus / "modules.parquet"),
    )
    memory = open_memory(args, toolchain, start.task, settings)
    run_key = content_hash([origin, source_hash(), file_sha256(Path(__file__))])
    checkpoint = args.work / "checkpoints" / f"{args.output.name}-{run_key}.npz"
    coordinates = Coordinates.last_layers(
        start.weights,
        start.architecture.layer_slices(),
        config.trainable_layers,
        config.perturbation_unit,
        config.perturbation_epsilon,
    )
    state, failures = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after, failures)
    folder = args.work / "policies" / args.output.name
    if config.save_every and state is None and folder.exists():
        shutil.rmtree(folder)  # another run's

    with (
        BackgroundSaver() as saver,
        CompileHost(toolchain, start.task, settings, args.workers, memory) as host,
        TensorBoardLog(args.work / "tensorboard" / args.output.name) as board,
        tqdm(
            total=config.generations,
            initial=state.generation if state else 0,
            desc=args.output.name,
            unit="generation",
            disable=None,
        ) as progress,
    ):
        evaluator = CandidateEvaluator(host, start, bitcode, settings.objective, quarantine)
        clock = time.monotonic()

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
                rewards = evaluator.rewards(weights[None], validation)
            return float(np.nan_to_num(rewards, nan=FAILED_REWARD).mean())

        def keep_policy(state: EsState) -> None:
            generation, last = state.generation, {**origin, **state.history[-1]}
            policy = replace(start.with_weights(coordinates.weights(state.mean)), origin=last)
            if config.save_every and generation % config.save_every == 0:
                saver.save(folder / f"iteration{generation}", partial(save_policy, policy))
            if config.save_every and state.beats_all_before:
                name = f"best_policy_{state.best_reward:.5f}_step_{generation}"
                saver.save(folder / name, partial(save_policy, policy))

        def after_generation(state: EsState, rewards: np.ndarray) -> None:
            saver.flush()
            save_state(state, checkpoint, quarantine.state())
            keep_policy(state)
            last, elapsed = state.history[-1], time.monotonic() - clock
            compiles = memory.num_compiled if memory else evaluator.num_evaluations
            hits = memory.num_recalled if memory else 0
            rate = {
                "evaluations": evaluator.num_evaluations,
                "compiles": compiles,
                "cache_hits": hits,
                "evaluations_per_second": evaluator.num_evaluations / elapsed,
                "compiles_per_second": compiles / elapsed,
                "recalled_share": hits / evaluator.num_evaluations,
            }
            board.add_histogram("candidate_rewards", mean_over_common(rewards), state.generation)
            board.add_histogram("module_rewards", rewards, state.generation)
            board.add({**last, **rate}, state.generation)
            if last["skipped"]:
                usable = f"{last['successful_pairs']} of {config.pairs} directions are usable"
                share = f"es.min_success_share asks for {config.min_success_share:.0%}"
                progress.write(f"generation {state.generation} is skipped: {usable}, {share}", sys.stderr)
            progress.update()
            progress.set_postfix(best=f"{state.best_reward:+.4f}", compiles=compiles, recalled=rate["recalled_share"])

        if state is not None:
            keep_policy(state)  # a kill may have come between its checkpoint and its policy
        state = evolve(coordinates, evaluate, validate, config, args.seed, state, after_generation)
    policy = start.with_weights(coordinates.weights(state.best))
    save_policy(replace(policy, origin={**origin, "validation_reward": state.best_reward}), args.output)
    write_history(args.output / "history.csv", list(state.history))
    write_rows(args.output / "failures.parquet", quarantine.rows(), FAILURES, origin)


def open_memory(
    args: argparse.Namespace, toolchain: Toolchain, task: str, settings: CompileConfig
) -> TreeMemory | None:
    config = parse_section(ReplayConfig, args.replay)
    if not config.enabled:
        return None
    folder = args.work / "replay"
    prune(folder, int(config.max_disk_gb * 1e9))
    return TreeMemory(ReplayStore(folder, tree_key(toolchain, get_task(task), settings)))


if __name__ == "__main__":
    run_program(main)
