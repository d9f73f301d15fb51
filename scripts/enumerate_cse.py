"""Compile all units without elimination and under the built-in heuristic; choose and split those to learn from.

Example:
    python scripts/enumerate_cse.py --preset jit.yaml --home data/cse \
        --workers 2 --output data/cse/baseline
"""

from pathlib import Path

from mlgo.base.artifacts import CSE_COMPILES, CSE_UNITS, cse_candidates_schema, provenance, write_rows
from mlgo.base.config import CseConfig
from mlgo.base.files import write_json
from mlgo.cli.program import run_program, settings_of, stage_parser, workers_of
from mlgo.jit.baseline import enumerate_units
from mlgo.jit.pool import ChoicePool


def main() -> None:
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    values = settings_of(args)
    task, seed, config = values.value("task"), values.value("seed"), values.section("cse", CseConfig)
    with ChoicePool.of(values, args.workers, workers_of(values), args.work) as pool:
        tables = enumerate_units(pool, config, seed)
    origin = provenance(task=task, compiler=pool.spec.described, cse=config.described(), seed=seed)
    write_rows(args.output / "units.parquet", tables.units, CSE_UNITS, origin)
    write_rows(args.output / "compiles.parquet", tables.compiles, CSE_COMPILES, origin)
    write_rows(args.output / "candidates.parquet", tables.candidates, cse_candidates_schema(tables.features), origin)
    write_json(args.output / "summary.json", tables.summary())


if __name__ == "__main__":
    run_program(main)
