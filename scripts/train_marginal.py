"""Learn what each inlined call adds to the size, from the sizes of whole compiles. Goes on where a run was stopped.

Example:
    python scripts/train_marginal.py --seed 0 --marginal "$(cat marginal.json)" --bc "$(cat bc.json)" \
        --replay "$(cat replay.json)" --compile "$(cat compile.json)" --toolchain auto --target x86_64-linux-gnu \
        --task inline-size --corpus data/corpus --baseline data/baseline --workers 2 --work data/work \
        --output data/policies/marginal-s0
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mlgo.artifacts import FAILURES, VOCABULARY, read_table, write_rows
from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.config import BCConfig, MarginalConfig, ReplayConfig, parse_section
from mlgo.corpus.store import unpack_bitcode
from mlgo.files import content_hash, file_sha256, source_hash
from mlgo.learn.bc.dataset import clone_data
from mlgo.learn.history import TensorBoardLog, write_history
from mlgo.learn.marginal import MarginalState, heuristic_evidence, learn_costs, linear_clone, sure_clones
from mlgo.learn.marginal.caution import cautious, cautious_shape
from mlgo.learn.marginal.checkpoint import load_state, save_state
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy, save_policy
from mlgo.policy.vocabulary import normalisation
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.episodes import Episode, compile_episodes
from mlgo.rollout.exploration import exploring_jobs
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.training import open_memory, training_modules, training_origin, validation_rewards
from mlgo.seeding import sample


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--replay", required=True, help="section replay of the configuration, as JSON")
    parser.add_argument("--bc", required=True, help="section bc of the configuration, as JSON")
    parser.add_argument("--marginal", required=True, help="section marginal of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config, cloning = parse_section(MarginalConfig, args.marginal), parse_section(BCConfig, args.bc)
    toolchain, settings = compiler_of(args)
    train, validation = training_modules(
        args.corpus,
        args.baseline,
        "marginal",
        args.seed,
        max_questions=config.max_questions,
        num_validation=config.validation_modules,
    )
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], args.work / "bitcode")
    trace = read_table(args.baseline / "trace.parquet")
    scaling = normalisation(read_table(args.baseline / "vocabulary.parquet", VOCABULARY))
    origin = training_origin(
        toolchain,
        settings,
        args.baseline / "trace.parquet",
        args.corpus,
        args.baseline,
        algorithm="marginal",
        seed=args.seed,
        bc=cloning.model_dump(),
        marginal=config.model_dump(),
    )
    replay = parse_section(ReplayConfig, args.replay)
    memory = open_memory(args.work / "replay", replay, toolchain, args.task, settings)
    run_key = content_hash([origin, source_hash(), file_sha256(Path(__file__))])
    checkpoint = args.work / "checkpoints" / f"{args.output.name}-{run_key}.npz"
    state = load_state(checkpoint)
    quarantine = Quarantine(config.quarantine_after)

    questions, unseen = (
        clone_data(
            trace,
            {one.module.project for one in part},
            scaling,
            cloning.max_steps_per_module,
            args.seed,
            weighting="module",
        )
        for part in (train, validation)
    )
    shape = Architecture((len(scaling.features), *config.hidden, 1))
    joint_shape = cautious_shape(shape, config.members)
    start = sure_clones(questions, unseen, config, cloning, args.seed)
    heuristic = linear_clone(questions, unseen, cloning, args.seed)

    def member(weights: np.ndarray) -> NetworkPolicy:
        return NetworkPolicy(args.task, scaling, shape, weights)

    def joint(members: np.ndarray) -> NetworkPolicy:
        weights = cautious(list(members), shape, heuristic, config.caution)
        return NetworkPolicy(args.task, scaling, joint_shape, weights)

    with (
        CompileHost(toolchain, args.task, settings, args.workers, memory) as host,
        TensorBoardLog(args.work / "tensorboard" / args.output.name) as board,
        tqdm(
            total=config.rounds,
            initial=state.round if state else 0,
            desc=args.output.name,
            unit="round",
            disable=None,
        ) as progress,
    ):
        evaluator = CandidateEvaluator(host, joint(start), bitcode, settings.objective)
        clock = time.monotonic()

        def explore(members: np.ndarray, round_: int) -> list[Episode]:
            fit = [one for one in train if one.module.key not in quarantine]
            jobs = exploring_jobs(
                joint(members),
                [member(weights) for weights in members],
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
            label = f"{args.output.name} round {round_ + 1}"
            episodes = compile_episodes(host, jobs, scaling, settings.objective, label, quarantine.note)
            return [one for one in episodes if one is not None]

        def after_round(state: MarginalState) -> None:
            save_state(state, checkpoint)
            effort = {"compiles_done": memory.num_compiled if memory else 0, "seconds": time.monotonic() - clock}
            board.add({**state.history[-1], **effort}, state.round)
            progress.update()
            progress.set_postfix(best=f"{state.best_reward:+.4f}")

        state = learn_costs(
            start,
            shape,
            questions,
            heuristic_evidence(trace, train, scaling, settings.objective),
            explore,
            lambda members: float(validation_rewards(evaluator, joint(members).weights, validation).mean()),
            config,
            args.seed,
            state,
            after_round,
            len(validation),
            args.workers,
        )
    save_policy(
        replace(joint(state.members[state.best]), origin={**origin, "validation_reward": state.best_reward}),
        args.output,
    )
    write_history(args.output / "history.csv", list(state.history))
    write_rows(args.output / "failures.parquet", quarantine.rows(), FAILURES, origin)


if __name__ == "__main__":
    run_program(main)
