"""Compiles by the real GCC in which single eliminations are chosen."""

import hashlib
import os
import time

import numpy as np
import pytest

from mlgo.errors import CompilerExit, CompilerMemory, CompileTimeout, ObjectError, RemarkError, ToolchainError
from mlgo.jit.gcc.compile import GccSettings
from mlgo.jit.gcc.features import FEATURES
from mlgo.jit.gcc.find import Gcc
from tests.conftest import WITHIN_S
from tests.jit.gcc.conftest import compile_file

SETTINGS = GccSettings()
SOURCES = [("c", "calc/eval.c"), ("c", "codec/crc.c"), ("c++", "matrix/algebra.cpp")]


@pytest.mark.parametrize(("language", "source"), SOURCES)
def test_exactly_the_chosen_eliminations_are_performed(cxx, sample_unit, language, source, leaves_nothing):
    unit = sample_unit(source)
    with leaves_nothing():
        plain = compile_file(cxx, unit, language, None, SETTINGS, want_candidates=True)
    every = plain.candidates.candidates
    assert plain.num_candidates == plain.num_performed == len(every) > 4
    assert len({(one.function, one.insn, one.expression) for one in every}) == len(every)
    assert compile_file(cxx, unit, language, range(len(every)), SETTINGS).object_sha256 == plain.object_sha256
    random = np.random.default_rng(0)
    for share in (0.0, 0.3, 0.7):
        chosen = np.flatnonzero(random.random(len(every)) < share).tolist()
        some = compile_file(cxx, unit, language, chosen[::-1], SETTINGS, want_candidates=True)
        assert some.candidates.candidates == tuple(every[position] for position in chosen)
        assert (some.num_candidates, some.num_performed) == (len(every), len(chosen))
        assert some.object_sha256 != plain.object_sha256


def test_an_elimination_that_can_be_told_by_hand(gcc, example):
    plain = compile_file(gcc, example, "c", None, SETTINGS, want_candidates=True)
    position = next(i for i, one in enumerate(plain.candidates.candidates) if one.function == "half")
    assert [one.function for one in plain.candidates.candidates].count("half") == 1
    row = dict(zip(FEATURES, plain.candidates.features[position].tolist(), strict=True))
    assert row["kind"] == 2
    assert (row["mode_class"], row["mode_bytes"]) == (2, 8)
    assert (row["num_nodes"], row["num_registers"]) == (2, 0)  # memory, symbol
    assert (row["is_load"], row["is_constant_load"]) == (1, 1)
    # It is loaded anew where the branch is not taken, and kept from the load in the branch.
    assert (row["num_redundant"], row["num_insertions"], row["num_copies"]) == (1, 1, 1)
    assert row["frequency"] == 1000  # the end of the function
    assert 0 < row["insertion_frequency"] == row["insertions_frequency"] < 1000
    assert (row["loop_depth"], row["function_calls"]) == (0, 2)
    assert (row["function_candidates"], row["position"]) == (1, 0)


def test_the_same_bytes_whatever_is_looked_at_and_wherever(gcc, example, tmp_path):
    kept, other = tmp_path / "kept.o", tmp_path / "other-name.i"
    other.write_bytes(example.read_bytes())
    first = compile_file(gcc, example, "c", [0], SETTINGS, object_path=kept)
    second = compile_file(gcc, other, "c", [0], SETTINGS, want_candidates=True)
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == first.object_sha256 == second.object_sha256
    assert 0 < first.function_bytes < first.text_bytes


def test_units_and_levels_without_eliminations(gcc, example, tmp_path):
    empty = tmp_path / "empty.i"
    empty.write_text("int nothing;\n")
    cases = [(empty, None, SETTINGS), (empty, [], SETTINGS), (example, None, GccSettings(optimization="-O1"))]
    for unit, performed, settings in cases:
        result = compile_file(gcc, unit, "c", performed, settings, want_candidates=True)
        assert (result.num_candidates, result.candidates.candidates) == (0, ())
        assert result.candidates.features.shape == (0, len(FEATURES))


@pytest.mark.parametrize(
    ("performed", "message"), [([0, 3], "3: .* the unit has 3"), ([-1], "-1: positions start at 0")]
)
def test_positions_out_of_range(gcc, example, performed, message, leaves_nothing):
    with leaves_nothing(), pytest.raises(ValueError, match=message):
        compile_file(gcc, example, "c", performed, SETTINGS)


def test_a_table_of_counters_whose_row_was_cut_off_is_no_count(gcc, example, leaves_nothing):
    with leaves_nothing(), pytest.raises(RemarkError, match="too many intervals"):
        compile_file(gcc, example, "c", range(0, 4000, 2), SETTINGS)


def test_options_of_the_front_end(gcc, tmp_path):
    unit = tmp_path / "unit.i"
    unit.write_text("int inline = 1;\n")  # no keyword in C90
    assert compile_file(gcc, unit, "c", None, SETTINGS, arguments=["-std=c90"]).text_bytes == 0
    with pytest.raises(CompilerExit, match=r"status 1: unit\.i:1:12: error:"):
        compile_file(gcc, unit, "c", None, SETTINGS)


def test_memory(gcc, tmp_path, leaves_nothing):
    unit = tmp_path / "unit.i"
    unit.write_text("".join(f"int f{i}(int x) {{ return x * {i}; }}\n" for i in range(2000)))
    settings = GccSettings(max_memory_bytes=50 * 10**6)
    with leaves_nothing(), pytest.raises(CompilerMemory, match="more memory than 50000000 bytes"):
        compile_file(gcc, unit, "c", None, settings)


def test_a_gcc_that_is_gone(tmp_path, leaves_nothing):
    unit = tmp_path / "unit.i"
    unit.write_text("int x;\n")
    with leaves_nothing(), pytest.raises(ToolchainError, match=r"cannot start .*gone; was it removed"):
        compile_file(Gcc(tmp_path / "gone", "12.2.0"), unit, "c", None, SETTINGS)


@pytest.fixture
def fake(tmp_path):
    """A GCC that is a shell script."""

    def make(text):
        path = tmp_path / "gcc"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return Gcc(path, "12.2.0")

    return make


def test_a_gcc_that_hangs_or_crashes(fake, tmp_path, leaves_nothing):
    unit = tmp_path / "unit.i"
    unit.write_text("int x;\n")
    hanging = fake("echo > $TMPDIR/left.s; sleep 60 & wait")
    start = time.monotonic()
    with leaves_nothing(), pytest.raises(CompileTimeout, match=r"^no end within 0\.3 s$"):
        compile_file(hanging, unit, "c", None, GccSettings(timeout_s=0.3))
    assert time.monotonic() - start < WITHIN_S
    with leaves_nothing(), pytest.raises(CompilerExit, match="signal 11"):
        compile_file(fake("kill -SEGV $$"), unit, "c", None, SETTINGS)
    with leaves_nothing(), pytest.raises(RemarkError, match="no table"):
        compile_file(fake("exit 0"), unit, "c", None, SETTINGS)


def test_outputs_that_are_missing_or_cut_in_half(gcc, fake, example, leaves_nothing):
    run = f'{gcc.binary} "$@" || exit'
    with leaves_nothing(), pytest.raises(ObjectError, match="wrote no object file"):
        compile_file(fake(f"{run}; rm unit.o"), example, "c", None, SETTINGS)
    with leaves_nothing(), pytest.raises(ObjectError, match="complete section table"):
        compile_file(fake(f"{run}; truncate -s 100 unit.o"), example, "c", None, SETTINGS)
    for dump, part in (("decided", 8), ("before", 2)):  # the last decision stands in the first half of its dump
        half = fake(f"{run}; truncate -s $(($(stat -c %s {dump}) / {part})) {dump}")
        with leaves_nothing(), pytest.raises(RemarkError, match="cut short"):
            compile_file(half, example, "c", None, SETTINGS, want_candidates=True)
        with leaves_nothing(), pytest.raises(RemarkError, match="wrote no dump"):
            compile_file(fake(f"{run}; rm {dump}"), example, "c", None, SETTINGS, want_candidates=True)


def test_variables_of_the_user_change_nothing(gcc, example, monkeypatch):
    first = compile_file(gcc, example, "c", None, SETTINGS)
    for name, value in {"GCC_EXEC_PREFIX": os.sep, "LC_ALL": "de_DE.UTF-8", "COMPILER_PATH": os.sep}.items():
        monkeypatch.setenv(name, value)
    assert compile_file(gcc, example, "c", None, SETTINGS) == first
