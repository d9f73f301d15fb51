"""Train a policy with one of the learners. Goes on where an earlier run was stopped.

Example:
    python scripts/train.py bc --preset config/presets/tiny.yaml --seed 0 --output data/policies/bc-s0
    python scripts/train.py es --preset config/presets/tiny.yaml --seed 0 --start data/policies/bc-s0 --workers 2 \
        --output data/policies/es-s0
    python scripts/train.py ppo --preset jit.yaml --seed 0 --home data/cse \
        --start data/cse/policies/bc-s0 --output data/cse/policies/ppo-s0
"""

import time
from pathlib import Path

from mlgo.base.names import LANGUAGES
from mlgo.base.registry import LEARNERS
from mlgo.cli.program import positive, run_program, settings_of, stage_parser, workers_of
from mlgo.learn.context import TrainOrder
from mlgo.learn.driver import train
from mlgo.learn.progress import read_limits


def main() -> None:
    started = time.monotonic()
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("learner", help=f"one of {', '.join(LEARNERS.names())}")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--start", type=Path, help="folder of the policy to go on from, for learners that do")
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=(), help="learn from these alone")
    parser.add_argument("--min-questions", type=positive, default=1, help="leave out modules that ask fewer")
    parser.add_argument("--by-project", action="store_true", help="projects take turns when modules are drawn")
    parser.add_argument("--limits", type=Path, help="batch of trials whose limits end this one early")
    parser.add_argument("--output", type=Path, required=True, help="folder of the policy, <learner>-s<seed>")
    args = parser.parse_args()
    settings = settings_of(args)
    train(
        TrainOrder(
            learner=LEARNERS.get(args.learner),
            settings=settings,
            seed=args.seed,
            home=args.home,
            work=args.work,
            output=args.output,
            workers=args.workers,
            where=workers_of(settings),
            start=args.start,
            languages=args.languages,
            min_questions=args.min_questions,
            by_project=args.by_project,
            limits=read_limits(args.limits, args.seed) if args.limits else {},
            started=started,
        )
    )


if __name__ == "__main__":
    run_program(main)
