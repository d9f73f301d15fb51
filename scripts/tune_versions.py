"""Tune a program once and build its later versions with the result: how much of the gain is kept.

Versions are source distributions of the index, the first of which is tuned. Each later one is built under the base
policy and under the tuned one, without a search. What was built or tuned before is not done again.

Example:
    python scripts/tune_versions.py --output tuned --budget 100 ujson==5.8.0,5.9.0,5.10.0 pyclipper==1.3.0,1.3.0.post6
    python scripts/tune_versions.py --output tuned > docs/results/tuned-versions.md
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo.base.files import write_json
from mlgo.base.packages import canonical_name
from mlgo.cli.program import positive, run_program
from mlgo.host.tasks.task import HEURISTIC
from mlgo.report.pages import Table, count_column, gain_column, text_column

_MLGO = Path(sys.executable).with_name("mlgo")
_PAGE = """\
# Tuned programs as they age

By `python scripts/tune_versions.py --output DIR --budget {budget} NAME==VERSION,VERSION ...`, linked files as
`{ships}`. The first version of each was tuned. Gains are against `-Oz` in the same form; *kept* is what the result
adds to its base, as a share of the first version's.
"""


def main() -> None:
    """Tune and build what is named, then print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="for captures, policies and results")
    parser.add_argument("--policy", default="marginal-s0", metavar="P", help="base (default: %(default)s)")
    parser.add_argument("--ships", default="whole,sections=yes,folding=all", help="default: %(default)s")
    parser.add_argument("--budget", type=positive, default=100, help="compiles (default: %(default)s)")
    parser.add_argument("--timeout", type=positive, default=3600, help="seconds for a command (default: %(default)s)")
    parser.add_argument("names", nargs="*", metavar="NAME==VERSION,...")
    args = parser.parse_args()
    for spec in args.names:
        name, _, versions = spec.partition("==")
        first, *_ = versions = versions.split(",")
        for version in versions:
            result = args.output / "results" / f"{canonical_name(name)}-{versions.index(version)}.json"
            if not result.exists():
                write_json(result, {"name": name, "version": version, **attempt(name, first, version, args)})
    rows = [json.loads(path.read_text()) for path in sorted((args.output / "results").glob("*.json"))]
    print(f"{_PAGE.format(budget=args.budget, ships=args.ships)}\n{_table(rows).markdown()}")


def attempt(name: str, first: str, version: str, args: argparse.Namespace) -> dict[str, Any]:
    """Build a version under both policies; the first is tuned before. Returns totals by policy, or what failed."""
    project, tuned = args.output / "captured" / f"{name}-{version}", args.output / "policies" / name
    found: dict[str, Any] = {"first": first}
    try:
        if not project.exists():
            _run(["capture", "--json", "-o", str(project), "--name", name, "--sdist", f"{name}=={version}"], args)
        if version == first and not (tuned / "decisions.csv").exists():
            words = ["--policy", args.policy, "--ships", args.ships, "--budget", str(args.budget)]
            _run(["tune", str(project), "-o", str(tuned), *words, "--json"], args)
        for kind, policy in ("base", args.policy), ("tuned", str(tuned)):
            words = ["--project", str(project), "--languages", "c,c++", "--ships", args.ships, "--no-references"]
            output = args.output / "evaluated" / f"{name}-{version}-{kind}"
            said = _run(["evaluate", "--policy", policy, *words, "--output", str(output), "--json"], args)
            rows = [row for row in json.loads(said.stdout)["shipped"] if not row["folded"] and not row["failure"]]
            found[kind] = sum(row["total"] for row in rows if row["contender"] != HEURISTIC)
            found[HEURISTIC] = sum(row["total"] for row in rows if row["contender"] == HEURISTIC)
        (known,) = re.findall(r"asks (\d+)% of the questions", said.stderr)
    except subprocess.CalledProcessError as error:
        return {"failed": (error.stderr.strip().splitlines() or ["nothing was said"])[-1][:200]}
    except subprocess.TimeoutExpired:
        return {"failed": f"no end within {args.timeout} s"}
    return found | {"known": int(known)}


def _run(words: Sequence[str], args: argparse.Namespace) -> "subprocess.CompletedProcess[str]":
    print("mlgo", *words, file=sys.stderr, flush=True)
    command = [str(_MLGO), *words]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True, timeout=args.timeout
    )


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    added = {row["name"]: _added(row) for row in rows if row["version"] == row.get("first")}

    def kept(row: dict[str, Any]) -> float | None:
        return _added(row) / added[row["name"]] if "base" in row and added.get(row["name"]) else None

    return Table(
        [
            text_column("program", lambda row: f"{row['name']} {row['version']}"),
            count_column("heuristic (bytes)", lambda row: row.get(HEURISTIC)),
            gain_column("base policy", lambda row: 1 - row["base"] / row[HEURISTIC] if "base" in row else None),
            gain_column("tuned", lambda row: 1 - row["tuned"] / row[HEURISTIC] if "base" in row else None),
            text_column("kept", lambda row: "" if (share := kept(row)) is None else f"{share:.0%}"),
            text_column("questions known", lambda row: f"{row['known']}%" if "known" in row else ""),
            text_column("failed", lambda row: row.get("failed", "")),
        ],
        rows,
    )


def _added(row: dict[str, Any]) -> float:
    """What the tuned policy gains beside its base, as a share of the heuristic's bytes."""
    return (row["base"] - row["tuned"]) / row[HEURISTIC] if "base" in row else 0.0


if __name__ == "__main__":
    run_program(main)
