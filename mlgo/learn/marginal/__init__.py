"""Learner ``marginal``: what each decision adds to the score, learnt from scores of whole compiles."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mlgo.base.files import file_sha256
from mlgo.base.registry import Kind, Learner
from mlgo.errors import PolicyError
from mlgo.evaluate.episodes import InlinedReader, compile_episodes
from mlgo.evaluate.training import exploring_jobs, load_start
from mlgo.host.actions import Binary
from mlgo.host.tasks.task import get_task
from mlgo.learn.base import Trained
from mlgo.learn.bc import clone
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.cloning import BCConfig
from mlgo.learn.dataset import clone_data
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.evidence import CompileFile, CompileRef
from mlgo.learn.marginal.fit import CostFitter
from mlgo.learn.marginal.loop import MarginalState, heuristic_evidence, learn_costs, sure_clones
from mlgo.learn.marginal.savings import learn_savings
from mlgo.learn.modules import ModuleContext
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.ensemble import join, joint_shape, members_of, steep
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import check_binary


class MarginalCosts(Learner):
    """On modules, rounds of exploring and of fitting costs; on choices, one fit of measured savings."""

    name = "marginal"
    section = MarginalConfig
    sections: Mapping[Kind, tuple[str, ...]] = {"modules": ("bc", "marginal"), "choices": ("bc", "policy")}
    compiles: tuple[Kind, ...] = ("modules", "choices")

    def train(self, context: ModuleContext | ChoiceContext) -> Trained:
        return learn_savings(context) if isinstance(context, ChoiceContext) else _of_modules(context)


LEARNER = MarginalCosts()


def _of_modules(context: ModuleContext) -> Trained:
    check_binary(context.task, "marginal")
    config: MarginalConfig = context.config
    cloning, task, seed = context.section("bc", BCConfig), context.task, context.seed
    train, workers = context.train, context.order.workers
    before = _earlier(context, config) if config.start else None
    scaling = before.normalisation if before else context.normalise
    assert isinstance(scaling, Normalisation)  # as of every network
    import_tensorflow(workers)  # now: as many fits will run side by side, and the first import decides
    questions, unseen = (
        clone_data(context.trace, projects, Binary(), scaling, cloning.max_steps_per_module, seed, weighting="module")
        for projects in ({one.module.project for one in part} for part in (train, context.validation))
    )
    shape = Architecture((len(scaling.features), *config.hidden, 1))
    of_all = joint_shape(shape, config.members, config.caution)
    if before is None:
        start, hashes = sure_clones(questions, unseen, config, cloning, seed), {}
    else:
        start = members_of(before.weights, shape, config.members, config.caution)
        hashes = {"goes_on_from_sha256": file_sha256(Path(config.start) / "weights.npy")}
    heuristic = None
    if config.caution > 0.0:
        ((layer,), _) = clone(questions, unseen, Binary(), [], cloning, seed)
        heuristic = steep(layer, questions.inputs)

    def joint(members: np.ndarray) -> Policy:
        return Policy(task, scaling, of_all, join(list(members), shape, heuristic, config.caution))

    with (
        CompileFile(context.order.work / "fits", len(scaling.features)) as file,
        context.training(
            config.rounds,
            "round",
            (MarginalState,),
            policy=joint(start),
            sections={"bc": cloning.model_dump(), "marginal": config.model_dump()},
            hashes={"start_sha256": context.trace_sha256, **hashes},
            asks_again=True,
        ) as state,
    ):

        def explore(members: np.ndarray, round_: int) -> list[CompileRef | None]:
            learnt = round_ > 0 or before is not None  # a clone's close calls say nothing
            jobs = exploring_jobs(
                joint(members),
                [Policy(task, scaling, shape, member) for member in members],
                context.draw(config.modules, round_),
                context.bitcode,
                (config.compiles, config.max_compiles),
                config.questions,
                config.flip_share if learnt else config.first_flip_share,
                config.min_flips,
                config.temperature if learnt else 0.0,
                seed,
                "marginal",
                round_,
                with_credit=config.function_weight > 0.0,
                read=InlinedReader(scaling, context.objective),
            )
            label, note = f"{context.label} round {round_ + 1}", context.quarantine.note
            return compile_episodes(context.host, jobs, lambda module, one: file.store(one), label, note)

        traces_heuristic = get_task(task).references.is_heuristic
        state = learn_costs(
            start,
            heuristic_evidence(context.trace, train, scaling, context.objective, traces_heuristic, file),
            CostFitter(shape, questions, file, config, seed),
            explore,
            lambda members: context.validate(joint(members).weights),
            state,
            context.after,
            workers,
        )
    return Trained(joint(state.best), state.history, {"validation_reward": state.best_reward})


def _earlier(context: ModuleContext, config: MarginalConfig) -> Policy:
    """The policy to go on from."""
    policy = load_start(Path(config.start), context.baseline)
    context.check_trace(policy.normalisation)
    member = Architecture((len(policy.features), *config.hidden, 1))
    if policy.architecture != joint_shape(member, config.members, config.caution):
        raise PolicyError(
            f"marginal.start: {config.start} is no policy of {config.members} members with hidden layers "
            f"{config.hidden} and caution {config.caution:g}; take one that marginal has trained with these settings"
        )
    return policy
