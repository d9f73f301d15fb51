"""What LLVM's cmake does with a SavedModel: compiled ahead of time, one object, asked by LLVM's names."""

import subprocess

import numpy as np
import pytest

from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_linker
from tests.deploy.export.cases import CASES, TIES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # zig builds its C++ library first


@pytest.mark.parametrize("task", CASES)
def test_one_object_decides_as_the_policy_and_needs_nothing_but_the_runtime(task, export):
    policy, make_trace, *_ = CASES[task]
    exported = export(policy, make_trace(), "aot")
    model = get_task(policy.task).model
    assert {path.name for path in (exported.folder / "aot").iterdir()} == {f"{model}.h", f"{model}.o"}
    parity = exported.compare(exported.decisions("aot"))
    assert (parity.questions, parity.mismatches) == (exported.trace.num_rows, 0)
    assert parity.ambiguous <= 3
    # Its weights are in it, and what it calls is in the C library.
    code = exported.folder / f"aot/{model}.o"
    assert code.stat().st_size > policy.weights.nbytes
    command = [find_linker(), "ld.lld", "-shared", "-z", "defs", "-o", exported.folder / "alone.so", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "_constant_buffer_contents" not in run.stderr


@pytest.mark.parametrize("task", TIES)
def test_ties_are_decided_as_by_hand(task, export):
    policy, trace, decisions = TIES[task]()
    np.testing.assert_array_equal(export(policy, trace, "aot").decisions("aot"), decisions)
