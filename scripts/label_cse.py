"""Search the best choice of eliminations for each unit.

Example:
    python scripts/label_cse.py --task gcc-pre --cse "$(cat cse.json)" --seed 0 --workers 2 \
        --sources data/cse/corpus/sources.parquet --baseline data/cse/baseline --output data/cse/labels
"""

from pathlib import Path

from tqdm import tqdm

from mlgo.cli.arguments import cse_compiler_of, cse_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_EFFECTS, CSE_LABELS, provenance, write_rows
from mlgo.core.files import file_sha256
from mlgo.problems.subset.jobs import LabelJob
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.stored import choice_row, in_batches, judged_units


def main() -> None:
    parser = cse_parser(__doc__)
    parser.add_argument("--baseline", type=Path, required=True)
    args = parser.parse_args()
    config, spec = cse_compiler_of(args)
    units = judged_units(args.baseline)
    largest_first = in_batches(sorted(units, key=lambda unit: -unit.num_viable))
    jobs = [LabelJob(names, config.max_exhaustive, config.max_trials, args.seed) for names in largest_first]
    with CsePool(spec, args.workers) as pool, tqdm(total=len(units), desc="labels", unit="unit", disable=None) as bar:
        found = pool.map(jobs, bar.update)
    rows = [
        {
            "unit": unit.name,
            **choice_row(label.best),
            "exhaustive": label.exhaustive,
            "num_tried": label.num_tried,
            "num_failed": label.num_failed,
        }
        for unit in units
        if (label := found.get(unit.name)) is not None
    ]
    origin = provenance(
        task=args.task,
        compiler=spec.described(),
        max_exhaustive=config.max_exhaustive,
        max_trials=config.max_trials,
        seed=args.seed,
        baseline_sha256=file_sha256(args.baseline / "compiles.parquet"),
    )
    effects = [
        {
            "unit": unit.name,
            "position": position,
            "mean_change": effect.mean_change if effect.num_pairs else None,
            "num_pairs": effect.num_pairs,
        }
        for unit in units
        if (label := found.get(unit.name)) is not None
        for position, effect in label.effects.items()
    ]
    write_rows(args.output / "labels.parquet", rows, CSE_LABELS, origin)
    write_rows(args.output / "effects.parquet", effects, CSE_EFFECTS, origin)


if __name__ == "__main__":
    run_program(main)
