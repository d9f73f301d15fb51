"""Lint the Snakefile and every rules file; exit 1 on any finding but one.

Snakemake wants a conda environment or container for each rule. Here all programs run in one environment that the
lock file pins by hash, so that finding alone is passed over.

Example:
    python scripts/lint_workflow.py
"""

import subprocess
import sys
from pathlib import Path

from mlgo.cli.program import run_program
from mlgo.errors import MlgoError

PASSED_OVER = "Specify a conda environment or container for each rule."


def main() -> int:
    findings = [
        f"{snakefile}: {finding}"
        for snakefile in (Path("Snakefile"), *sorted(Path("workflow/rules").glob("*.smk")))
        for finding in lint(snakefile)
    ]
    print("\n".join(findings) or "workflow: nothing to mend")
    return 1 if findings else 0


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
