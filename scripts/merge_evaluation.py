"""Join the results and functions of all policies, and sizes of programs, also those under the heuristic.

Example:
    python scripts/merge_evaluation.py --parts data/evaluation/parts --policies bc-s0 es-s0 \
        --output data/evaluation
"""

from pathlib import Path

import pyarrow as pa

from mlgo.base.artifacts import FUNCTIONS, RESULTS, SHIPPED_SIZES, provenance, read_provenance, read_table, write_table
from mlgo.cli.program import run_program, stage_parser


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--parts", type=Path, required=True)
    parser.add_argument("--policies", nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    parts = {name: args.parts / f"{name}.parquet" for name in args.policies}
    results = pa.concat_tables([read_table(path, RESULTS) for path in parts.values()])
    functions = pa.concat_tables(
        [read_table(args.parts / f"{name}.functions.parquet", FUNCTIONS) for name in args.policies]
    )
    origin = provenance(policies={name: read_provenance(path) for name, path in parts.items()})
    write_table(args.output / "results.parquet", results, RESULTS, origin)
    write_table(args.output / "functions.parquet", functions, FUNCTIONS, origin)

    parts = {name: args.parts / f"{name}.shipped.parquet" for name in ("heuristic", *args.policies)}
    sizes = pa.concat_tables([read_table(path, SHIPPED_SIZES) for path in parts.values()])
    origin = provenance(contenders={name: read_provenance(path) for name, path in parts.items()})
    write_table(args.output / "shipped.parquet", sizes, SHIPPED_SIZES, origin)


if __name__ == "__main__":
    run_program(main)
