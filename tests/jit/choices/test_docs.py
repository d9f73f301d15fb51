"""The data sheets name what is observed."""

from pathlib import Path

import pytest

from mlgo.jit.gcc.features import GCC_COLUMNS
from mlgo.jit.superpmi.features import JIT_COLUMNS


@pytest.mark.parametrize(("title", "columns"), [("mlgo/JitCse-v0", JIT_COLUMNS), ("mlgo/GccPre-v0", GCC_COLUMNS)])
def test_every_feature_is_in_its_data_sheet(title, columns):
    sheet = Path("docs/cse.md").read_text().partition(f"**Features of `{title}`**")[2].partition("**Features of")[0]
    listed = sheet.replace("`_", "`function_")
    assert [name for name in columns if f"`{name}`" not in listed] == []
