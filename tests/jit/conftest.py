"""SuperPMI's double with a small collection."""

import json
import sys
from pathlib import Path

import pytest

from tests.fakes.collection import make_collection

DOUBLE = Path(__file__).parents[1] / "fakes" / "superpmi.py"


@pytest.fixture(scope="session")
def superpmi(tmp_path_factory) -> dict:
    """Arguments that name the double, a JIT and a collection of 60 methods."""
    folder = tmp_path_factory.mktemp("superpmi")
    (folder / "libclrjit.so").touch()
    (folder / "methods.mch").write_text(json.dumps(make_collection(60, 0)))
    return {
        "command": [sys.executable, str(DOUBLE)],
        "jit": str(folder / "libclrjit.so"),
        "collection": str(folder / "methods.mch"),
    }
