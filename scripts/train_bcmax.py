"""Improve a cloned policy by cloning the best known trajectory of each module. Goes on where a run was stopped.

Example:
    python scripts/train_bcmax.py --seed 0 --bcmax "$(cat bcmax.json)" --replay "$(cat replay.json)" \
        --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/bcmax-s0
"""

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mlgo.artifacts import FAILURES, provenance, read_provenance, read_table, write_rows
from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.compiler.toolchain import Toolchain
from mlgo.config import BCMaxConfig, CompileConfig, ReplayConfig, parse_section
from mlgo.corpus.store import unpack_bitcode
from mlgo.errors import ConfigError, PolicyError
from mlgo.files import content_hash, file_sha256, source_hash
from mlgo.learn.bc import CloneData
from mlgo.learn.bc.dataset import check_trace
from mlgo.learn.bcmax import BCMaxState, Trajectory, imitate_best
from mlgo.learn.bcmax.best import keep_best
from mlgo.learn.bcmax.checkpoint import load_state, save_state
from mlgo.learn.bcmax.dataset import heuristic_trajectories
from mlgo.learn.bcmax.fit import Fit, fit
from mlgo.learn.bcmax.variants import variants
from mlgo.learn.history import TensorBoardLog, write_history
from mlgo.policy.advisors import ConstantAdvisor
from mlgo.policy.exploring import ExploringAdvisor
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy, load_policy, save_policy
from mlgo.replay import ReplayStore, prune
from mlgo.rollout import CompileHost, CompileJob
from mlgo.rollout.candidates import CandidateEvaluator
from mlgo.rollout.episodes import Episode, compile_episodes
from mlgo.rollout.memory import TreeMemory, tree_key
from mlgo.rollout.quarantine import Quarantine
from mlgo.rollout.remembered import best_remembered
from mlgo.rollout.scored import ScoredModule, load_scored_modules, with_questions
from mlgo.seeding import generator, sample
from mlgo.tasks import Advisor, get_task
from mlgo.tasks.reward import relative_reward

FAILED_REWARD = -1.0
"""What a module that fails to compile counts in a validation: as if it had doubled in size."""


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replay", required=True, help="section replay of the configuration, as JSON")
    parser.add_argument("--bcmax", required=True, help="section bcmax of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config, (toolchain, settings) = parse_section(BCMaxConfig, args.bcmax), compiler_of(args)
    start = load_policy(args.start)
    earlier = {folder: load_policy(Path(folder)) for folder in config.policies}
    check_tasks(start, earlier)
    train, validation = (
        with_questions(load_scored_modules(args.corpus, args.baseline, split), config.max_questions, split, "bcmax")
        for split in ("train", "validation")
    )
    train = sample(train, config.modules, args.seed, "bcmax", "train")
    validation = sample(validation, config.validation_modules, args.seed, "bcmax", "validation")
    bitcode = unpack_bitcode(args.corpus, [one.module for one in (*train, *validation)], args.work / "bitcode")
    origin = provenance(
        algorithm="bcmax",
        seed=args.seed,
        bcmax=config.model_dump(),
        compile=settings.model_dump(),
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        start_sha256=file_sha256(args.start / "weights.npy"),
        policies_sha256=[file_sha256(Path(folder) / "weights.npy") for folder in config.policies],
        trace_sha256=file_sha256(args.baseline / "trace.parquet"),
        scores_sha256=file_sha256(args.baseline / "scores.parquet"),
        corpus_sha256=file_sha256(args.corpus / "modules.parquet"),
    )
    store = open_trees(args, config, toolchain, start.task, settings)
    run_key = content_hash([origin, source_hash(), file_sha256(Path(__file__))])
    checkpoint = args.work / "checkpoints" / f"{args.output.name}-{run_key}.npz"
    state, extra = load_state(checkpoint)
    extra = extra or {}
    quarantine = Quarantine(config.quarantine_after, extra.get("failures"))
    scaling, objective = start.normalisation, settings.objective
    trace = read_table(args.baseline / "trace.parquet")
    check_trace(trace, read_provenance(args.baseline / "trace.parquet"), start.task, scaling)
    known = heuristic_trajectories(trace, {one.module.key for one in train}, scaling)
    trees_sha256 = extra.get("trees_sha256")
    if config.use_trees and store is not None and state is None:
        remembered = [best_remembered(store, m.module.key, m.module.sha256, scaling, objective) for m in train]
        trees_sha256 = episodes_hash(remembered)
        known = keep_best(known, trajectories(remembered, "trees", train, objective))
    architecture = Architecture((len(scaling.features), *config.hidden, 1))
    same_shape = architecture == start.architecture
    learner = replace(start, architecture=architecture, weights=np.zeros(architecture.num_params, np.float32))

    def clone(data: CloneData, weights: np.ndarray | None, number: int) -> Fit:
        seed = int(generator(args.seed, "bcmax", "fit", number).integers(2**32))
        epochs = config.clone_epochs if weights is None else config.epochs
        return fit(data, architecture, weights, epochs, config.batch_size, config.learning_rate, seed)

    memory = TreeMemory(store) if store is not None else None
    with (
        CompileHost(toolchain, start.task, settings, args.workers, memory) as host,
        TensorBoardLog(args.work / "tensorboard" / args.output.name) as board,
        tqdm(
            total=config.rounds, initial=state.number if state else 0, desc=args.output.name, unit="round", disable=None
        ) as progress,
    ):
        rollouts = CompiledRollouts(
            host=host,
            learner=learner,
            train=train,
            validation=validation,
            bitcode=bitcode,
            objective=objective,
            quarantine=quarantine,
            explorers=lambda policy, number: explorers(policy, earlier, config, args.seed, number),
            evaluator=CandidateEvaluator(host, learner, bitcode, objective, quarantine),
            num_episodes=state.history[-1]["evaluations"] if state else 0,
        )
        clock = time.monotonic()

        def after_round(state: BCMaxState) -> None:
            save_state(state, checkpoint, {"failures": quarantine.state(), "trees_sha256": trees_sha256})
            compiles = memory.num_compiled if memory else rollouts.num_evaluations
            rate = {"compiles": compiles, "elapsed_s": time.monotonic() - clock}
            board.add({**state.history[-1], **rate}, state.number)
            progress.update(state.number > 0)
            progress.set_postfix(best=f"{state.best_reward:+.4f}", compiles=compiles)

        weights = start.weights if same_shape else None
        state = imitate_best(weights, known, rollouts, clone, config, state, after_round)
    origin = {**origin, "trees_sha256": trees_sha256, "validation_reward": state.best_reward}
    save_policy(replace(learner, weights=state.best, origin=origin), args.output)
    write_history(args.output / "history.csv", list(state.history))
    write_rows(args.output / "failures.parquet", quarantine.rows(), FAILURES, origin)


@dataclass
class CompiledRollouts:
    """Training and validation modules under policies, by compiling them.

    Attributes:
        host: runs the compiles.
        learner: features and architecture of the policies.
        train: modules to learn from.
        validation: modules to judge by.
        bitcode: file by module key.
        objective: which size counts.
        quarantine: is told how every compile ended; modules in it are left out.
        explorers: ``(policy, round) -> advisors`` by name.
        evaluator: validates.
        num_episodes: compiles of training modules asked for, those of an earlier run included.
    """

    host: CompileHost
    learner: NetworkPolicy
    train: list[ScoredModule]
    validation: list[ScoredModule]
    bitcode: Mapping[str, Path]
    objective: str
    quarantine: Quarantine
    explorers: Callable[[NetworkPolicy, int], Mapping[str, Advisor]]
    evaluator: CandidateEvaluator
    num_episodes: int = 0

    @property
    def num_evaluations(self) -> int:
        """Compiles asked for so far."""
        return self.num_episodes + self.evaluator.num_evaluations

    def explore(self, weights: np.ndarray, number: int) -> Iterator[Trajectory]:
        """Training modules under what a round explores with."""
        for name, advisor in self.explorers(self.learner.with_weights(weights), number).items():
            yield from self._compile(f"{name} of round {number}", advisor)

    def measure(self, weights: np.ndarray) -> list[Trajectory]:
        """Training modules under a policy."""
        return self._compile("policy", self.learner.with_weights(weights))

    def validate(self, weights: np.ndarray) -> float:
        """Mean reward on the validation modules."""
        rewards = self.evaluator.rewards(weights[None], self.validation)
        return float(np.nan_to_num(rewards, nan=FAILED_REWARD).mean())

    def _compile(self, source: str, advisor: Advisor) -> list[Trajectory]:
        chosen = [one for one in self.train if one.module.key not in self.quarantine]
        jobs = [
            CompileJob(key, self.bitcode[key], advisor, record=True, sha256=one.module.sha256)
            for one in chosen
            for key in [one.module.key]
        ]
        self.num_episodes += len(jobs)
        note = self.quarantine.note
        episodes = compile_episodes(self.host, jobs, self.learner.normalisation, self.objective, source, note)
        return trajectories(episodes, source, chosen, self.objective)


def explorers(
    policy: NetworkPolicy, earlier: Mapping[str, NetworkPolicy], config: BCMaxConfig, seed: int, number: int
) -> dict[str, Advisor]:
    """Advisors of a round by name: references and earlier policies in round 0, then variants of the current policy."""
    if number:
        return dict(variants(policy, config, seed, number))
    luck = int(generator(seed, "bcmax", "random").integers(2**63))
    indifferent = policy.with_weights(np.zeros_like(policy.weights))
    references: dict[str, Advisor] = {
        "never": ConstantAdvisor(0),
        # Not `RandomAdvisor`, which looks at more than the observation: decision trees cannot serve it.
        "random": ExploringAdvisor(indifferent, 0.0, config.random_share, luck),
    }
    return {**{name: references[name] for name in config.references}, **earlier}


def trajectories(
    episodes: list[Episode | None], source: str, modules: list[ScoredModule], objective: str
) -> list[Trajectory]:
    """Episodes with their rewards; failed compiles are left out."""
    baselines = {one.module.key: np.float64(getattr(one, objective)) for one in modules}
    return [
        Trajectory(
            one.module,
            source,
            one.inputs,
            one.answers,
            float(relative_reward(np.float64(one.score), baselines[one.module])),
        )
        for one in episodes
        if one is not None
    ]


def episodes_hash(episodes: list[Episode | None]) -> str:
    """Hash of what was taken from the decision trees, for the provenance."""
    rows = [
        [one.module, one.score, hashlib.sha256(one.answers.tobytes()).hexdigest()]
        for one in episodes
        if one is not None
    ]
    return hashlib.sha256(content_hash(rows).encode()).hexdigest()


def check_tasks(start: NetworkPolicy, earlier: Mapping[str, NetworkPolicy]) -> None:
    """Refuse earlier policies of another task."""
    for folder, policy in earlier.items():
        if policy.task != start.task:
            raise PolicyError(
                f"{folder}, named in bcmax.policies, is a policy for {policy.task}, the start policy for {start.task}"
            )


def open_trees(
    args: argparse.Namespace, config: BCMaxConfig, toolchain: Toolchain, task: str, settings: CompileConfig
) -> ReplayStore | None:
    """Decision trees of this compiler and these flags; None when they are switched off."""
    replay = parse_section(ReplayConfig, args.replay)
    if not replay.enabled:
        if config.use_trees:
            raise ConfigError("bcmax.use_trees needs replay.enabled")
        return None
    folder = args.work / "replay"
    prune(folder, int(replay.max_disk_gb * 1e9))
    return ReplayStore(folder, tree_key(toolchain, get_task(task), settings))


if __name__ == "__main__":
    run_program(main)
