"""Improve a cloned policy by cloning the best known trajectory of each module. Goes on where a run was stopped.

Example:
    python scripts/train_bcmax.py --seed 0 --bcmax "$(cat bcmax.json)" --replay "$(cat replay.json)" \
        --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/bcmax-s0
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import compiler_of, training_parser, workers_of
from mlgo.cli.program import run_program
from mlgo.core.artifacts import read_provenance, read_table
from mlgo.core.config import BCMaxConfig, ReplayConfig, parse_section
from mlgo.core.errors import ConfigError
from mlgo.core.files import file_sha256
from mlgo.core.seeding import generator, sample
from mlgo.core.work import shared_folder
from mlgo.corpus.store import unpack_bitcode
from mlgo.learn.answers import answers_of
from mlgo.learn.bc import CloneData
from mlgo.learn.bc.dataset import check_trace
from mlgo.learn.bcmax import BCMaxState, imitate_best
from mlgo.learn.bcmax.best import keep_best
from mlgo.learn.bcmax.checkpoint import load_state, save_state
from mlgo.learn.bcmax.compiled import CompiledRollouts
from mlgo.learn.bcmax.dataset import heuristic_trajectories, trajectories
from mlgo.learn.bcmax.explorers import explorers, load_earlier
from mlgo.learn.bcmax.fit import Fit, fit
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.effort import recorded_effort
from mlgo.learn.outcome import write_outcome
from mlgo.learn.progress import TrainingProgress
from mlgo.policy.network import Architecture
from mlgo.rollout import CompileHost
from mlgo.rollout.functions import episode_reader
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.references import REFERENCES
from mlgo.rollout.remembered import best_of_each, episodes_hash
from mlgo.rollout.scored import baselines
from mlgo.rollout.training import load_start, needed_copies, open_trees, training_modules, training_origin


def main() -> None:
    parser = training_parser(__doc__, "bcmax")
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    args = parser.parse_args()
    started = time.monotonic()
    name, trace_path = args.output.name, args.baseline / "trace.parquet"
    shared = shared_folder(args.work)

    config, (toolchain, settings) = parse_section(BCMaxConfig, args.bcmax), compiler_of(args)
    start, objective = load_start(args.start, args.baseline), settings.objective
    answers, scaling = answers_of(start, "bcmax"), start.normalisation
    told = REFERENCES[start.task].is_heuristic
    earlier = load_earlier(config.policies, start.task)
    train, validation = training_modules(args.corpus, args.baseline, "bcmax", config, args.seed)
    train = sample(train, config.modules, args.seed, "bcmax", "train")
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], shared / "bitcode")
    learner = {"algorithm": "bcmax", "seed": args.seed, "bcmax": config.model_dump()}
    hashes = {
        "start_sha256": file_sha256(args.start / "weights.npy"),
        "policies_sha256": [file_sha256(Path(folder) / "weights.npy") for folder in config.policies],
        "trace_sha256": file_sha256(trace_path),
    }
    origin = training_origin(learner, toolchain, settings, hashes, args.corpus, args.baseline)
    replay, copies = parse_section(ReplayConfig, args.replay), needed_copies(settings, args.baseline)
    trees = open_trees(shared / "replay", replay, toolchain, start.task, settings, copies)
    if config.use_trees and trees is None:
        raise ConfigError("bcmax.use_trees needs replay.enabled")
    checkpoint = checkpoint_path(shared / "checkpoints", name, origin, Path(__file__))
    state, extra = load_state(checkpoint)
    failures, trees_sha256 = (extra["failures"], extra["trees_sha256"]) if extra else (None, None)
    quarantine = Quarantine(config.quarantine_after, failures)

    trace = read_table(trace_path)
    check_trace(trace, read_provenance(trace_path), start.task, scaling)
    known = heuristic_trajectories(trace, {one.module.key for one in train}, scaling) if told else None
    if config.use_trees and trees is not None and state is None:
        remembered = best_of_each(trees, [one.module for one in train], start, objective)
        trees_sha256 = episodes_hash(remembered)
        known = keep_best(known or {}, trajectories(remembered, "trees", baselines(train, objective)))
    architecture = Architecture((start.num_inputs(len(scaling.features)), *config.hidden, 1))
    if not told and architecture != start.architecture:
        raise ConfigError("bcmax.hidden must be like policy.hidden for tasks whose heuristic tells no decisions")
    blank = replace(start, architecture=architecture, weights=np.zeros(architecture.num_params, np.float32))

    def clone(data: CloneData, weights: np.ndarray | None, number: int) -> Fit:
        seed = int(generator(args.seed, "bcmax", "fit", number).integers(2**32))
        epochs = config.clone_epochs if weights is None else config.epochs
        return fit(data, answers, architecture, weights, epochs, config.batch_size, config.learning_rate, seed)

    done = state.number if state else 0
    with (
        CompileHost(toolchain, start.task, settings, args.workers, trees, copies, workers=workers_of(args)) as host,
        recorded_effort(args.work, name, checkpoint.stem, host.num_workers, host, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / name, config.rounds, done, "round") as progress,
        quarantine.explaining(),
    ):
        rollouts = CompiledRollouts(
            host=host,
            learner=blank,
            read=episode_reader(start, objective, args.baseline),
            train=train,
            validation=validation,
            bitcode=bitcode,
            objective=objective,
            quarantine=quarantine,
            explorers=lambda policy, number: explorers(policy, earlier, config, args.seed, number),
            num_episodes=state.history[-1]["evaluations"] if state else 0,
        )

        def after_round(state: BCMaxState) -> None:
            save_state(state, checkpoint, {"failures": quarantine.state(), "trees_sha256": trees_sha256})
            record = {**state.history[-1], "compiles": host.num_compiled, "elapsed_s": progress.elapsed_s}
            progress.advance(state.number, record, best=f"{state.best_reward:+.4f}", compiles=host.num_compiled)

        weights = start.weights if architecture == start.architecture else None
        state = imitate_best(weights, known, rollouts, clone, config, state, after_round)
    origin = {**origin, "trees_sha256": trees_sha256, "validation_reward": state.best_reward}
    policy = replace(blank, weights=state.best, origin=origin)
    write_outcome(args.output, policy, state.history, quarantine.rows(), origin)


if __name__ == "__main__":
    run_program(main)
