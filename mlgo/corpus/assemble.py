"""From projects to a corpus: duplicates out, splits in, shared function bodies counted."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core.errors import CorpusError

SPLITS = ("train", "validation", "test")

_DUPLICATE = "duplicate:"


def assemble(projects: Mapping[str, pa.Table], splits: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Make the manifest of a corpus.

    A module whose IR equals that of an earlier one (splits in the order train, validation, test, then by name) is
    skipped as a duplicate. Functions are shared when a body occurs in more than one split.

    Args:
        projects: rows of ``artifacts.PROJECT`` by project.
        splits: projects of each split.

    Returns:
        Rows of ``artifacts.MODULES``, one per source, by split, project and path.

    Raises:
        CorpusError: no module is left in some split.
    """
    rows: list[tuple[str, dict[str, Any]]] = []
    seen: dict[str, str] = {}
    for split in SPLITS:
        for project in sorted(splits[split]):
            for source in projects[project].to_pylist():
                key = source["ir_sha256"]
                if not source["skip_reason"] and key in seen:
                    source["skip_reason"] = f"{_DUPLICATE} same code as {seen[key]}"
                elif not source["skip_reason"]:
                    seen[key] = f"{project}/{source['module']}"
                rows.append((split, source))
    _check_every_split_has_modules(rows)
    homes = _splits_of_bodies(rows)
    return [_manifest_row(split, source, homes) for split, source in rows]


def assemble_programs(
    projects: Mapping[str, pa.Table], programs: Mapping[str, pa.Table], manifest: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """List the linked files of a corpus.

    Args:
        projects: rows of ``artifacts.PROJECT`` by project.
        programs: rows of ``artifacts.PROGRAMS_OF_PROJECT`` by project.
        manifest: what `assemble` made of the projects.

    Returns:
        Rows of ``artifacts.PROGRAMS_OF_CORPUS``, by split, project and as the project lists them.
    """
    splits = {row["project"]: row["split"] for row in manifest}
    left_out: dict[str, set[str]] = {}
    for row in manifest:
        if row["skip_reason"].startswith(_DUPLICATE):
            left_out.setdefault(row["project"], set()).add(row["module"])
    rows = []
    for project, split in splits.items():
        duplicates = _duplicates(projects[project], left_out.get(project, set()))
        for program in programs[project].to_pylist():
            names = {name: True for part in program["parts"] for name in part["modules"] if name in duplicates}
            rows.append({**program, "split": split, "duplicates": [duplicates[name] for name in names]})
    return rows


def _duplicates(project: pa.Table, names: set[str]) -> dict[str, dict[str, str]]:
    """What ``artifacts.PROGRAMS_OF_CORPUS`` tells of some sources of a project, by name."""
    if not names:
        return {}
    chosen = project.filter(pc.field("module").isin(sorted(names))).select(["module", "language", "bitcode"])
    return {
        row["module"]: {
            "module": row["module"],
            "language": row["language"],
            "bitcode_sha256": hashlib.sha256(row["bitcode"]).hexdigest(),
        }
        for row in chosen.to_pylist()
    }


def shared_bodies(projects: Mapping[str, pa.Table], manifest: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Count the distinct function bodies that two splits share, for each pair of splits.

    Returns:
        ``{"train/test": {"bodies": ..., "instructions": ...}, ...}``; instructions of one copy of each body.
    """
    taken = {(row["project"], row["module"]): row["split"] for row in manifest if not row["skip_reason"]}
    bodies: dict[str, dict[int, int]] = {split: {} for split in SPLITS}
    for table in projects.values():
        for row in table.select(["project", "module", "function_hashes", "function_sizes"]).to_pylist():
            split = taken.get((row["project"], row["module"]))
            if split is not None:
                bodies[split].update(zip(row["function_hashes"], row["function_sizes"], strict=True))
    pairs = [(a, b) for i, a in enumerate(SPLITS) for b in SPLITS[i + 1 :]]
    shared = {f"{a}/{b}": bodies[a].keys() & bodies[b].keys() for a, b in pairs}
    return {
        pair: {"bodies": len(hashes), "instructions": sum(bodies[pair.split("/")[0]][h] for h in hashes)}
        for pair, hashes in shared.items()
    }


def _check_every_split_has_modules(rows: list[tuple[str, dict[str, Any]]]) -> None:
    counts = Counter(split for split, source in rows if not source["skip_reason"])
    for split in SPLITS:
        if not counts[split]:
            reasons = Counter(source["skip_reason"].split(":")[0] for s, source in rows if s == split)
            raise CorpusError(
                f"the corpus has no {split} module (sources left out: {dict(reasons) or 'none found'}); "
                f"name other projects in corpus.splits.{split}"
            )


def _splits_of_bodies(rows: list[tuple[str, dict[str, Any]]]) -> dict[int, int]:
    """Map each body to a bit set of the splits it occurs in."""
    homes: dict[int, int] = {}
    for split, source in rows:
        if not source["skip_reason"]:
            bit = 1 << SPLITS.index(split)
            for body in source["function_hashes"]:
                homes[body] = homes.get(body, 0) | bit
    return homes


def _manifest_row(split: str, source: dict[str, Any], homes: Mapping[int, int]) -> dict[str, Any]:
    used = not source["skip_reason"]
    bitcode = source["bitcode"] if used else None
    sizes = np.array(source["function_sizes"] if used else [], np.int64)
    shared = np.array([homes[body].bit_count() > 1 for body in source["function_hashes"]] if used else [], bool)
    return {
        "project": source["project"],
        "module": source["module"],
        "language": source["language"],
        "licence": source["licence"],
        "split": split,
        "bitcode_sha256": hashlib.sha256(bitcode).hexdigest() if bitcode is not None else "",
        "bitcode_bytes": len(bitcode) if bitcode is not None else 0,
        "num_functions": len(sizes),
        "num_instructions": int(sizes.sum()),
        "shared_functions": int(shared.sum()),
        "shared_instructions": int(sizes[shared].sum()),
        "skip_reason": source["skip_reason"],
    }
