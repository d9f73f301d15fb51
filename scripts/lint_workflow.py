"""Lint the Snakefile, every rules file, and what the stages of dvc.yaml depend on; exit 1 on any finding but one.

Snakemake wants a conda environment or container for each rule. Here all programs run in one environment that the
lock file pins by hash, so that finding alone is passed over. Which parts of mlgo a stage depends on follows from what
its programs import.

Example:
    python scripts/lint_workflow.py
    python scripts/lint_workflow.py --write     # writes these dependencies into dvc.yaml
"""

import re
import subprocess
import sys
from pathlib import Path

from mlgo.base.files import write_text
from mlgo.cli.program import run_program
from mlgo.errors import MlgoError

sys.path.append(str(Path(__file__).parents[1] / "workflow/rules"))
from import_graph import TASKS, ImportGraph

STAGES = Path("dvc.yaml")
TRAINS = "scripts/train.py"
FEW_FILES = 4
"""A stage that imports more files of a folder depends on the folder."""

PASSED_OVER = "Specify a conda environment or container for each rule."


_DEPS = re.compile(r"(?<=    deps:\n)(?:      - .*\n)+")


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        write_text(STAGES, with_imports(STAGES.read_text()))
        return 0
    findings = [
        f"{snakefile}: {finding}"
        for snakefile in (Path("Snakefile"), *sorted(Path("workflow/rules").glob("*.smk")))
        for finding in lint(snakefile)
    ]
    if with_imports(STAGES.read_text()) != STAGES.read_text():
        findings.append(f"{STAGES}: dependencies are not what the programs import; run this program with --write")
    print("\n".join(findings) or "workflow: nothing to mend")
    return 1 if findings else 0


def with_imports(stages: str) -> str:
    """The text of dvc.yaml in which each stage depends on what its programs import."""
    return _DEPS.sub(lambda match: "".join(f"      - {one}\n" for one in _with_code(match[0].split("\n"))), stages)


def _with_code(lines: list[str]) -> list[str]:
    deps = [line.removeprefix("      - ") for line in lines if line and not line.startswith("      - mlgo/")]
    graph = ImportGraph()
    files = {
        file
        for program in deps
        if program.startswith("scripts/")
        for file in graph.files(program, (TASKS, "mlgo.learn.") if program == TRAINS else (TASKS,))
    }
    position = deps.index("requirements.lock")
    return [*deps[:position], *_folders(files), *deps[position:]]


def _folders(files: set[str]) -> list[str]:
    by_folder: dict[str, list[str]] = {}
    for file in sorted(files):
        by_folder.setdefault("/".join(Path(file).parts[:2]), []).append(file)
    return [one for folder, some in by_folder.items() for one in ([folder] if len(some) > FEW_FILES else some)]


def lint(snakefile: Path) -> list[str]:
    """Findings of one file as ``where: title``.

    Raises:
        MlgoError: Snakemake cannot read the file.
    """
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--lint"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    where, findings = "", []
    for line in run.stderr.splitlines():
        if line.startswith("Lints for "):
            where = line.removeprefix("Lints for ").split(",")[0]
        elif line.startswith("    * "):
            findings.append(f"{where}: {line.strip(' *:')}")
    if run.returncode and not findings:
        raise MlgoError(f"{snakefile} cannot be linted: {run.stderr.strip()[-500:]}")
    return [finding for finding in findings if PASSED_OVER not in f"{finding}."]


if __name__ == "__main__":
    run_program(main)
