"""Trees from elsewhere: whatever a file holds, there are trees or one line that says what is wrong."""

import contextlib
import hashlib
import json
import struct
import tracemalloc
import zlib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.errors import ArtifactError, MlgoError
from mlgo.host.session import CompileResult
from mlgo.objects.measures import SIZES
from mlgo.pool.records import NONCE_BYTES, frame, read_records
from mlgo.pool.tree_store import MAGIC, ReplayStore, encode_beginning, outdated_folders, stores
from mlgo.pool.tree_tables import compiles_table
from tests.fakes.scores import scores
from tests.pool.toy_trees import COMPILERS, HEADER, KEY, MODULE, WIDTH, decide_by, result

LEAF = {
    **dict.fromkeys(SIZES),
    "exec_bytes": 3,
    "text_bytes": 4,
    "object_sha256": "ab",
    "truncated": False,
}


def path_in(root: Path) -> Path:
    return ReplayStore(root, KEY).path(MODULE)


def payloads(root: Path, compiler) -> list[bytes]:
    """Payloads of the records of a file with three compiles; the first is the beginning."""
    store = ReplayStore(root, KEY)
    for policy in (1, 2, 40000):
        store.insert(MODULE, compiler(policy, 5))
    return [payload for payload, _ in read_records(MAGIC, path_in(root).read_bytes())]


def written(root: Path, *records: bytes) -> Path:
    path = path_in(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(frame(MAGIC, one) for one in records))
    return path


def use(root: Path) -> None:
    """Do with a file all that is done with trees; it may be refused, in one line that names the file."""
    refusal = None
    try:
        trees = ReplayStore(root, KEY).load(MODULE)
        if trees is not None:
            trees.path_of(trees.walk(decide_by(1)))
            compiles_table(MODULE, trees)
            ReplayStore(root / "merged", KEY).merge(MODULE, trees)
            ReplayStore(root, KEY).insert(MODULE, result(1, 5))
    except ArtifactError as error:
        refusal = str(error)
    except MlgoError:
        pass  # well formed, but it tells of another compiler
    if refusal is not None:
        assert str(path_in(root)) in refusal
        assert "delete it" in refusal
        assert "\n" not in refusal


@COMPILERS
@settings(max_examples=200)
@given(data=st.data())
def test_content_with_flipped_bits_and_cuts_under_a_right_checksum(tmp_path_factory, compiler, data):
    root = tmp_path_factory.mktemp("trees")
    records = payloads(root, compiler)
    which = data.draw(st.integers(0, len(records) - 1))
    nonce = NONCE_BYTES if which == 0 else 0
    content = bytearray(zlib.decompress(records[which][nonce:]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        else:
            content[place : place + data.draw(st.integers(1, 9))] = data.draw(st.binary(max_size=9))
        if not content:
            break
    records[which] = records[which][:nonce] + zlib.compress(bytes(content))
    written(root, *records)
    use(root)


@COMPILERS
@settings(max_examples=100)
@given(data=st.data())
def test_files_with_flipped_bits_and_cuts(tmp_path_factory, compiler, data):
    root = tmp_path_factory.mktemp("trees")
    payloads(root, compiler)
    content = bytearray(path_in(root).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    path_in(root).write_bytes(content)
    use(root)


def growth(leaves: object, *branches: tuple[int, int, int], answers: list[int], observations: bytes = b"") -> bytes:
    """A record's payload written by hand: leaves, (tree, node, answer, number of answers) of each branch, answers."""
    text = json.dumps(leaves).encode()
    trees, nodes, given_, lengths = zip(*branches, strict=True)
    parts = [
        struct.pack("<II", len(branches), len(text)),
        text,
        np.array(trees, "<u4").tobytes(),
        np.array(nodes, "<i8").tobytes(),
        np.array(given_, "<i8").tobytes(),
        np.array(lengths, "<u4").tobytes(),
        np.array(answers, "<i8").tobytes(),
        observations or bytes(WIDTH * len(answers)),
    ]
    return zlib.compress(b"".join(parts))


BEGINNING = bytes(NONCE_BYTES) + encode_beginning(HEADER, [""])
FUNCTIONS = bytes(NONCE_BYTES) + encode_beginning(HEADER, ["f", "g"])
FIRST = growth([LEAF], (0, -1, 0, 2), answers=[1, 0])


def test_records_written_by_hand_are_read(tmp_path):
    second = growth([LEAF], (0, 1, 1, 1), answers=[5])
    written(tmp_path, BEGINNING, FIRST, second)
    loaded = ReplayStore(tmp_path, KEY).load(MODULE)
    assert loaded is not None
    compiles = [(walk.nodes.tolist(), walk.answers.tolist()) for walk in loaded.whole.compiles()]
    assert compiles == [([0, 1], [1, 0]), ([0, 1, 2], [1, 1, 5])]
    costs = growth([[[1, 2.5]], []], (0, -1, 0, 1), (1, -1, 0, 0), answers=[1])
    written(tmp_path, FUNCTIONS, costs)
    trees = ReplayStore(tmp_path, KEY).load(MODULE)
    first, second = (leaf.spills for tree in trees.by_context for leaf in tree.leaves.values())
    assert (first, second) == ((("f", 1, 2.5, *[0] * 9),), ())


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([BEGINNING, growth([LEAF], (1, -1, 0, 1), answers=[1])], id="no such tree"),
        pytest.param([BEGINNING, growth([LEAF], (0, 0, 0, 1), answers=[1])], id="no such node"),
        pytest.param([BEGINNING, growth([LEAF], (0, -2, 0, 1), answers=[1])], id="a node before the first"),
        pytest.param([BEGINNING, growth([LEAF], (0, -1, 1, 1), answers=[1])], id="an answer at the root"),
        pytest.param([BEGINNING, FIRST, growth([LEAF], (0, 2, 0, 1), answers=[1])], id="a branch from itself"),
        pytest.param([BEGINNING, FIRST, FIRST], id="two beginnings"),
        pytest.param([BEGINNING, FIRST, growth([LEAF], (0, 0, 1, 1), answers=[1])], id="an edge that is known"),
        pytest.param([BEGINNING, FIRST, growth([LEAF], (0, 1, 0, 0), answers=[])], id="a result that is known"),
        pytest.param([BEGINNING, growth([LEAF, LEAF], (0, -1, 0, 1), answers=[1])], id="a leaf too many"),
        pytest.param([BEGINNING, growth([], (0, -1, 0, 1), answers=[1])], id="no leaf"),
        pytest.param([BEGINNING, growth([[]], (0, -1, 0, 1), answers=[1])], id="a function's leaf"),
        pytest.param([BEGINNING, growth({"0": LEAF}, (0, -1, 0, 1), answers=[1])], id="leaves that are no list"),
        pytest.param([BEGINNING, growth([LEAF], (0, -1, 0, 2), answers=[1])], id="fewer answers than announced"),
        pytest.param([BEGINNING, growth([LEAF], (0, -1, 0, 1), answers=[1, 2])], id="more answers"),
        pytest.param([BEGINNING, zlib.compress(struct.pack("<II", 0, 2) + b"[]")], id="no branch"),
        pytest.param([BEGINNING, zlib.compress(struct.pack("<II", 2**32 - 1, 2) + b"[]")], id="many branches"),
        pytest.param([BEGINNING, zlib.compress(b"abc")], id="three bytes"),
        pytest.param([BEGINNING, b"abc"], id="not compressed"),
        pytest.param([BEGINNING, FIRST[:-1]], id="compressed and cut short"),
        pytest.param([BEGINNING, FIRST + b"x"], id="more after the end"),
        pytest.param([FUNCTIONS, growth([LEAF], (0, -1, 0, 1), answers=[1])], id="a module's leaf for a function"),
        pytest.param([FUNCTIONS, growth([[["3"]]], (0, -1, 0, 1), answers=[1])], id="a cost in words"),
        pytest.param([FUNCTIONS, growth([[[float("nan")]]], (0, -1, 0, 1), answers=[1])], id="a cost of NaN"),
        pytest.param([FUNCTIONS, growth([[[10**400]]], (0, -1, 0, 1), answers=[1])], id="a cost beyond numbers"),
        pytest.param([FUNCTIONS, growth([[[1] * 12]], (0, -1, 0, 1), answers=[1])], id="twelve costs"),
        *(
            pytest.param([BEGINNING, growth([LEAF | change], (0, -1, 0, 1), answers=[1])], id=f"leaf {change}")
            for change in (
                {"exec_bytes": -1},
                {"exec_bytes": None},
                {"text_bytes": 2**63},
                {"text_bytes": 1.5},
                {"dedup_bytes": "7"},
                {"object_sha256": 3},
                {"truncated": 0},
                {"more": 1},
            )
        ),
        *(
            pytest.param([bytes(NONCE_BYTES) + encode_beginning(HEADER, contexts)], id=f"contexts {contexts}"[:30])
            for contexts in ([], ["f", "f"], [3], "f", [str(i) for i in range(2**17 + 1)])
        ),
        pytest.param([bytes(NONCE_BYTES) + zlib.compress(b'{"features":3}\n[""]')], id="a header without features"),
        pytest.param([bytes(NONCE_BYTES) + zlib.compress(b"[" * 50_000 + b"\n")], id="nested"),
        pytest.param([bytes(NONCE_BYTES)], id="a beginning of nothing"),
        pytest.param([b""], id="a record of nothing"),
    ],
)
def test_malformed_records(tmp_path, records):
    path = written(tmp_path, *records)
    damaged = r"is damaged at byte \d+ \(.*\); delete it, it will be made anew"
    with pytest.raises(ArtifactError, match=damaged) as caught:
        ReplayStore(tmp_path, KEY).load(MODULE)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_that_asks_for_no_answer(tmp_path):
    header = b'{"features":[{"name":"a","type":"int64_t","port":0,"shape":[1]}]}\n'
    written(tmp_path, bytes(NONCE_BYTES) + zlib.compress(header + b'[""]'))
    with pytest.raises(ArtifactError, match="a header without advice"):
        ReplayStore(tmp_path, KEY).load(MODULE)


@pytest.mark.parametrize("records", [[bytes(NONCE_BYTES)], [BEGINNING, b""]], ids=["beginning", "growth"])
def test_a_small_file_does_not_unpack_to_a_large_one(tmp_path, records):
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    assert 250_000 < len(bomb) < 350_000
    written(tmp_path, *records[:-1], records[-1] + bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match="content of more than 100 times its length"):
            ReplayStore(tmp_path, KEY).load(MODULE)
        assert tracemalloc.get_traced_memory()[1] < 80e6
    finally:
        tracemalloc.stop()


def test_a_compile_whose_questions_are_all_alike_is_kept(tmp_path):
    num_questions = 50_000
    answers, observations = bytes(8 * num_questions), bytes(WIDTH * num_questions)
    alike = CompileResult(scores(1, 1), "ab" * 32, 0.1, header=HEADER, answers=answers, observations=observations)
    ReplayStore(tmp_path, KEY).insert(MODULE, alike)
    loaded = ReplayStore(tmp_path, KEY).load(MODULE)
    assert loaded is not None
    assert loaded.num_nodes == num_questions
    assert loaded.whole.walk(lambda rows: np.zeros(len(rows), np.int64)).leaf.scores["text_bytes"] == 1


def test_after_a_damaged_record_nothing_of_the_file_is_used(tmp_path):
    path = written(tmp_path, BEGINNING, FIRST)
    store = ReplayStore(tmp_path, KEY)
    assert store.load(MODULE).num_nodes == 2
    with path.open("ab") as file:
        file.write(frame(MAGIC, FIRST))
    for _ in range(2):
        with pytest.raises(ArtifactError, match="damaged"):
            store.load(MODULE)
    path.write_bytes(b"")
    store.insert(MODULE, result(1, 5))
    assert store.load(MODULE) is not None


@pytest.mark.parametrize(
    "record",
    [
        [],
        3,
        None,
        {},
        {"task": "inline-size"},
        asdict(KEY) | {"size_stop_factor": "4"},
        asdict(KEY) | {"size_stop_factor": float("inf")},
        asdict(KEY) | {"records": [3]},
        asdict(KEY) | {"task": 3},
        asdict(KEY) | {"colour": "red"},
    ],
)
def test_malformed_keys(tmp_path, record):
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    folder = tmp_path / hashlib.sha256(text.encode()).hexdigest()[:16]
    folder.mkdir()
    (folder / "key.json").write_text(json.dumps(record))
    with pytest.raises(
        ArtifactError, match=r"key\.json is not (the key of the files beside it|JSON) \(.*\); delete it"
    ):
        stores(tmp_path)
    assert outdated_folders(tmp_path) == []


@settings(max_examples=40)
@given(data=st.data())
def test_a_flipped_bit_in_a_key(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("trees")
    ReplayStore(root, KEY).insert(MODULE, result(1, 1))
    path = root / KEY.folder / "key.json"
    spoilt = bytearray(path.read_bytes())
    spoilt[data.draw(st.integers(0, len(spoilt) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(spoilt)
    assert outdated_folders(root) == []
    with contextlib.suppress(ArtifactError):
        assert [store.modules() for store in stores(root)] == [[MODULE]]
