"""What older settings left: named by `mlgo doctor`, deleted by `mlgo replay prune --old`."""

import json
import os
import time
from dataclasses import replace
from functools import partial

import pytest

from mlgo.cli.leftovers import delete_leftovers, find_leftovers
from mlgo.corpus.store import load_programs, unpack_bitcode
from mlgo.pool.tree_store import ReplayStore
from tests.corpus.test_assemble import corpus, projects
from tests.pool.toy_trees import KEY, result

__all__ = ["corpus", "projects"]

MODULE, OTHER = "a" * 64, "b" * 64
DAY_S = 86_400
TREES = {"unreadable": replace(KEY, records=1), "remeasured": replace(KEY, measure=1)}


def written(path, size=1000, age_s=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.fixture
def data(tmp_path, corpus):
    """Two of everything: one that the present settings use, one that older ones left."""
    data, work = tmp_path / "data", tmp_path / "data/work"
    unpack_bitcode(corpus, [module for one in load_programs(corpus) for module in one.modules], work / "bitcode")
    (data / "corpus").mkdir()
    for name in ("modules.parquet", "programs.parquet"):
        (corpus / name).rename(data / "corpus" / name)
    written(work / f"bitcode/{OTHER}.bc", 2000)
    for policy, key, age_s in [
        ("es-s0", "1" * 16, 5 * DAY_S),
        ("es-s0", "2" * 16, 4 * DAY_S),
        ("es-s0", "3" * 16, 3 * DAY_S),
        ("es,es.pairs=5-s0", "4" * 16, 6 * DAY_S),  # the only one of its policy
    ]:
        written(work / f"checkpoints/{policy}-{key}.npz", age_s=age_s)
    for module in (MODULE, OTHER):
        written(work / f"sdists/{module}-thing-1.0.tar.gz", 3000)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/thing.yaml").write_text(f"name: thing\nsha256: {MODULE}\n")
    ReplayStore(work / "replay", KEY).insert(MODULE, result(1, 1))
    for key in TREES.values():
        ReplayStore(work / "replay", key).insert(MODULE, result(1, 1))
    unused = ReplayStore(work / "replay", replace(KEY, optimization="-O1"))
    unused.insert(MODULE, result(1, 1))
    os.utime(unused.path(MODULE), (time.time() - 31 * DAY_S,) * 2)
    return data


def found(data, work=None):
    listed = find_leftovers(work or data / "work", data, data.parent / "config")
    return {one.what.split()[0]: one for one in listed}, listed


def test_what_is_left_over(data):
    work = data / "work"
    _, listed = found(data)
    names = [[path.name for path in one.paths] for one in listed]
    outdated = sorted(key.folder for key in TREES.values())
    unused = replace(KEY, optimization="-O1").folder
    assert names == [
        [f"es-s0-{'1' * 16}.npz", f"es-s0-{'2' * 16}.npz"],
        outdated,
        [unused],
        [f"{OTHER}.bc"],
        [f"{OTHER}-thing-1.0.tar.gz"],
    ]
    assert str(listed[0]) == "2 checkpoints beside a newer one of the same policy (0.0 MB)"
    assert [one.num_bytes for one in (listed[0], *listed[3:])] == [2000, 2000, 3000]
    assert listed[2].num_bytes == sum(path.stat().st_size for path in (work / "replay" / unused).iterdir())


def test_only_that_is_deleted(data):
    work = data / "work"
    before = {path for path in work.rglob("*") if path.is_file()}
    _, listed = found(data)
    doomed = {path for one in listed for path in one.paths}
    for one in listed:
        delete_leftovers(one)
    left = {path for path in work.rglob("*") if path.is_file()}
    assert left == {path for path in before if not doomed & {path, path.parent}}
    assert ReplayStore(work / "replay", KEY).load(MODULE) is not None
    assert not any(path.exists() for path in doomed)
    assert found(data)[1] == []


def test_of_shared_work_others_may_need_bitcode_and_downloads(data, tmp_path):
    shared = tmp_path / "shared"
    (data / "work").rename(shared)
    assert set(found(data, shared)[0]) == {"checkpoints", "folders"}


def test_without_a_corpus_no_bitcode_is_left_over(data):
    (data / "corpus/modules.parquet").unlink()
    assert "bitcode" not in found(data)[0]


def test_in_an_empty_folder_nothing_is_left_over(tmp_path):
    assert find_leftovers(tmp_path / "data/work", tmp_path / "data", tmp_path / "config") == []


def test_trees_beside_a_damaged_key_may_be_good(data):
    key = data / "work/replay" / KEY.folder / "key.json"
    for text in ("{", "[]", '{"wood": 3}', key.read_text().replace('"records": ', '"records": 1')):
        key.write_text(text)
        (trees,) = [one for one in found(data)[1] if "cannot read" in one.what]
        assert key.parent not in trees.paths


def test_the_doctor_names_it_and_deletes_nothing(mlgo, data):
    before = sorted(data.rglob("*"))
    run = mlgo("doctor", "--json", "--toolchain", "/bin/true", "--data", data, "--work", data / "work")
    (check,) = [one for one in json.loads(run.stdout)["checks"] if one["name"] == "older settings"]
    assert check["ok"]
    assert check["detail"].startswith("2 checkpoints beside a newer one of the same policy (0.0 MB); 2 folders of ")
    assert check["detail"].endswith("; mlgo replay prune --old deletes them")
    assert sorted(data.rglob("*")) == before


def test_pruning(prints, data):
    prune = partial(prints, "replay", "prune", "--data", data, "--work", data / "work")
    before = sorted(data.rglob("*"))
    assert f"  {data}/work/checkpoints/es-s0-{'1' * 16}.npz\n" in prune("--old", "--dry-run")
    assert sorted(data.rglob("*")) == before
    assert prune("--old").startswith("deleted 2 checkpoints beside a newer one of the same policy (0.0 MB)\n")
    assert not (data / f"work/checkpoints/es-s0-{'1' * 16}.npz").exists()
    assert prune("--old") == "older settings left nothing\n"
    assert prune("--max-gb", "0") == "1 files deleted\n"


def test_what_to_prune_must_be_said(refuses):
    assert refuses("replay", "prune") == "say what to delete: --max-gb N or --old"
    error = refuses("replay", "prune", "--max-gb", "1", "--dry-run")
    assert error == "--dry-run lists what --old would delete; leave --max-gb out"
