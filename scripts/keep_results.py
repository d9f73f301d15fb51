"""Keep small tables of a run, or of looks at the sealed test set, so that tables of README and docs can be made again.

Of a run it keeps histories and costs of trainings, too, for: mlgo report budgets; and small policies as they are.
Runs of one corpus on several machines, each with seeds of its own, are kept as one: --data FOLDER FOLDER; what is kept
may be among them.

Example:
    python scripts/keep_results.py --data data --output docs/results/run
    python scripts/keep_results.py --data docs/results/scoreboard data --output docs/results/scoreboard
    python scripts/keep_results.py --looks data/sealed/evaluation/*/objects --output docs/results/sealed
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import PROGRAMS, RESULTS, SHIPPED_SIZES, read_provenance, read_table, write_table
from mlgo.base.config import judged_split
from mlgo.base.files import write_bytes
from mlgo.cli.program import run_program
from mlgo.compare.programs import find_programs
from mlgo.errors import ArtifactError
from mlgo.learn.cost import cost_path

CONTENDER = ("contender", "policy", "seed")
OF_TRAININGS = ("policies/*/history.csv", str(cost_path(Path("work"), "*")))
OF_POLICIES = ("policies/*/policy.json", "policies/*/weights.npy")
MOST_WEIGHT_BYTES = 262144  # of a policy that is kept


class Kept(NamedTuple):
    """A table, and what it came from."""

    name: str
    table: pa.Table
    schema: pa.Schema
    origin: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--data", type=Path, nargs="+", default=[Path("data")], metavar="DIR", help="folders of the run (default: data)"
    )
    source.add_argument(
        "--looks", type=Path, nargs="+", metavar="DIR", help="folders of evaluations, one for each policy"
    )
    parser.add_argument("--output", type=Path, default=Path("docs/results/run"), help="(default: %(default)s)")
    args = parser.parse_args()

    runs = [list(of_run(data)) for data in args.data] if not args.looks else []
    for kept in list(of_looks(args.looks) if args.looks else map(as_one, *runs)):
        write_table(args.output / "evaluation" / kept.name, kept.table, kept.schema, kept.origin)
    if not args.looks:
        keep_trainings(args.data, args.output)


def keep_trainings(folders: Sequence[Path], output: Path) -> None:
    """Keep histories and costs of the trainings, and small policies; none of trainings that no run has."""
    for pattern in (*OF_TRAININGS, *OF_POLICIES):
        found = {
            path.relative_to(data): path
            for data in reversed(folders)
            for path in data.glob(pattern)
            if pattern in OF_TRAININGS or _is_small(path.parent)
        }
        for old in {path.relative_to(output) for path in output.glob(pattern)} - set(found):
            (output / old).unlink()
        for name, path in sorted(found.items()):
            write_bytes(output / name, path.read_bytes())


def _is_small(policy: Path) -> bool:
    weights = policy / "weights.npy"
    return weights.exists() and weights.stat().st_size <= MOST_WEIGHT_BYTES


def of_run(data: Path) -> Iterator[Kept]:
    """What ships, modules of the split that is judged, and what programs execute, if any ran."""
    evaluation, ran = data / "evaluation", find_programs(data)
    yield _read(evaluation / "shipped.parquet", SHIPPED_SIZES)
    results = _read(evaluation / "results.parquet", RESULTS)
    judged = judged_split(results.table["split"].to_pylist())
    of_split = results.table.filter(pc.field("split") == judged)
    yield results._replace(table=of_split.sort_by([("project", "ascending"), ("module", "ascending")]))  # smaller file
    if ran.exists():
        yield _read(ran, PROGRAMS)


def as_one(first: Kept, *others: Kept) -> Kept:
    """A table of several runs: of each contender, and each seed of it, what the first run says that has it."""
    if not others:
        return first
    origins = [kept.origin for kept in (first, *others)]
    if len(set(re.findall(r'"scores_sha256": "(\w+)"', json.dumps(origins)))) > 1:
        raise ArtifactError("these runs measured different corpora or compilers; keep them in folders of their own")
    names = [name for name in CONTENDER if name in first.schema.names]
    tables, known = [first.table], set(_rows(first.table, names))
    for other in others:
        rows = _rows(other.table, names)
        tables.append(other.table.filter(pa.array([row not in known for row in rows])))
        known.update(rows)
    return first._replace(table=pa.concat_tables(tables), origin={"runs": origins})


def of_looks(folders: Sequence[Path]) -> Iterator[Kept]:
    """What ships and modules under several policies; sizes without a policy are those of the first look."""
    for name, schema in (("shipped.parquet", SHIPPED_SIZES), ("results.parquet", RESULTS)):
        looks = [_read(folder / name, schema) for folder in folders]
        own = [
            look.table.filter(pc.field("contender") == look.origin["policy"]) if schema is SHIPPED_SIZES else look.table
            for look in looks[1:]
        ]
        origin = {"looks": {look.origin["policy"]: look.origin for look in looks}}
        yield Kept(name, pa.concat_tables([looks[0].table, *own]), schema, origin)


def _rows(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _read(path: Path, schema: pa.Schema) -> Kept:
    return Kept(path.name, read_table(path, schema), schema, read_provenance(path))


if __name__ == "__main__":
    run_program(main)
