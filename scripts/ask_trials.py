"""Choose the next trials of a study by what all earlier ones have come to, and the rewards that they must reach.

Example:
    python scripts/ask_trials.py --preset config/presets/study.yaml --study data/sweep/study/0123abcd --batch 0
"""

from pathlib import Path

from mlgo.base.config import SweepConfig
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.research.study import batch_path, choose, limits, read_asked, trials_of, write_batch


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--study", type=Path, required=True, help="folder of the batches")
    parser.add_argument("--batch", type=int, required=True, help="which is chosen, from 0; earlier ones have run")
    parser.add_argument("--output", type=Path, default=Path("data/sweep"), help="folder with policies/ and results/")
    args = parser.parse_args()

    settings = settings_of(args)
    sweep, seed = settings.section("sweep", SweepConfig), settings.value("seed")
    first = args.batch * sweep.parallel
    told = trials_of(settings.values, args.output, read_asked(args.study)[:first])
    count = min(sweep.parallel, sweep.trials - first)
    trials = choose(sweep.ranges, told, count, sweep.random_trials, seed)
    write_batch(batch_path(args.study, args.batch), trials, limits(told, sweep.pruning, sweep.seeds))


if __name__ == "__main__":
    run_program(main)
