"""What modules of a project carry together, and sizes by shares through baseline, host and trees."""

from dataclasses import replace

import pytest

from mlgo.base.artifacts import COPIES, write_rows
from mlgo.corpus.store import Module
from mlgo.errors import ArtifactError
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.baseline import Scoring, copy_rows, load_copies, score_references
from mlgo.evaluate.training import needed_copies
from mlgo.evaluate.worker import copies_hash, tree_key
from mlgo.host.session import compile_plain
from mlgo.host.tasks.task import ConstantAdvisor, get_task
from mlgo.host.toolchain import Quirks
from mlgo.objects.comdat import comdat_groups
from mlgo.objects.elf import read_sections, text_size
from mlgo.pool.tree_store import ReplayStore
from tests.fakes.elf import deduplicated_text

NAMES = ("paths.cpp", "order.cpp", "spanning.cpp")
MODULES = [Module("graph", name, "c++", "test", f"{number}" * 64) for number, name in enumerate(NAMES)]


@pytest.fixture(scope="module")
def bitcode(sample):
    return {module.key: sample(module.key) for module in MODULES}


@pytest.fixture(scope="module")
def baseline(toolchain, settings, bitcode, tmp_path_factory):
    with CompileHost(toolchain, "inline-size", settings, 2) as host:
        task, folder = get_task("inline-size"), tmp_path_factory.mktemp("objects")
        return score_references(host, task, Quirks(), MODULES, bitcode, Scoring(True, 0.1, 0), folder)


def sizes_of(baseline, advisor: str) -> dict[str, int]:
    return {row["module"]: row["dedup_bytes"] for row in baseline.scores if row["advisor"] == advisor}


def test_the_heuristics_objects_tell_what_is_shared(baseline, bitcode, toolchain, settings, tmp_path):
    objects = []
    for module in MODULES:
        path = tmp_path / f"{module.name}.o"
        compile_plain(toolchain, bitcode[module.key], settings, object_path=path)
        objects.append(path.read_bytes())
    carried = [{signature for signature, _ in comdat_groups(data)} for data in objects]
    counts = baseline.copies["graph"]
    assert counts == {
        signature: number
        for signature in set().union(*carried)
        if (number := sum(signature in names for names in carried)) > 1
    }
    assert set(counts.values()) <= {2, 3}
    one_copy = deduplicated_text((text_size(read_sections(data)), comdat_groups(data)) for data in objects)
    by_shares = sum(sizes_of(baseline, "heuristic").values())
    # Rounding costs less than a byte per group and module; copies differ a little where a module inlined more.
    assert by_shares == pytest.approx(one_copy, rel=0.01)
    assert by_shares < 0.95 * sum(text_size(read_sections(data)) for data in objects)


def test_hosts_and_trees_give_the_size_that_the_baseline_gave(baseline, bitcode, toolchain, settings, tmp_path):
    store = ReplayStore(tmp_path, tree_key(toolchain, get_task("inline-size"), settings, baseline.copies))
    jobs = [CompileJob(one.key, bitcode[one.key], ConstantAdvisor(0), sha256=one.sha256) for one in MODULES]
    with CompileHost(toolchain, "inline-size", settings, 1, store, baseline.copies) as host:
        compiled, recalled = host.compile_all(jobs), host.compile_all(jobs)
        plain = host.compile_all([replace(job, advisor=None) for job in jobs])
        (elsewhere,) = host.compile_all([CompileJob("nobody/paths.cpp", bitcode[MODULES[0].key], None)])
    never, heuristic = sizes_of(baseline, "never"), sizes_of(baseline, "heuristic")
    for outcomes, expected in ((compiled, never), (recalled, never), (plain, heuristic)):
        assert [outcome.score("dedup_bytes") for outcome in outcomes] == [expected[name] for name in NAMES]
    assert [outcome.recalled for outcome in (*compiled, *recalled)] == [False] * 3 + [True] * 3
    assert elsewhere.score("dedup_bytes") == elsewhere.score("text_bytes") > plain[0].score("dedup_bytes")


def test_copies_survive_their_table(tmp_path):
    copies = {"graph": {b"_Z1av": 2, b"\xff": 3}, "json": {b"_Z1bv": 2}}
    write_rows(tmp_path / "copies.parquet", copy_rows(copies), COPIES, {})
    back = load_copies(tmp_path)
    assert back == copies
    assert copies_hash(back) == copies_hash(copies)


def test_only_the_objective_that_needs_them_reads_copies(settings, tmp_path):
    assert needed_copies(settings, tmp_path) is None
    with pytest.raises(ArtifactError, match=r"copies\.parquet is missing"):
        needed_copies(settings.model_copy(update={"objective": "dedup_bytes"}), tmp_path)
