"""Matrices of gains worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlgo.base.artifacts import GENERALISATION, write_rows
from mlgo.base.config import load_config
from mlgo.base.files import write_text
from mlgo.errors import ArtifactError
from mlgo.research.generalisation import read_matrices, read_trainings
from tests.compare.conftest import result_row
from tests.conftest import REPOSITORY
from tests.fakes.policies import write_policy

NEW, OLD = "ziglang clang 22.1.8", "ziglang clang 19.1.7"
LIBRARIES = [f"lib{number}" for number in range(6)]
MODULES = [(name, "0.c", "c") for name in LIBRARIES] + [("app", f"{number}.cc", "c++") for number in range(2)]


def row(module: tuple[str, str, str], trained: str, train_set: str, seed: int, tested: str, ratio: float) -> dict:
    """A module of 1000 bytes under the heuristic, and of ``ratio`` times that under the policy."""
    project, name, language = module
    sizes = {"text_bytes": round(1000 * ratio), "exec_bytes": 1000}
    known = {"trained_with": trained, "train_set": train_set, "tested_with": tested}
    found = result_row(project, name, sizes, dict.fromkeys(sizes, 1000), seed=seed, language=language, **known)
    return {key: value for key, value in found.items() if key != "policy"}


def write_run(folder: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """A finished run of two compilers, two train sets and two seeds; seed 1 of ``both`` learnt nothing."""
    if rows is None:
        rows = [row(one, NEW, "both", 0, NEW, 0.9 if one[2] == "c" else 0.5) for one in MODULES]
        rows += [row(one, NEW, "both", 1, NEW, 1.0) for one in MODULES]
        rows += [row(one, NEW, "both", seed, OLD, 1.25) for seed in (0, 1) for one in MODULES[:7]]
        rows += [row(one, NEW, "c", seed, NEW, 0.9 if one[2] == "c" else 1.1) for seed in (0, 1) for one in MODULES]
        rows += [row(one, OLD, "both", seed, NEW, 0.8) for seed in (0, 1) for one in MODULES]
        rows += [row(one, OLD, "both", seed, OLD, 0.7) for seed in (0, 1) for one in MODULES[:7]]
    evaluate = load_config(REPOSITORY / "config/config.yaml").evaluate.model_dump() | {"resamples": 2000}
    policies = [f"{name}-s{seed}" for name in ("main-both", "main-c", "llvm19-both") for seed in (0, 1)]
    origin = {"evaluate": evaluate, "seed": 0, "parts": [{"policy": name} for name in policies for _ in range(2)]}
    write_rows(folder / "results.parquet", rows, GENERALISATION, origin)
    for number, name in enumerate(policies):
        languages = ["c"] if "-c-" in name else ["c", "c++"]
        told = {"compiler": OLD if "llvm19" in name else NEW, "languages": languages, "seed": int(name[-1])}
        write_policy(folder / "policies" / name, told)
        write_text(folder / "policies" / name / "history.csv", f"round,evaluations\n0,10\n1,{100 + number}\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "generalisation")


@pytest.fixture
def matrices(folder):
    return read_matrices(folder / "results.parquet", "test", "text_bytes")


def cell(matrix, trained, tested):
    (found,) = [one for one in matrix if (one.name, one.scope) == (trained, tested)]
    return found


def test_what_the_matrices_show(matrices):
    found = [(title, [(one.name, one.scope) for one in cells]) for title, cells in matrices.items()]
    assert found == [
        (f"Languages, {NEW}", [(a, b) for a in ("both", "c") for b in ("all", "c++", "c")]),
        (f"Projects, {NEW}", [(a, b) for a in ("both", "c") for b in (*LIBRARIES, "app")]),
        *(
            (f"Compilers, {part}", [(a, b) for a in (NEW, OLD) for b in (NEW, OLD)])
            for part in ("all modules", "C++", "C")
        ),
    ]


def test_gains_by_hand(matrices):
    languages, projects, compilers, only_cpp, only_c = matrices.values()
    # Seed 0 shrinks six projects to 0.9 and one of two modules to 0.5, seed 1 none.
    both = cell(languages, "both", "all")
    assert both.by("text_bytes").geomean.value == pytest.approx(1 - (0.9**6 * 0.5) ** (1 / 14))
    assert (both.contender.seeds, both.by("text_bytes").num_compared) == ((0, 1), 8)
    assert cell(languages, "both", "c++").by("text_bytes").geomean.value == pytest.approx(1 - 0.5**0.5)
    assert cell(languages, "c", "c++").by("text_bytes").geomean.value == pytest.approx(-0.1)
    assert cell(projects, "c", "lib0").by("text_bytes").geomean.value == pytest.approx(0.1)
    assert cell(compilers, NEW, OLD).by("text_bytes").geomean.value == pytest.approx(-0.25)
    assert cell(compilers, NEW, OLD).by("text_bytes").num_compared == 7
    assert cell(compilers, OLD, NEW).by("text_bytes").geomean.value == pytest.approx(0.2)
    assert cell(only_c, NEW, NEW).by("text_bytes").geomean.value == pytest.approx(1 - 0.9**0.5)
    assert cell(only_cpp, OLD, OLD).by("text_bytes").num_compared == 1


def test_intervals_and_sign_tests_by_hand(matrices):
    languages, _, compilers, *_ = matrices.values()
    # All C projects change alike, so the interval is that of two drawn seeds: 0 or 10 % in a quarter of the cases each.
    both = cell(languages, "both", "c").by("text_bytes")
    assert (both.geomean.low, both.geomean.high) == (pytest.approx(0.0), pytest.approx(0.1))
    assert both.geomean.value == pytest.approx(1 - 0.9**0.5)
    # Where neither seeds nor projects differ, nothing is left to draw.
    carried = cell(compilers, NEW, OLD).by("text_bytes")
    assert (carried.geomean.low, carried.geomean.high) == (pytest.approx(-0.25), pytest.approx(-0.25))
    # The same cell in another matrix has the same interval, and stands among other p-values.
    one, other = cell(compilers, NEW, NEW).by("text_bytes"), cell(languages, "both", "all").by("text_bytes")
    assert (replace(one, corrected_p=None), one.num_tests) == (replace(other, corrected_p=None), 4)
    # Six C projects shrink, one of C++ grows: 2 * (1 + 7) / 2 ** 7.
    mixed = cell(languages, "c", "all").by("text_bytes")
    assert (mixed.projects, mixed.items, mixed.sign_p) == ((6, 0, 1), (6, 0, 2), pytest.approx(2 * 8 / 128))
    assert mixed.geomean.value == pytest.approx(1 - math.exp((6 * math.log(0.9) + math.log(1.1)) / 7))
    # Signs that leave the sum as far from 0: all as they are, all alike, and both turned round.
    assert mixed.p == 4 / 128
    assert (carried.projects, carried.sign_p, carried.p) == ((0, 0, 7), pytest.approx(2 / 2**7), 2 / 2**7)
    assert (carried.corrected_p, carried.verdict) == (4 * 2 / 2**7, "no difference shown")
    assert cell(languages, "both", "c++").by("text_bytes").finding == "no verdict: 1 project, six are needed"


def test_the_other_measure(folder):
    languages, *_ = read_matrices(folder / "results.parquet", "test", "exec_bytes").values()
    assert cell(languages, "both", "all").by("exec_bytes").geomean.value == 0.0
    assert cell(languages, "both", "all").by("exec_bytes").sign_p is None


def test_trainings_in_the_order_of_the_run(folder):
    assert [tuple(one.values()) for one in read_trainings(folder)] == [
        (NEW, "both", "c, c++", "0, 1", 100.5),
        (NEW, "c", "c", "0, 1", 102.5),
        (OLD, "both", "c, c++", "0, 1", 104.5),
    ]


def test_seeds_of_different_corpora_are_refused(folder):
    origin = {"compiler": NEW, "languages": ["c"], "seed": 1, "corpus_sha256": "ab"}
    write_policy(folder / "policies/main-c-s1", origin)
    with pytest.raises(ArtifactError, match="main-c-s0 and main-c-s1 were trained on different inputs: another corpus"):
        read_matrices(folder / "results.parquet", "test", "text_bytes")


def test_one_compiler_alone_has_no_matrix_of_compilers_and_seeds_must_have_the_same_modules(tmp_path):
    rows = [row(one, NEW, "both", 0, NEW, 0.9) for one in MODULES]
    titles = list(read_matrices(write_run(tmp_path, rows) / "results.parquet", "test", "text_bytes"))
    assert titles == [f"Languages, {NEW}", f"Projects, {NEW}"]
    write_run(tmp_path, rows + [row(one, NEW, "both", 1, NEW, 0.9) for one in MODULES[1:]])
    with pytest.raises(ArtifactError, match=r"seeds of both were not tested on the same modules of all; delete .*make"):
        read_matrices(tmp_path / "results.parquet", "test", "text_bytes")


def test_what_is_missing_is_named(tmp_path, folder):
    with pytest.raises(ArtifactError, match=r"none\.parquet is missing; make it with: make generalisation"):
        read_matrices(tmp_path / "none.parquet", "test", "text_bytes")
    with pytest.raises(ArtifactError, match=r"nothing about the train projects; add train to evaluate\.splits"):
        read_matrices(folder / "results.parquet", "train", "text_bytes")
    (folder / "policies/main-c-s1/history.csv").unlink()
    with pytest.raises(ArtifactError, match=r"main-c-s1/history\.csv is missing"):
        read_trainings(folder)
