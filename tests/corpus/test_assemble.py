"""The manifest, its duplicates and shared bodies; all numbers counted by hand."""

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import MODULES, PROGRAMS_OF_CORPUS, PROGRAMS_OF_PROJECT, PROJECT, write_rows
from mlgo.corpus.assemble import assemble, assemble_programs, read_sources, shared_bodies, without_bitcode
from mlgo.corpus.build import program_of_all
from mlgo.corpus.store import load_modules, load_programs, unpack_bitcode
from mlgo.errors import ArtifactError, CorpusError
from tests.conftest import almost


def row(project, module, ir, bodies, skip=""):
    """A source row; bodies as {hash: instructions}."""
    return {
        "project": project,
        "module": module,
        "language": "c",
        "licence": "MIT",
        "ir_sha256": "" if skip else ir,
        "skip_reason": skip,
        "bitcode": None if skip else f"bitcode of {ir}".encode(),
        "function_hashes": sorted(bodies),
        "function_sizes": [bodies[key] for key in sorted(bodies)],
    }


PROJECTS = {
    "alpha": [
        row("alpha", "a.c", "A", {1: 10, 2: 20, 3: 30}),
        row("alpha", "b.c", "B", {4: 5, 2: 20}),
        row("alpha", "broken.c", "", {}, "exit: error"),
    ],
    "beta": [row("beta", "x.c", "A", {1: 10, 2: 20, 3: 30}), row("beta", "y.c", "Y", {2: 20, 7: 100})],
    "gamma": [row("gamma", "z.c", "Z", {7: 100, 3: 30, 9: 2**31 - 1}), row("gamma", "z2.c", "Z", {7: 100})],
    "unused": [row("unused", "u.c", "U", {9: 1})],
}
SPLITS = {"train": ["alpha"], "validation": ["beta"], "test": ["gamma"]}


@pytest.fixture
def projects():
    return {name: [without_bitcode(row) for row in rows] for name, rows in PROJECTS.items()}


@pytest.fixture
def corpus(projects, tmp_path):
    """A corpus on disk, with one shared object for each project."""
    manifest = assemble(projects, SPLITS)
    programs = {
        name: pa.Table.from_pylist(program_of_all(name, rows), PROGRAMS_OF_PROJECT.remove_metadata())
        for name, rows in PROJECTS.items()
    }
    write_rows(tmp_path / "modules.parquet", manifest, MODULES, {})
    for name in ("alpha", "beta", "gamma"):
        write_rows(tmp_path / "projects" / f"{name}.parquet", PROJECTS[name], PROJECT, {})
    rows = assemble_programs(projects, programs, manifest)
    write_rows(tmp_path / "programs.parquet", rows, PROGRAMS_OF_CORPUS, {})
    return tmp_path


def test_the_manifest_by_hand(projects):
    manifest = assemble(projects, SPLITS)
    assert [(r["split"], r["project"], r["module"]) for r in manifest] == [
        *(("train", "alpha", module) for module in ("a.c", "b.c", "broken.c")),
        *(("validation", "beta", module) for module in ("x.c", "y.c")),
        *(("test", "gamma", module) for module in ("z.c", "z2.c")),
    ]
    a, b, broken, x, y, z, z2 = manifest
    assert x["skip_reason"] == "duplicate: same code as alpha/a.c"
    assert z2["skip_reason"] == "duplicate: same code as gamma/z.c"
    assert broken["skip_reason"] == "exit: error"
    # Bodies 2 (alpha a, b and beta y), 3 (alpha a, gamma z) and 7 (beta y, gamma z) are in two splits; 1 is only in
    # alpha, as beta/x.c is skipped.
    assert (a["shared_functions"], a["shared_instructions"]) == (2, 50)
    assert (b["shared_functions"], b["shared_instructions"]) == (1, 20)
    assert (y["shared_functions"], y["shared_instructions"]) == (2, 120)
    assert (z["shared_functions"], z["shared_instructions"]) == (2, 130)
    assert (a["num_functions"], a["num_instructions"]) == (3, 60)
    assert (z["num_functions"], z["num_instructions"]) == (3, 2**31 - 1 + 130)  # more than 32 bits hold
    assert (x["num_functions"], x["num_instructions"], x["shared_functions"]) == (0, 0, 0)
    assert a["bitcode_sha256"] == hashlib.sha256(b"bitcode of A").hexdigest()
    assert (a["bitcode_bytes"], x["bitcode_bytes"], x["bitcode_sha256"]) == (12, 0, "")
    assert shared_bodies(projects, manifest) == {
        "train/validation": {"bodies": 1, "instructions": 20},
        "train/test": {"bodies": 1, "instructions": 30},
        "validation/test": {"bodies": 1, "instructions": 100},
    }


def test_the_order_of_the_configuration_does_not_matter(projects):
    splits = {"train": ["unused", "alpha"], "validation": ["beta"], "test": ["gamma"]}
    turned = {"test": ["gamma"], "validation": ["beta"], "train": ["alpha", "unused"]}
    assert assemble(projects, splits) == assemble(dict(reversed(projects.items())), turned)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("gone", "g.c", "", {}, "exit: x")], r"no test module.*'exit': 1.*corpus\.splits\.test"),
        ([row("gone", "g.c", "A", {1: 10})], r"no test module.*'duplicate': 1"),
        ([], "none found"),
    ],
)
def test_an_empty_split(rows, message, projects):
    with pytest.raises(CorpusError, match=message):
        assemble(projects | {"gone": [without_bitcode(row) for row in rows]}, SPLITS | {"test": ["gone"]})


def test_a_split_that_names_no_project_has_no_modules(projects):
    rows = assemble(projects, SPLITS | {"test": []})
    assert {row["split"] for row in rows} == {"train", "validation"}
    assert shared_bodies(projects, rows)["train/test"] == {"bodies": 0, "instructions": 0}


def test_loading_modules(corpus):
    modules = load_modules(corpus)
    assert [m.key for m in modules] == ["alpha/a.c", "alpha/b.c", "beta/y.c", "gamma/z.c"]
    assert [m.key for m in load_modules(corpus, project="alpha")] == ["alpha/a.c", "alpha/b.c"]
    assert [m.key for m in load_modules(corpus, splits=["test", "validation"])] == ["beta/y.c", "gamma/z.c"]
    assert load_modules(corpus, project="alpha", splits=["test"]) == []
    assert load_modules(corpus, languages=["c", "c++"]) == modules
    assert load_modules(corpus, languages=["c++"]) == []


def test_a_corpus_whose_splits_leak(projects, tmp_path):
    rows = assemble(projects, SPLITS)
    used = {row["split"]: row for row in rows if not row["skip_reason"]}
    train, test = used["train"], used["test"]
    same = r"gamma/\S+ \(test\) is the same code as alpha/\S+ \(train\), so the splits leak"
    for changes, message in (
        ({"project": "alpha"}, r"project alpha is in two splits \(train and test\)"),
        ({"bitcode_sha256": train["bitcode_sha256"]}, same),
    ):
        write_rows(tmp_path / "modules.parquet", [row | changes if row is test else row for row in rows], MODULES, {})
        for splits in (None, ["train"], ["validation"]):  # whatever is asked for
            with pytest.raises(CorpusError, match=message):
                load_modules(tmp_path, splits=splits)
        unused = [row | changes | {"skip_reason": "too large"} if row is test else row for row in rows]
        write_rows(tmp_path / "modules.parquet", unused, MODULES, {})
        assert load_modules(tmp_path)


def test_unpacking_bitcode(corpus, tmp_path):
    modules = load_modules(corpus)
    paths = unpack_bitcode(corpus, modules, tmp_path / "bitcode")
    assert paths["beta/y.c"].read_bytes() == b"bitcode of Y"
    assert {path.name for path in (tmp_path / "bitcode").iterdir()} == {f"{m.sha256}.bc" for m in modules}
    paths["beta/y.c"].write_bytes(b"bitcode of Z")  # damage
    assert unpack_bitcode(corpus, modules, tmp_path / "bitcode")["beta/y.c"].read_bytes() == b"bitcode of Y"
    (corpus / "projects" / "alpha.parquet").unlink()
    assert unpack_bitcode(corpus, modules, tmp_path / "bitcode") == paths  # all there already
    paths["alpha/a.c"].unlink()
    with pytest.raises(ArtifactError, match=r"alpha\.parquet is missing"):
        unpack_bitcode(corpus, modules, tmp_path / "bitcode")


def test_a_shard_that_does_not_fit_the_manifest(corpus, tmp_path):
    write_rows(corpus / "projects" / "beta.parquet", [row("beta", "y.c", "changed", {})], PROJECT, {})
    with pytest.raises(CorpusError, match=r"beta/y\.c"):
        unpack_bitcode(corpus, load_modules(corpus), tmp_path / "bitcode")
    module = load_modules(corpus)[0]
    with pytest.raises(CorpusError, match="its shard does not hold the bitcode that the manifest names"):
        unpack_bitcode(corpus, [replace(module, sha256=almost(module.sha256))], tmp_path / "other")


def test_sources_are_read_without_their_bitcode(projects, corpus):
    for name in ("alpha", "beta", "gamma"):
        for told, expected in zip(read_sources(corpus / f"projects/{name}.parquet"), projects[name], strict=True):
            assert told.keys() == expected.keys()
            assert "bitcode" not in told
            assert all(np.array_equal(told[key], expected[key]) for key in told)


def test_a_program_is_linked_of_its_duplicates_too(corpus, tmp_path):
    alpha, beta, gamma = load_programs(corpus)
    assert [one.row["program"] for one in (alpha, beta, gamma)] == ["alpha.so", "beta.so", "gamma.so"]
    assert [one.row["split"] for one in (alpha, beta, gamma)] == ["train", "validation", "test"]
    assert (alpha.names, beta.names, gamma.names) == (("a.c", "b.c"), ("x.c", "y.c"), ("z.c", "z2.c"))
    assert [one["module"] for one in beta.row["duplicates"]] == ["x.c"]
    files = unpack_bitcode(corpus, beta.modules, tmp_path / "bitcode")
    assert files["beta/x.c"].read_bytes() == b"bitcode of A"  # its own, which is that of alpha/a.c
    assert {one.split for one in beta.modules} == {"validation"}
    assert [one.row["project"] for one in load_programs(corpus, splits=["test", "train"])] == ["alpha", "gamma"]
    assert [one.row["program"] for one in load_programs(corpus, project="beta")] == ["beta.so"]


def test_a_program_of_unknown_modules_is_refused(corpus):
    rows = [{**one.row, "parts": [{"kind": "object", "modules": ["gone.c"]}]} for one in load_programs(corpus)]
    write_rows(corpus / "programs.parquet", rows, PROGRAMS_OF_CORPUS, {})
    with pytest.raises(CorpusError, match=r"alpha: alpha\.so is linked of gone\.c, which is no module"):
        load_programs(corpus)
