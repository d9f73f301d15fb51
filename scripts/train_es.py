"""Improve a cloned policy by evolution strategies on compile results. Resumes where an earlier run was stopped.

Example:
    python scripts/train_es.py --seed 0 --es "$(cat es.json)" --compile "$(cat compile.json)" --toolchain auto \
        --target x86_64-linux-gnu --start data/policies/bc-s0 --corpus data/corpus --baseline data/baseline \
        --workers 2 --work data/work --output data/policies/es-s0
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from tqdm import tqdm

from mlgo.artifacts import SCORES, content_hash, file_sha256, provenance, read_table
from mlgo.cli.program import run_program
from mlgo.compiler.toolchain import find_toolchain
from mlgo.config import CompileConfig, ESConfig, parse_section
from mlgo.corpus.store import Module, load_modules, sample_modules, unpack_bitcode
from mlgo.errors import TrainingError
from mlgo.learn.es import Coordinates, EsState, evolve
from mlgo.learn.es.checkpoint import load_state, save_state
from mlgo.learn.history import TensorBoardLog, write_history
from mlgo.policy.network_policy import load_policy, save_policy
from mlgo.rollout import CompileHost
from mlgo.rollout.candidates import CandidateEvaluator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--es", required=True, help="section es of the configuration, as JSON")
    parser.add_argument("--compile", required=True, help="section compile of the configuration, as JSON")
    parser.add_argument("--toolchain", default="auto")
    parser.add_argument("--target", required=True)
    parser.add_argument("--start", type=Path, required=True, help="policy to start from")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and TensorBoard logs")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config, settings = parse_section(ESConfig, args.es), parse_section(CompileConfig, args.compile)
    toolchain = find_toolchain(args.toolchain, args.target)
    start = load_policy(args.start)
    scores = read_table(args.baseline / "scores.parquet", SCORES).filter(
        (pc.field("advisor") == "heuristic") & (pc.field("failure") == "")
    )
    keys = [f"{project}/{module}" for project, module in zip(*_columns(scores, "project", "module"), strict=True)]
    baseline = dict(zip(keys, _columns(scores, settings.objective)[0], strict=True))
    questions = _questions(args.baseline)
    train = [
        module
        for module in load_modules(args.corpus, splits=["train"])
        if module.key in baseline and 0 < questions.get(module.key, 0) <= config.max_questions
    ]
    validation = [
        module
        for module in load_modules(args.corpus, splits=["validation"])
        if module.key in baseline and 0 < questions.get(module.key, 0) <= config.max_questions
    ]
    if not train or not validation:
        raise TrainingError("no module asks between 1 and es.max_questions questions in train or validation")
    validation = sample_modules(validation, config.validation_modules, args.seed, "es", "validation")
    bitcode = unpack_bitcode(args.corpus, [*train, *validation], args.work / "bitcode")

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
    # Everything that decides the result, bar the number of generations: a longer run may go on from a shorter one.
    key = content_hash({**origin, "es": {k: v for k, v in origin["es"].items() if k != "generations"}})
    checkpoint = args.work / "checkpoints" / f"{args.output.name}-{key}.npz"
    coordinates = Coordinates.last_layers(start.weights, start.architecture.layer_slices(), config.trainable_layers)

    board = TensorBoardLog(args.work / "tensorboard" / args.output.name)
    state = load_state(checkpoint)
    if state is not None and state.generation > config.generations:
        state = None
    with (
        CompileHost(toolchain, start.task, settings, args.workers) as host,
        tqdm(total=config.generations, desc=args.output.name, unit="generation", disable=None) as progress,
    ):
        evaluator = CandidateEvaluator(host, start, bitcode, baseline, settings.objective)
        progress.update(state.generation if state else 0)

        def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
            modules = sample_modules(train, config.modules, args.seed, "es", "modules", generation)
            return evaluator.rewards(candidates, modules).mean(axis=1)

        def validate(weights: np.ndarray) -> float:
            return float(np.nanmean(evaluator.rewards(weights[None], validation)))

        clock = time.monotonic()

        def after_generation(state: EsState) -> None:
            nonlocal clock
            save_state(state, checkpoint)
            now = time.monotonic()
            speed = {"seconds": now - clock, "compiles": evaluator.num_compiles}
            clock = now
            board.add({**state.history[-1], **speed}, state.generation)
            progress.update()
            progress.set_postfix(best=f"{state.best_reward:+.4f}", compiles=evaluator.num_compiles)

        state = evolve(coordinates, evaluate, validate, config, args.seed, state, after_generation)
    board.close()
    origin["best_validation_reward"] = state.best_reward
    policy = start.with_weights(coordinates.weights(state.best))
    save_policy(type(policy)(policy.task, policy.normalisation, policy.architecture, policy.weights, origin), args.output)
    write_history(args.output / "history.csv", list(state.history))


def _columns(table, *names: str) -> list[list]:
    return [table[name].to_pylist() for name in names]


def _questions(baseline: Path) -> dict[str, int]:
    """Questions that each module asks under the heuristic."""
    echo = read_table(baseline / "scores.parquet", SCORES).filter(
        (pc.field("advisor") == "echo") & (pc.field("failure") == "")
    )
    rows = zip(*_columns(echo, "project", "module", "num_questions"), strict=True)
    return {f"{project}/{module}": count for project, module, count in rows}


def _unused(module: Module) -> None: ...


if __name__ == "__main__":
    run_program(main)
