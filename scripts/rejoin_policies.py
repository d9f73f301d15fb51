"""Join policies of any learner, or the members of those of learner marginal, with another caution. Trains nothing.

Less caution departs from the heuristic more often. More members need more time for each decision.

Example:
    python scripts/rejoin_policies.py data/policies/marginal-s0 --caution 0 --output data/policies/bold-s0
    python scripts/rejoin_policies.py data/policies/marginal-s* --caution 0.75 --output data/policies/joined-s0
    python scripts/rejoin_policies.py data/policies/ppo-s* --cautious data/policies/marginal-s0 --caution 0.5 --output \
        data/policies/cautious-s0
"""

import argparse
from dataclasses import replace
from pathlib import Path

from mlgo.base.names import PolicyName
from mlgo.cli.program import run_program
from mlgo.errors import ConfigError
from mlgo.policy.ensemble import rejoin
from mlgo.policy.stored import load_policy, model_sha256, save_policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs="+", metavar="DIR", help="folder of a policy")
    parser.add_argument("--caution", type=float, required=True, help="as marginal.caution; 0 for none")
    parser.add_argument(
        "--cautious",
        type=Path,
        metavar="DIR",
        help="policy of marginal whose clone of the heuristic caution pulls to (default: the first)",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the joint policy, <name>-s<seed>")
    args = parser.parse_args()
    if not 0.0 <= args.caution < float("inf"):
        raise ConfigError(f"--caution {args.caution}: give a number from 0 on")
    if len({folder.resolve() for folder in args.policies}) < len(args.policies):
        raise ConfigError("a policy is named twice; each would count once")
    if args.output in args.policies:
        raise ConfigError(f"--output {args.output} is one of the policies; give another folder")
    name = PolicyName.of(args.output.name)
    cautious = (str(args.cautious), load_policy(args.cautious)) if args.cautious else None
    joint = rejoin({str(folder): load_policy(folder) for folder in args.policies}, args.caution, cautious)
    origin = {
        **joint.origin,
        "algorithm": name.learner,
        "seed": name.seed,
        "joined_sha256": [model_sha256(folder) for folder in args.policies],
    }
    origin.pop("validation_reward", None)  # of the first alone
    if args.cautious and args.caution > 0.0:
        origin["cautious_sha256"] = model_sha256(args.cautious)
    save_policy(replace(joint, origin=origin), args.output)
    print(f"{args.output}: {len(args.policies)} joined, caution {args.caution:g}, {joint.weights.size:,} weights")


if __name__ == "__main__":
    run_program(main)
