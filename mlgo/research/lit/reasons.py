"""Why a test cannot be run here: told by the programs that it starts, in a file that the environment names."""

import os
import re
import sys
from pathlib import Path

REASON = "MLGO_LIT_REASON"
"""Environment variable with the path of the file."""

STATUS = 77
"""Exit status of a program that cannot do what is asked for."""

_UNKNOWN = re.compile(r"Unknown command line argument '([^'=]*)|unknown argument: '([^'=]*)")


def not_applicable(reason: str) -> int:
    """Tell a reason, and give the status to end with."""
    if REASON in os.environ:
        with Path(os.environ[REASON]).open("a") as file:
            file.write(reason + "\n")
    print(reason, file=sys.stderr)
    return STATUS


def unknown_option(told: str) -> str:
    """That a tool of LLVM refuses an option because it does not know it; empty if it does not say so."""
    found = _UNKNOWN.search(told)
    return f"this compiler does not know {found[1] or found[2]}" if found else ""
