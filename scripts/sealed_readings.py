"""Print what the kept looks at the sealed test set say beside README's table; nothing is compiled or evaluated.

Gains are of linked files in total, and by the geometric mean of projects, over all seeds.

Example:
    python scripts/sealed_readings.py
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, read_table
from mlgo.base.sealed import load_sealed
from mlgo.cli.program import add_options, run_program
from mlgo.compare.inference import DEFAULT, Comparison, compare_scores
from mlgo.compare.programs import contenders_of, measured_programs
from mlgo.compare.scores import ScoreMatrix
from mlgo.report.pages import Table, count_column, gain_column, text_column
from mlgo.report.seen_code import MOST_SEEN, seen_by_program

LARGEST = "pycld2"
"""Half of all bytes, nearly all of them constants."""

LIBRARY = "nanobind"
"""A library that several projects compile into their linked files."""

SECTIONS = ("text", "read_only", "unwind")


class Reading(NamedTuple):
    """Some of the linked files, all seeds together."""

    of: str
    comparison: Comparison


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, default=Path("docs/results"), help="with sealed/ and sealed-search/")
    add_options(parser, "--json")
    args = parser.parse_args()
    evaluation = args.kept / "sealed" / "evaluation"
    shipped = read_table(evaluation / "shipped.parquet", SHIPPED_SIZES)
    measured = measured_programs(shipped, [one for one in contenders_of(shipped) if one.is_policy])
    library = library_bytes(evaluation / "results.parquet")
    readings = list(read(measured, library))
    seen = {key: share for key, share in seen_by_program(shipped).items() if share > MOST_SEEN}
    shares = known_shares(measured, args.kept / "sealed-search" / "evaluation" / "shipped.parquet")
    saved = {part: float((measured.baseline[part] - measured.scores[part].mean(axis=0)).sum()) for part in SECTIONS}
    if args.json:
        gains = {reading.of: reading.comparison.record() for reading in readings}
        most = {"/".join(key): share for key, share in seen.items()}
        record = {"gains": gains, "saved": saved, LIBRARY: library, "seen": most, "known": shares}
        print(json.dumps(record, indent=2))
        return
    print(Table(_COLUMNS, readings).markdown())
    whole = sum(saved.values())
    print(f"\nOf the bytes saved: {_listed({part: one / whole for part, one in saved.items()}, '{:.0%}')}.")
    print(f"\nText bytes of {LIBRARY} in the objects of a project, under the heuristic: {_listed(library, '{:,}')}.")
    print(f"\n{len(seen)} linked files are over {MOST_SEEN:.0%} seen, of their own code: ", end="")
    print(f"{_listed({Path(key[1]).name: share for key, share in seen.items()}, '{:.1%}')}.")
    print(f"\nShare of what the search knows, mean of the seeds: {_listed(shares, '{:.0%}')}.")


def read(measured: ScoreMatrix, library: Mapping[str, int]) -> Iterator[Reading]:
    """Gains of parts of the linked files."""
    languages = {project.name: project.language for project in load_sealed().projects}
    written = np.array([languages[name] for name in measured.projects])
    parts = {
        "all": measured.where(),
        f"without {LARGEST}": measured.projects != LARGEST,
        "C++ if any module is (as in README's table)": measured.where(language="c++"),
        "C if all modules are": measured.where(language="c"),
        "mainly C++ (config/sealed.yaml)": written == "c++",
        "mainly C": written == "c",
    }
    if library:
        first, *others = library
        parts[f"of those with {LIBRARY}, {first} alone"] = ~np.isin(measured.projects, others)
        parts[f"without those with {LIBRARY}"] = ~np.isin(measured.projects, list(library))
    for of, chosen in parts.items():
        scores, baseline = measured.scores["total"][:, chosen], measured.baseline["total"][chosen]
        names = np.array(measured.keys, object)[chosen].tolist()
        yield Reading(of, compare_scores(scores, baseline, measured.projects[chosen], DEFAULT, names))


def library_bytes(results: Path) -> dict[str, int]:
    """Text of the library's objects under the heuristic, by project, largest share of the project first."""
    found: dict[str, int] = {}
    for row in read_table(results, RESULTS).to_pylist():
        if LIBRARY in row["module"] and row["seed"] == 0:
            found[row["project"]] = found.get(row["project"], 0) + (row["baseline_text_bytes"] or 0)
    return found


def known_shares(measured: ScoreMatrix, searched: Path) -> dict[str, float]:
    """Share of the bytes that a search saved which the policies save, by language of the linked files."""
    rows = read_table(searched, SHIPPED_SIZES).to_pylist()
    least: dict[tuple[str, str], int] = {}
    for row in (row for row in rows if not row["folded"]):
        key = row["project"], row["program"]
        least[key] = min(least.get(key, row["total"]), row["total"])
    best = np.array([least[key] for key in zip(measured.projects, measured.items["program"], strict=True)])
    before, after = measured.baseline["total"], measured.scores["total"].mean(axis=0)
    parts = {"all": measured.where(), "C++": measured.where(language="c++"), "C": measured.where(language="c")}
    return {
        name: float((before - after)[chosen].sum() / (before - best)[chosen].sum()) for name, chosen in parts.items()
    }


def _listed(values: Mapping[str, Any], form: str) -> str:
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())


_COLUMNS = [
    text_column("linked files", lambda row: row.of),
    count_column("projects", lambda row: row.comparison.num_projects),
    count_column("files", lambda row: row.comparison.num_compared),
    gain_column("gain in total", lambda row: row.comparison.total),
    gain_column("geometric mean of projects", lambda row: row.comparison.geomean),
]


if __name__ == "__main__":
    run_program(main)
