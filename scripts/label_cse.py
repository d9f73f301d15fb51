"""Search the best choice of eliminations for each unit.

Example:
    python scripts/label_cse.py --preset jit.yaml --home data/cse \
        --workers 2 --output data/cse/labels
"""

from functools import partial
from pathlib import Path

from mlgo.base.artifacts import CSE_EFFECTS, CSE_LABELS, provenance, write_rows
from mlgo.base.config import CseConfig
from mlgo.base.files import file_sha256
from mlgo.cli.program import corpus_and_baseline, run_program, settings_of, stage_parser, workers_of
from mlgo.jit.baseline import eligible_units, names_of
from mlgo.jit.cache import choice_row
from mlgo.jit.labels import find_label
from mlgo.jit.pool import ChoicePool


def main() -> None:
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values, (_, baseline) = settings_of(args), corpus_and_baseline(args)
    config, seed, units = values.section("cse", CseConfig), values.value("seed"), eligible_units(baseline)
    largest_first = names_of(sorted(units, key=lambda unit: -unit.num_viable))
    limits = {"max_exhaustive": config.max_exhaustive, "max_trials": config.max_trials}
    work = partial(find_label, **limits, seed=seed)
    with ChoicePool.of(values, args.workers, workers_of(values), args.work) as pool:
        found = pool.map(work, largest_first, "labels")
    labels = {unit.name: label for unit in units if (label := found.get(unit.name)) is not None}
    rows = [
        {
            "unit": name,
            **choice_row(label.best),
            "exhaustive": label.exhaustive,
            "num_tried": label.num_tried,
            "num_failed": label.num_failed,
        }
        for name, label in labels.items()
    ]
    effects = [
        {
            "unit": name,
            "position": position,
            "mean_change": effect.mean_change if effect.num_pairs else None,
            "num_pairs": effect.num_pairs,
        }
        for name, label in labels.items()
        for position, effect in label.effects.items()
    ]
    origin = provenance(
        task=values.value("task"),
        compiler=pool.spec.described,
        **limits,
        seed=seed,
        baseline_sha256=file_sha256(baseline / "compiles.parquet"),
    )
    write_rows(args.output / "labels.parquet", rows, CSE_LABELS, origin)
    write_rows(args.output / "effects.parquet", effects, CSE_EFFECTS, origin)


if __name__ == "__main__":
    run_program(main)
