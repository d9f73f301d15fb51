"""Learn what each inlined call adds to the size, from the sizes of whole compiles. Goes on where a run was stopped.

Example:
    python scripts/train_marginal.py --seed 0 --marginal "$(cat marginal.json)" --bc "$(cat bc.json)" \
        --replay "$(cat replay.json)" --compile "$(cat compile.json)" --toolchain auto --target x86_64-linux-gnu \
        --task inline-size --corpus data/corpus --baseline data/baseline --workers 2 --work data/work \
        --output data/policies/marginal-s0
"""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from mlgo.cli.arguments import compiler_of, training_parser, workers_of
from mlgo.cli.program import run_program
from mlgo.core.artifacts import VOCABULARY, read_provenance, read_table
from mlgo.core.config import BCConfig, MarginalConfig, ReplayConfig, parse_section
from mlgo.core.files import file_sha256
from mlgo.core.seeding import sample
from mlgo.core.work import shared_folder
from mlgo.corpus.store import unpack_bitcode
from mlgo.learn.bc.dataset import check_trace, clone_data
from mlgo.learn.checkpoint import checkpoint_path
from mlgo.learn.effort import recorded_effort
from mlgo.learn.marginal import MarginalState, heuristic_evidence, learn_costs, linear_clone, sure_clones
from mlgo.learn.marginal.caution import cautious, cautious_shape
from mlgo.learn.marginal.checkpoint import load_state, save_state
from mlgo.learn.outcome import write_outcome
from mlgo.learn.progress import TrainingProgress
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.stored import check_answers_yes_or_no
from mlgo.policy.vocabulary import normalisation
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.episodes import Episode, compile_episodes, episode
from mlgo.rollout.exploration import exploring_jobs
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.references import REFERENCES
from mlgo.rollout.training import (
    needed_copies,
    open_trees,
    trace_of_languages,
    training_modules,
    training_origin,
    validation_rewards,
)
from mlgo.tasks import get_task


def main() -> None:
    parser = training_parser(__doc__, "bc", "marginal")
    parser.add_argument("--task", required=True)
    parser.add_argument("--languages", nargs="+", choices=("c", "c++"), help="learn from modules in these alone")
    args = parser.parse_args()
    check_answers_yes_or_no(args.task, "marginal")
    started = time.monotonic()
    name, trace_path = args.output.name, args.baseline / "trace.parquet"
    shared = shared_folder(args.work)

    config, cloning = parse_section(MarginalConfig, args.marginal), parse_section(BCConfig, args.bc)
    toolchain, settings = compiler_of(args)
    train, validation = training_modules(args.corpus, args.baseline, "marginal", config, args.seed, args.languages)
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], shared / "bitcode")
    trace, vocabulary = read_table(trace_path), read_table(args.baseline / "vocabulary.parquet", VOCABULARY)
    check_trace(trace, read_provenance(trace_path), args.task, normalisation(vocabulary, get_task(args.task).units))
    learner = {"algorithm": "marginal", "seed": args.seed, "bc": cloning.model_dump(), "marginal": config.model_dump()}
    if args.languages:
        trace, vocabulary = trace_of_languages(trace, vocabulary, args.corpus, args.languages)
        learner["languages"] = args.languages
    scaling = normalisation(vocabulary, get_task(args.task).units)
    hashes = {"start_sha256": file_sha256(trace_path)}
    origin = training_origin(learner, toolchain, settings, hashes, args.corpus, args.baseline)
    copies = needed_copies(settings, args.baseline)
    replay = parse_section(ReplayConfig, args.replay)
    trees = open_trees(shared / "replay", replay, toolchain, args.task, settings, copies)
    checkpoint = checkpoint_path(shared / "checkpoints", name, origin, Path(__file__))
    state = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after)

    import_tensorflow(args.workers)  # now: as many fits will run side by side, and the first import decides
    questions, unseen = (
        clone_data(trace, projects, scaling, cloning.max_steps_per_module, args.seed, weighting="module")
        for projects in ({one.module.project for one in part} for part in (train, validation))
    )
    shape = Architecture((len(scaling.features), *config.hidden, 1))
    joint_shape = cautious_shape(shape, config.members)
    start = sure_clones(questions, unseen, config, cloning, args.seed)
    heuristic = linear_clone(questions, unseen, cloning, args.seed)

    def joint(members: np.ndarray) -> NetworkPolicy:
        weights = cautious(list(members), shape, heuristic, config.caution)
        return NetworkPolicy(args.task, scaling, joint_shape, weights)

    done = state.round if state else 0
    with (
        CompileHost(toolchain, args.task, settings, args.workers, trees, copies, workers=workers_of(args)) as host,
        recorded_effort(args.work, name, checkpoint.stem, host.num_workers, host, state is not None, started),
        TrainingProgress(args.work / "tensorboard" / name, config.rounds, done, "round") as progress,
        quarantine.explaining(),
    ):
        evaluator = CandidateEvaluator(host, joint(start), bitcode, settings.objective)

        def explore(members: np.ndarray, round_: int) -> list[Episode | None]:
            fit = [one for one in train if one.module.key not in quarantine]
            jobs = exploring_jobs(
                joint(members),
                [NetworkPolicy(args.task, scaling, shape, member) for member in members],
                sample(fit, config.modules, args.seed, "marginal", "modules", round_),
                bitcode,
                (config.compiles, config.max_compiles),
                config.questions,
                config.flip_share if round_ else config.first_flip_share,
                config.min_flips,
                config.temperature if round_ else 0.0,
                args.seed,
                "marginal",
                round_,
            )
            label = f"{name} round {round_ + 1}"
            read = partial(episode, policy=joint(start), objective=settings.objective)
            return compile_episodes(host, jobs, read, label, quarantine.note)

        def after_round(state: MarginalState) -> None:
            save_state(state, checkpoint)
            record = {**state.history[-1], "compiles": host.num_compiled, "elapsed_s": progress.elapsed_s}
            progress.advance(state.round, record, best=f"{state.best_reward:+.4f}", compiles=host.num_compiled)

        state = learn_costs(
            start,
            shape,
            questions,
            heuristic_evidence(trace, train, scaling, settings.objective, REFERENCES[args.task].is_heuristic),
            explore,
            lambda members: float(validation_rewards(evaluator, joint(members).weights, validation).mean()),
            config,
            args.seed,
            state,
            after_round,
            len(validation),
            args.workers,
        )
    policy = replace(joint(state.members[state.best]), origin={**origin, "validation_reward": state.best_reward})
    write_outcome(args.output, policy, state.history, quarantine.rows(), origin)


if __name__ == "__main__":
    run_program(main)
