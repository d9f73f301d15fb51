"""Join what policies gave on other languages and under other compilers.

Example:
    python scripts/merge_generalisation.py --preset config/presets/generalisation.yaml \
        --parts data/generalisation/parts/*.parquet --policies data/generalisation/policies \
        --output data/generalisation/results.parquet
"""

from pathlib import Path

import pyarrow as pa

from mlgo.base.artifacts import GENERALISATION, RESULTS, provenance, read_provenance, read_table, write_table
from mlgo.base.config import EvaluateConfig
from mlgo.base.files import read_record
from mlgo.base.names import PolicyName, train_set_of
from mlgo.cli.program import run_program, settings_of, stage_parser


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--parts", type=Path, nargs="+", required=True, help="results, <policy>.<compiler>.parquet")
    parser.add_argument("--policies", type=Path, required=True, help="folder of <compiler>-<train set>-s<seed>")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    settings = settings_of(args)
    evaluate = settings.section("evaluate", EvaluateConfig)
    tables, origins = [], []
    for path in args.parts:
        policy = path.name.removesuffix(".parquet").rpartition(".")[0]
        origins.append({"policy": policy, **read_provenance(path)})
        told = {
            "trained_with": read_record(args.policies / policy / "policy.json")["provenance"]["compiler"],
            "train_set": train_set_of(PolicyName.of(policy).learner),
            "tested_with": origins[-1]["compiler"],
        }
        table = read_table(path, RESULTS).drop_columns("policy")
        for name, value in told.items():
            table = table.append_column(name, pa.repeat(value, table.num_rows))
        tables.append(table.select(GENERALISATION.names))
    origin = provenance(evaluate=evaluate.model_dump(), seed=settings.value("seed"), parts=origins)
    write_table(args.output, pa.concat_tables(tables), GENERALISATION, origin)


if __name__ == "__main__":
    run_program(main)
