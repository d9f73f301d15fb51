"""Train a chooser of eliminations by MaskablePPO of SB3-Contrib; needs the extra sb3.

Example:
    make setup EXTRA=sb3
    python scripts/train_cse_sb3.py --task gcc-pre --cse "$(cat cse.json)" --policy "$(cat policy.json)" --seed 0 \
        --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline --work data/work \
        --output data/cse/policies/sb3-s0
"""

import importlib.util
import time
from pathlib import Path

from tqdm import tqdm

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import provenance
from mlgo.core.config import PolicyConfig, parse_section
from mlgo.core.errors import ConfigError
from mlgo.core.files import content_hash, file_sha256
from mlgo.core.seeding import generator
from mlgo.learn.choice.outcome import write_choice_outcome
from mlgo.learn.effort import recorded_effort
from mlgo.problems.subset.env import CseEnv
from mlgo.problems.subset.policy import ChoicePolicy
from mlgo.problems.subset.problem import choice_problem
from mlgo.problems.subset.rewards import EndGain
from mlgo.problems.subset.stored import judged_units


def main() -> None:
    parser = cse_parser(__doc__, "policy")
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder for TensorBoard logs and timings")
    args = parser.parse_args()
    if importlib.util.find_spec("sb3_contrib") is None:
        raise ConfigError("learner sb3: Stable-Baselines3 is not installed; run make setup EXTRA=sb3")
    started, name = time.monotonic(), args.output.name
    (config, spec), shape = cse_compiler_of(args), parse_section(PolicyConfig, args.policy)
    train = judged_units(args.baseline, "train")
    from mlgo.learn.choice.stable_baselines import train_maskable_ppo  # takes seconds: only once all is well

    origin = provenance(
        algorithm="sb3",
        seed=args.seed,
        sb3_steps=config.sb3_steps,
        compiler=spec.described(),
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
    )
    # Rewards in percent, so that they are of the size that the library's settings are for.
    env = CseEnv(
        spec.open(),
        choice_problem(args.task).columns,
        [unit.name for unit in train],
        min_viable=config.min_viable,
        max_candidates=config.max_candidates,
        reward=EndGain(scale=100.0),
    )
    try:
        with (
            recorded_effort(args.work, f"cse-{name}", content_hash(origin), started=started),
            tqdm(total=config.sb3_steps, desc=name, unit="step", disable=None) as bar,
        ):
            logs = str(args.work / "tensorboard" / f"cse-{name}")
            weights = train_maskable_ppo(env, config.sb3_steps, tuple(shape.hidden), args.seed, logs, bar.update)
    finally:
        env.close()
    fresh = ChoicePolicy.fresh(args.task, env.observer, shape.hidden, generator(args.seed, "cse", "policy"))
    history = [{"step": config.sb3_steps, "evaluations": env.num_asked}]
    policy = ChoicePolicy(args.task, env.observer, fresh.architecture, weights, origin)
    write_choice_outcome(args.output, policy, history)


if __name__ == "__main__":
    run_program(main)
