"""Compile all units without elimination and under the built-in heuristic; choose and split those to learn from.

Example:
    python scripts/enumerate_cse.py --preset config/presets/gcc-pre.yaml --sources data/cse/corpus/sources.parquet \
        --workers 2 --output data/cse/baseline
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

from mlgo.cli.arguments import choice_pool, cse_compiler_of, cse_parser, settings_of
from mlgo.cli.program import run_program
from mlgo.core.artifacts import CSE_COMPILES, CSE_UNITS, cse_candidates_schema, provenance, write_rows
from mlgo.core.config import CorpusConfig, CseConfig
from mlgo.core.errors import CorpusError
from mlgo.core.files import file_sha256, write_json
from mlgo.core.seeding import sample
from mlgo.problems.gcc.compiler import GccSpec
from mlgo.problems.jit.compiler import SuperPmiSpec, body_hash
from mlgo.problems.subset.compiler import Compiled, Failed, Outcome, Unit
from mlgo.problems.subset.jobs import FindJob
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.selection import Eligible, repeats, stratified_split
from mlgo.problems.subset.stored import choice_row

Baselines = dict[str, tuple[Outcome, Outcome]]
"""Outcomes without elimination and under the heuristic, by unit."""


def main() -> None:
    args = cse_parser(__doc__).parse_args()
    settings = settings_of(args)
    (config, spec), seed = cse_compiler_of(args, settings), settings.value("seed")
    corpus = settings.section("corpus", CorpusConfig)
    if isinstance(spec, GccSpec):
        with choice_pool(args, settings, spec) as pool:
            units, baselines = of_sources(spec, pool)
    else:
        units, baselines = of_collection(spec)
    skipped = skip_reasons(units, baselines, config)
    eligible = [unit for unit in units if not skipped[unit.name]]
    if isinstance(spec, GccSpec):
        owner = {project: split for split, projects in corpus.splits.model_dump().items() for project in projects}
        split = {unit.name: owner[unit.project] for unit in units}
    else:
        taken = sample(eligible, config.superpmi.max_methods, seed, "cse", "methods")
        kept = set(taken)
        skipped |= {unit.name: "sampled: cse.superpmi.max_methods" for unit in eligible if unit not in kept}
        eligible = taken
        split = split_methods(eligible, baselines, config.superpmi, seed)
    if not eligible:
        raise CorpusError(f"none of {len(units)} units is eligible; lower cse.min_viable or raise cse.max_candidates")
    origin = provenance(
        task=settings.value("task"),
        compiler=spec.described(),
        cse=config.model_dump(exclude={"superpmi": {"core_root", "collection", "command", "jit"}}),
        seed=seed,
        **({"sources_sha256": file_sha256(args.sources)} if args.sources else {}),
    )
    rows = [unit_row(unit, baselines[unit.name][0], split.get(unit.name, ""), skipped[unit.name]) for unit in units]
    write_rows(args.output / "units.parquet", rows, CSE_UNITS, origin)
    compiles = [
        {"unit": unit.name, "way": way, **choice_row(outcome)}
        for unit in units
        for way, outcome in zip(("none", "heuristic"), baselines[unit.name], strict=True)
    ]
    write_rows(args.output / "compiles.parquet", compiles, CSE_COMPILES, origin)
    names, candidates = candidate_rows(eligible, baselines)
    write_rows(args.output / "candidates.parquet", candidates, cse_candidates_schema(names), origin)
    write_json(args.output / "summary.json", summary(rows, len(candidates)))


def of_sources(spec: GccSpec, pool: CsePool) -> tuple[Sequence[Unit], Baselines]:
    """Translation units of a GCC, two compiles each."""
    sources = spec.translation_units()
    with tqdm(total=len(sources), desc="baseline", unit="source", disable=None) as bar:
        found = pool.map([FindJob((source.name,)) for source in sources], bar.update)
    lost = Failed("worker", "the worker died")
    units: list[Unit] = []
    baselines: Baselines = {}
    for source in sources:
        whole = Unit(source.name, source.project, hashlib.sha256(source.text).hexdigest(), source.language)
        for unit, none, heuristic in found.get(source.name, [(whole, lost, lost)]):
            units.append(unit)
            baselines[unit.name] = none, heuristic
    return units, baselines


def of_collection(spec: SuperPmiSpec) -> tuple[Sequence[Unit], Baselines]:
    """Methods of a collection, in two runs over all of it."""
    spec.check()
    runs: list[dict[str, Compiled]] = []
    for no_cse, title in ((True, "no elimination"), (False, "heuristic")):
        bar = tqdm(spec.baseline(no_cse=no_cse), title, unit="method", disable=None)
        runs.append({str(metrics.index): compiled for metrics, compiled in bar})
    none, heuristic = runs
    units = [Unit(name, "", body_hash(compiled.candidates)) for name, compiled in none.items()]
    missing = Failed("no_metrics", "the heuristic's run gives no metrics for it")
    return units, {name: (compiled, heuristic.get(name, missing)) for name, compiled in none.items()}


def skip_reasons(units: Sequence[Unit], baselines: Baselines, config: CseConfig) -> dict[str, str]:
    """Why each unit is left out, empty where it is not."""
    rule = Eligible(config.min_viable, config.max_candidates)
    reasons = {unit.name: rule.skip_reason(*baselines[unit.name]) for unit in units}
    fit = [unit for unit in units if not reasons[unit.name]]
    return reasons | {name: f"same code as another: {first}" for name, first in repeats(fit).items()}


def split_methods(units: Sequence[Unit], baselines: Baselines, config: Any, seed: int) -> dict[str, str]:
    """Sides of methods, which belong to no project."""
    viable = {unit.name: num_viable(baselines[unit.name][0]) for unit in units}
    shares = {"test": config.test_share, "validation": config.validation_share}
    return stratified_split(viable, shares, "train", seed)


def num_viable(outcome: Outcome) -> int:
    assert isinstance(outcome, Compiled)
    return int(outcome.candidates.viable.sum())


def unit_row(unit: Unit, none: Outcome, split: str, skip_reason: str) -> dict[str, Any]:
    """A row of ``artifacts.CSE_UNITS``."""
    return {
        "unit": unit.name,
        "project": unit.project,
        "language": unit.language,
        "split": split,
        "body_sha256": unit.body_sha256,
        "batch": unit.batch,
        "num_candidates": len(none.candidates) if isinstance(none, Compiled) else None,
        "num_viable": num_viable(none) if isinstance(none, Compiled) else None,
        "skip_reason": skip_reason,
    }


def candidate_rows(units: Sequence[Unit], baselines: Baselines) -> tuple[list[str], list[dict[str, Any]]]:
    """Names of all features, and rows of ``artifacts.cse_candidates_schema``."""
    found = [
        (unit.name, outcome.candidates) for unit in units if isinstance(outcome := baselines[unit.name][0], Compiled)
    ]
    names = list(dict.fromkeys(name for _, candidates in found for name in candidates.names))
    rows = [
        {"unit": unit, "position": position, "viable": bool(candidates.viable[position])}
        | {f"f_{name}": 0 for name in names}
        | {f"f_{name}": int(value) for name, value in zip(candidates.names, values, strict=True)}
        for unit, candidates in found
        for position, values in enumerate(candidates.values)
    ]
    return names, rows


def summary(rows: Sequence[Mapping[str, Any]], num_candidates: int) -> dict[str, Any]:
    """Counts of units by split, and why others are left out."""
    reasons: dict[str, int] = {}
    for row in rows:
        if row["skip_reason"]:
            reason = row["skip_reason"].partition(":")[0]  # without the figure or the name
            reasons[reason] = reasons.get(reason, 0) + 1
    kept = [row["split"] for row in rows if not row["skip_reason"]]
    return {
        "units": {split: kept.count(split) for split in ("train", "validation", "test")},
        "candidates": num_candidates,
        "left_out": dict(sorted(reasons.items())),
    }


if __name__ == "__main__":
    run_program(main)
