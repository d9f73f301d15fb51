"""Search the best choice of eliminations for each unit.

Example:
    python scripts/label_cse.py --preset config/presets/gcc-pre.yaml --home data/cse --workers 2 \
        --output data/cse/labels
"""

from tqdm import tqdm

from mlgo.cli.arguments import choice_pool, corpus_and_baseline, cse_compiler_of, cse_parser, settings_of
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_EFFECTS, CSE_LABELS, provenance, write_rows
from mlgo.core.files import file_sha256
from mlgo.problems.subset.jobs import LabelJob
from mlgo.problems.subset.stored import choice_row, in_batches, judged_units


def main() -> None:
    args = cse_parser(__doc__).parse_args()
    settings, (_, baseline) = settings_of(args), corpus_and_baseline(args)
    (config, spec), seed = cse_compiler_of(args, settings), settings.value("seed")
    units = judged_units(baseline)
    largest_first = in_batches(sorted(units, key=lambda unit: -unit.num_viable))
    jobs = [LabelJob(names, config.max_exhaustive, config.max_trials, seed) for names in largest_first]
    with (
        choice_pool(args, settings, spec) as pool,
        tqdm(total=len(units), desc="labels", unit="unit", disable=None) as bar,
    ):
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
        task=settings.value("task"),
        compiler=spec.described(),
        max_exhaustive=config.max_exhaustive,
        max_trials=config.max_trials,
        seed=seed,
        baseline_sha256=file_sha256(baseline / "compiles.parquet"),
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
