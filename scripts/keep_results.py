"""Keep a run's small tables in the repository, so that the tables of README and docs can be made from them again.

Example:
    python scripts/keep_results.py --data data --output docs/results/run
"""

import argparse
from pathlib import Path

import pyarrow.compute as pc

from mlgo.cli.program import run_program
from mlgo.core.artifacts import PROGRAMS, RESULTS, SHIPPED_SIZES, read_provenance, read_table, write_table
from mlgo.core.config import judged_split
from mlgo.experiments.programs import find_programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the run (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("docs/results/run"), help="(default: %(default)s)")
    args = parser.parse_args()

    evaluation = args.data / "evaluation"
    for path, schema in (
        (evaluation / "shipped.parquet", SHIPPED_SIZES),
        (evaluation / "results.parquet", RESULTS),
        (find_programs(args.data), PROGRAMS),
    ):
        if schema is PROGRAMS and not path.exists():  # of presets that run none
            continue
        table, origin = read_table(path, schema), read_provenance(path)
        if schema is RESULTS:
            table = table.filter(pc.field("split") == judged_split(table["split"].to_pylist()))
        write_table(args.output / "evaluation" / path.name, table, schema, origin)


if __name__ == "__main__":
    run_program(main)
