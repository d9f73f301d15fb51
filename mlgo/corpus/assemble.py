"""From projects to a corpus: duplicates out, splits in, shared function bodies counted."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import PROJECT, Row, RowView, table_rows
from mlgo.errors import CorpusError

Source = RowView
"""A row of ``artifacts.PROJECT`` with hash and size of the bitcode instead of the bitcode, see `without_bitcode`."""

SPLITS = ("train", "validation", "test")

_DUPLICATE = "duplicate:"


def read_sources(path: Path) -> list[Source]:
    """Read a project's sources without their bitcode, of which a row group is in memory at a time."""
    return [without_bitcode(row) for row in table_rows(path, PROJECT, PROJECT.names)]


def without_bitcode(row: RowView) -> Source:
    """A row of ``artifacts.PROJECT`` with ``bitcode_sha256`` and ``bitcode_bytes`` instead of the bitcode itself."""
    bitcode = row["bitcode"]
    digest = "" if bitcode is None else hashlib.sha256(bitcode).hexdigest()
    content = {"bitcode_sha256": digest, "bitcode_bytes": len(bitcode or b"")}
    hashes, sizes = np.array(row["function_hashes"], np.uint64), np.array(row["function_sizes"], np.int32)
    rest = {name: value for name, value in row.items() if name != "bitcode"}
    return rest | content | {"function_hashes": hashes, "function_sizes": sizes}


def assemble(projects: Mapping[str, Sequence[Source]], splits: Mapping[str, list[str]]) -> list[Row]:
    """Rows of ``artifacts.MODULES``, one per source, by split, project and path.

    A module whose IR equals that of an earlier one (splits in the order train, validation, test, then by name) is
    skipped as a duplicate. Functions are shared when a body occurs in more than one split.
    """
    rows: list[tuple[str, Source]] = []
    seen: dict[str, str] = {}
    for split in SPLITS:
        for project in sorted(splits[split]):
            for source in projects[project]:
                key = source["ir_sha256"]
                if not source["skip_reason"] and key in seen:
                    source = {**source, "skip_reason": f"{_DUPLICATE} same code as {seen[key]}"}
                elif not source["skip_reason"]:
                    seen[key] = f"{project}/{source['module']}"
                rows.append((split, source))
    _check_every_split_has_modules(rows, splits)
    bodies: dict[str, set[int]] = {split: set() for split in SPLITS}
    for split, source in rows:
        if not source["skip_reason"]:
            bodies[split].update(source["function_hashes"].tolist())
    return [_manifest_row(split, source, list(bodies.values())) for split, source in rows]


def assemble_programs(
    projects: Mapping[str, Sequence[Source]], programs: Mapping[str, pa.Table], manifest: list[Row]
) -> list[Row]:
    """Rows of ``artifacts.PROGRAMS_OF_CORPUS``, by split, project and as the project lists them.

    Args:
        projects: sources by project.
        programs: rows of ``artifacts.PROGRAMS_OF_PROJECT`` by project.
        manifest: what `assemble` made of the projects.
    """
    skipped = {(row["project"], row["module"]): row["skip_reason"] for row in manifest}
    duplicates = {
        (project, source["module"]): {name: source[name] for name in ("module", "language", "bitcode_sha256")}
        for project, sources in projects.items()
        for source in sources
        if skipped.get((project, source["module"]), "").startswith(_DUPLICATE)
    }
    rows = []
    for project, split in {row["project"]: row["split"] for row in manifest}.items():
        for program in programs[project].to_pylist():
            names = dict.fromkeys((project, name) for part in program["parts"] for name in part["modules"])
            found = [duplicates[name] for name in names if name in duplicates]
            rows.append({**program, "split": split, "duplicates": found})
    return rows


def shared_bodies(projects: Mapping[str, Sequence[Source]], manifest: list[Row]) -> dict[str, dict[str, int]]:
    """Distinct function bodies that two splits share, and instructions of one copy of each, by ``train/test`` etc."""
    taken = {(row["project"], row["module"]): row["split"] for row in manifest if not row["skip_reason"]}
    bodies: dict[str, dict[int, int]] = {split: {} for split in SPLITS}
    for sources in projects.values():
        for row in sources:
            split = taken.get((row["project"], row["module"]))
            if split is not None:
                bodies[split].update(zip(row["function_hashes"].tolist(), row["function_sizes"].tolist(), strict=True))
    found = {}
    for one, other in combinations(SPLITS, 2):
        shared = bodies[one].keys() & bodies[other].keys()
        found[f"{one}/{other}"] = {"bodies": len(shared), "instructions": sum(bodies[one][body] for body in shared)}
    return found


def _check_every_split_has_modules(rows: list[tuple[str, Source]], splits: Mapping[str, list[str]]) -> None:
    counts = Counter(split for split, source in rows if not source["skip_reason"])
    for split in SPLITS:
        if splits[split] and not counts[split]:
            reasons = Counter(source["skip_reason"].split(":")[0] for s, source in rows if s == split)
            raise CorpusError(
                f"the corpus has no {split} module (sources left out: {dict(reasons) or 'none found'}); "
                f"name other projects in corpus.splits.{split}"
            )


def _manifest_row(split: str, source: Source, bodies: Sequence[set[int]]) -> Row:
    used = not source["skip_reason"]
    sizes = np.array(source["function_sizes"] if used else [], np.int64)
    hashes = source["function_hashes"].tolist() if used else []
    shared = np.array([sum(body in of for of in bodies) > 1 for body in hashes], bool)
    return {
        "project": source["project"],
        "module": source["module"],
        "language": source["language"],
        "licence": source["licence"],
        "split": split,
        "bitcode_sha256": source["bitcode_sha256"] if used else "",
        "bitcode_bytes": source["bitcode_bytes"] if used else 0,
        "num_functions": len(sizes),
        "num_instructions": int(sizes.sum()),
        "shared_functions": int(shared.sum()),
        "shared_instructions": int(sizes[shared].sum()),
        "skip_reason": source["skip_reason"],
    }
