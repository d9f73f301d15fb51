"""The data sheet names what is observed."""

from pathlib import Path

from mlgo.jit.state import JIT_COLUMNS


def test_every_feature_is_in_its_data_sheet():
    sheet = Path("docs/jit-cse.md").read_text().partition("**Features of `mlgo/JitCse-v0`**")[2].partition("\n## ")[0]
    assert [name for name in JIT_COLUMNS if f"`{name}`" not in sheet] == []
