"""The names that `import mlgo` offers, as docs/library.md shows them."""

import re
import subprocess
import sys

import pytest

import mlgo
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/library.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)  # where configuration, sample and released policy are
    report = tmp_path / "comparisons.json"
    report.write_text('{"test": {}}')
    code = "\n".join(blocks()).replace("data/report/comparisons.json", str(report))
    names: dict = {}
    exec(compile(code, "docs/library.md", "exec"), names)
    assert (names["plain"].score("text_bytes"), names["advised"].score("text_bytes")) == (5854, 5103)
    assert round(names["gain"], 3) == 0.128
    assert (names["terminated"], names["reward"]) == (True, 0.0)
    assert names["report"] == {"test": {}}


def test_the_page_lists_all_names():
    listed = re.findall(r"`(\w+)[(`]", "".join(line.split(" | ")[0] for line in PAGE.splitlines() if line[:3] == "| `"))
    assert sorted(listed) == mlgo.__all__
    for name in mlgo.__all__:
        assert callable(getattr(mlgo, name))
        assert name in dir(mlgo)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mlgo.nothing


def test_the_import_loads_nothing_heavy():
    code = "import sys, mlgo; sys.exit(any(name in sys.modules for name in ('numpy', 'pyarrow', 'mlgo.errors')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
