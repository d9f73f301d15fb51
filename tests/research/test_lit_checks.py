"""Directives of FileCheck: by hand, and against the real one."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.research.lit_standins import mismatch

TEXT = "context: f\nobservation: 0\nmask: 0,1,1\nsize:  7\nobservation: 1\nmask: 0,0,1\nadvice: 1\nadvice: 2\n"
CASES = [
    (["CHECK: context: f"], True),
    (["CHECK: context: f", "CHECK-NEXT: observation: 0", "CHECK-NEXT: mask: 0,1,1"], True),
    (["CHECK: context: f", "CHECK-NEXT: mask: 0,1,1"], False),
    (["CHECK: size: 7"], True),  # blanks count as one
    (["CHECK: observation: 1", "CHECK: mask: 0,1,1"], False),  # it stands before
    (["CHECK: mask: 0,{{[01]}},1", "CHECK: mask: 0,{{0|7}},1"], True),
    (["CHECK: mask: {{0,0}},1", "CHECK: mask"], False),
    (["CHECK: observation: 0", "CHECK-NOT: observation: 1", "CHECK: mask: 0,0,1"], False),
    (["CHECK: observation: 0", "CHECK-NOT: observation: 2", "CHECK: mask: 0,0,1"], True),
    (["CHECK: observation: 1", "CHECK-NOT: observation: 0"], True),
    (["CHECK: observation: 1", "CHECK-NOT: advice: 2"], False),
    (["CHECK-NOT: context", "CHECK: observation: 0"], False),
    (["CHECK: advice: 1", "CHECK-NEXT: advice: 2"], True),
    (["CHECK: advice: 1", "CHECK-NEXT: advice: 1"], False),
    (["CHECK: size. 7"], False),  # no regular expression
    (["OTHER: size: 8"], False),  # no directive at all
    (["CHECK: context", "CHECK-OTHER: none such"], True),  # another prefix
    (["RUN: FileCheck CHECK: none such", "CHECK: context"], True),
]


REAL = next(filter(None, map(shutil.which, ("FileCheck", *(f"FileCheck-{one}" for one in range(30, 12, -1))))), None)


@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_by_hand(lines, expected):
    assert (mismatch("\n".join(f"; {line}" for line in lines), TEXT, ["CHECK"]) == "") == expected


@pytest.mark.skipif(REAL is None, reason="needs FileCheck")
@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_as_the_real_one(lines, expected, tmp_path):
    (tmp_path / "checks").write_text("\n".join(f"; {line}" for line in lines))
    run = subprocess.run([REAL, tmp_path / "checks"], input=TEXT, text=True, capture_output=True, check=False)
    assert (run.returncode == 0) == expected


def test_prefixes_and_what_may_stand_nowhere():
    checks = "; CHECK: observation: 0\n; DEFAULT: size: 8\n; DEFAULT-NOT: nan\n"
    assert mismatch(checks, TEXT, ["CHECK"]) == ""
    assert mismatch(checks, TEXT, ["CHECK", "DEFAULT"]) == "line 2, DEFAULT: size: 8: not found after 'observation: 0'"
    assert mismatch("CHECK: context", TEXT, ["CHECK"], ["advice: 2"]) == "advice: 2 stands at the end"


@pytest.mark.parametrize("line", ["CHECK-DAG: a", "CHECK-SAME: a", "CHECK-COUNT-2: a", "CHECK: [[X:.*]]"])
def test_what_only_the_real_one_knows_is_said(line):
    with pytest.raises(NotImplementedError):
        mismatch(line, "a", ["CHECK"])


@given(st.lists(st.text("ab: ", min_size=1, max_size=5), min_size=1, max_size=6))
def test_lines_are_found_in_their_own_text(lines):
    wanted = [line.strip() for line in lines if line.strip()]
    if wanted:
        assert mismatch("\n".join(f"CHECK: {line}" for line in wanted), "\n".join(lines), ["CHECK"]) == ""
