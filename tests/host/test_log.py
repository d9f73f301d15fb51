"""LLVM's log format; expected bytes are written out by hand from section 1.2 and 1.7 of the fact sheet."""

import contextlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.types import DTYPES, TensorSpec
from mlgo.errors import ProtocolError
from mlgo.host.log import (
    Context,
    Header,
    LogParser,
    Outcome,
    RawObservation,
    parse_header,
    write_context,
    write_header,
    write_observation,
    write_outcome,
)

INTERACTIVE = (
    b'{"features":[{"name":"li_size","type":"int64_t","port":0,"shape":[1]},'
    b'{"name":"weight","type":"float","port":0,"shape":[2,3]}],'
    b'"advice":{"name":"priority","type":"float","port":0,"shape":[1]}}\n'
)
TRAINING = (
    b'{"features":[{"name":"a","type":"int8_t","port":0,"shape":[2]}],'
    b'"score":{"name":"reward","type":"float","port":0,"shape":[1]}}\n'
)
PAYLOAD = struct.pack("<q6f", -2, 0.0, 1.0, 2.0, 3.0, 4.0, 5.5)
TYPES = {
    "float": ("f", [1.5, -2.25]),
    "double": ("d", [1e300, -0.1]),
    "int8_t": ("b", [-128, 127]),
    "uint8_t": ("B", [0, 255]),
    "int16_t": ("h", [-32768, 32767]),
    "uint16_t": ("H", [0, 65535]),
    "int32_t": ("i", [-(2**31), 2**31 - 1]),
    "uint32_t": ("I", [0, 2**32 - 1]),
    "int64_t": ("q", [-(2**63), 2**63 - 1]),
    "uint64_t": ("Q", [0, 2**64 - 1]),
}
"""Code of `struct` and some values by type."""


def parse(data: bytes) -> list:
    parser = LogParser()
    events = parser.feed(data)
    assert parser.pending_bytes == 0
    return events


def with_spec(**changes) -> bytes:
    spec = {"name": "a", "type": "int64_t", "port": 0, "shape": [1]} | changes
    return json.dumps({"features": [spec], "advice": spec | {"type": "int64_t", "shape": [1]}}).encode()


def test_header():
    header = parse_header(INTERACTIVE)
    assert header.features == (
        TensorSpec("li_size", np.dtype(np.int64), (1,)),
        TensorSpec("weight", np.dtype(np.float32), (2, 3)),
    )
    assert header.advice == TensorSpec("priority", np.dtype(np.float32), (1,))
    assert header.score is None
    assert header.payload_bytes == 8 + 6 * 4
    assert (header.index("weight"), header.offset("weight"), header.offset("li_size")) == (1, 8, 0)
    with pytest.raises(ProtocolError, match="'speed'"):
        header.index("speed")


def test_values_of_every_type():
    assert set(DTYPES) == set(TYPES)
    for name, (code, values) in TYPES.items():
        header = parse_header(with_spec(type=name, shape=[2]))
        assert header.payload_bytes == struct.calcsize(f"<2{code}")
        assert header.features[0].dtype.kind == ("f" if name in ("float", "double") else name[0])
        assert header.unpack(struct.pack(f"<2{code}", *values))["a"].tolist() == values


def test_a_name_may_be_empty():
    header = parse_header(with_spec(name="", type="int64_t", shape=[1]))
    assert header.unpack(struct.pack("<q", 7))[""].tolist() == [7]


def test_a_stream_by_hand():
    events = parse(INTERACTIVE + b'{"context":"f"}\n{"observation":0}\n' + PAYLOAD + b"\n")
    header, context, observation = events
    assert context == Context("f")
    assert observation == RawObservation(0, PAYLOAD)
    arrays = header.unpack(observation.payload)
    assert arrays["li_size"].tolist() == [-2]
    assert arrays["weight"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.5]]


@pytest.mark.parametrize("numbers", [[1], [0, 2], [0, 0], [0, 1, 0], [5], [0, "g", "f", 0]])
def test_number_jumps(numbers):
    """Also where a context is resumed."""
    parts = [write_context(n) if isinstance(n, str) else write_observation(n, PAYLOAD) for n in numbers]
    with pytest.raises(ProtocolError, match=r"observation \d where \d was due in context 'f'"):
        LogParser().feed(INTERACTIVE + write_context("f") + b"".join(parts))


@pytest.mark.parametrize(
    "payload", [b"\n" * 32, b'"' * 32, b'{"observation":1}\n'.ljust(32, b"\n"), b"\0" * 32, b'{"context":"x"}\n' * 2]
)
def test_payloads_with_line_feeds_and_quotes(payload):
    stream = INTERACTIVE + write_context("") + write_observation(0, payload) + write_observation(1, payload)
    assert parse(stream)[2:] == [RawObservation(0, payload), RawObservation(1, payload)]


def test_a_training_log_with_outcomes():
    score = struct.pack("<f", 0.5)
    stream = TRAINING + b'{"context":"f"}\n{"observation":0}\n\x01\x02\n{"outcome":0}\n' + score + b"\n"
    assert parse(stream)[2:] == [RawObservation(0, b"\x01\x02"), Outcome(0, score)]
    assert parse(TRAINING)[0].advice is None
    assert stream.endswith(write_outcome(0, score))


NESTED = b"[" * 100_000
NO_HEADERS = [
    *(b"", b"hello", b"{", b"[]", b"null", b"3", b'"text"', b"{}", b"\xff\xfe", NESTED, b'{"features":' + NESTED),
    *(b'{"features":%s}' % one for one in (b"[]", b"{}", b"[3]", b'["a"]', b"[{}]", b"null")),
    *(with_spec(type=one) for one in ("int128_t", "half", None, [], {})),
    *(with_spec(shape=one) for one in ([0], [-1], [1.5], "1", None, [10**9], [2**40, 2**40], [True], [10**6] * 20)),
    with_spec(shape=[10**9] * 600),  # a product of 5400 digits
    INTERACTIVE.replace(b"weight", b"li_size"),
    INTERACTIVE.replace(b'"advice":{"name"', b'"advice":{"nom"'),
]


MANY = [{"name": str(i), "type": "int64_t", "port": 0, "shape": [1 << 20]} for i in range(3)]


@pytest.mark.parametrize("line", NO_HEADERS, ids=range(len(NO_HEADERS)))
def test_bad_headers(line):
    with pytest.raises(ProtocolError):
        LogParser().feed(line.rstrip(b"\n") + b"\n")


NO_LINES = [
    *(b"x", b"{}", b"[]", b'{"context":3}', b'{"observation":x}', b'{"observation":-1}', b'{"observation":0x'),
    *(b'{"observation":0]', b'{"observation":' + b"1" * 5000 + b"}", NESTED),
]
NOT_DUE = [
    *(b'{"observation": 1}', b'{"observation": true}', b'{"observation": 0.0}', b'{"observation": "0"}'),
    *(b'{"observation": 0, "context": "f"}', b'{"observation": 0, "outcome": 0}', b'{"outcome": null}'),
]
NO_PAYLOADS = [PAYLOAD + b"\0", PAYLOAD[:-1]]


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        *(([INTERACTIVE + line + b"\n" + PAYLOAD + b"\n"], None) for line in NO_LINES),
        ([INTERACTIVE + b'{"outcome":0}\n\0\0\0\0\n'], "unexpected line"),
        ([INTERACTIVE + b'{"observation":0}\n' + PAYLOAD + b"x"], "line feed"),
        *(([INTERACTIVE, write_observation(0, one), write_observation(1, one)], None) for one in NO_PAYLOADS),
        ([b"x" * (1 << 16)] * 40, "a line of more than"),
        ([INTERACTIVE + b'{"context":"' + b"x" * (1 << 20) + b'"}\n'], "a line of more than"),
        ([json.dumps({"features": MANY}).encode() + b"\n"], "an observation"),
        *(([TRAINING, write_context("f"), line + b"\n\1\2\n"], None) for line in NOT_DUE),
    ],
)
def test_bad_streams(pieces, message):
    parser = LogParser()
    with pytest.raises(ProtocolError, match=message):
        for piece in pieces:
            parser.feed(piece)


def test_incomplete_events_stay_pending():
    parser = LogParser()
    stream = INTERACTIVE + write_observation(0, PAYLOAD)
    assert len(parser.feed(stream[:-1])) == 1
    assert parser.pending_bytes == len(stream) - 1 - len(INTERACTIVE)
    assert parser.feed(stream[-1:]) == [RawObservation(0, PAYLOAD)]
    assert parser.pending_bytes == 0


def test_scalars():
    header = Header(tuple(TensorSpec(name, np.dtype(np.int64), (1,)) for name in "abc"))
    rows = np.arange(6, dtype=np.int64)
    assert header.scalars(rows.tobytes()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert header.scalars(b"").shape == (0, 3)
    assert header.scalars(rows.tobytes()).dtype == np.int64
    with pytest.raises(ProtocolError, match="weight"):
        parse_header(INTERACTIVE).scalars(b"")


def test_scalars_of_several_types():
    kinds = {"a": np.int64, "x": np.float32, "y": np.float32, "b": np.int64}
    record = np.dtype(list(kinds.items()))  # packed: b is not where an int64 would be aligned
    header = Header(tuple(TensorSpec(name, np.dtype(kind), (1,)) for name, kind in kinds.items()))
    assert header.blocks() == [(np.int64, 1, 0), (np.float32, 2, 8), (np.int64, 1, 16)]
    rows = np.array([(-1, 0.5, 2.5, 7), (1 << 40, -3.25, 0.0, 8)], record)
    found = header.scalars(rows.tobytes())
    assert found.tolist() == [[-1, 0.5, 2.5, 7], [1 << 40, -3.25, 0, 8]]
    assert found.dtype == np.float32


def test_written_header_is_llvms():
    assert write_header(parse_header(INTERACTIVE)) == INTERACTIVE
    assert write_header(parse_header(TRAINING)) == TRAINING
    assert write_context("") == b'{"context":""}\n'
    assert write_observation(12, b"ab") == b'{"observation":12}\nab\n'


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
specs = st.builds(
    TensorSpec,
    names,
    st.sampled_from(sorted(DTYPES.values(), key=str)),
    st.lists(st.integers(1, 4), max_size=3).map(tuple),
)
headers = st.builds(
    Header,
    st.lists(specs, min_size=1, max_size=5, unique_by=lambda spec: spec.name).map(tuple),
    st.none() | specs,
    st.none() | specs,
)


WRITERS = {
    Header: write_header,
    Context: lambda context: write_context(context.name),
    RawObservation: lambda observation: write_observation(*observation),
    Outcome: lambda outcome: write_outcome(outcome.number, outcome.payload),
}


CONTEXTS = ["", "f", 'with "quotes"', "back\\slash", "_ZN3foo3barEv", "naïve", "a\nb"]


@st.composite
def logs(draw):
    """A header and events in a legal order, with the bytes that mean them."""
    header = draw(headers)
    events, numbers, context = [header], {}, ""
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["context", "observation", "observation", "outcome"]))
        if kind == "context":
            context = draw(st.sampled_from(CONTEXTS))
            events.append(Context(context))
        elif kind == "observation" or header.score is None:
            payload = draw(st.binary(min_size=header.payload_bytes, max_size=header.payload_bytes))
            number = numbers.get(context, 0)
            numbers[context] = number + 1
            events.append(RawObservation(number, payload))
        else:
            size = header.score.num_bytes
            payload = draw(st.binary(min_size=size, max_size=size))
            events.append(Outcome(3, payload))
    return events, b"".join(WRITERS[type(event)](event) for event in events)


@st.composite
def loosely(draw, line):
    """The same line of JSON as others might write it: blanks, another order of keys, escapes, more keys."""
    record = json.loads(line)
    keys = draw(st.permutations([*record, "more"]))
    record["more"] = draw(st.none() | st.lists(st.text(max_size=3), max_size=2))
    items = [f"{json.dumps(key)}{draw(blanks)}:{draw(blanks)}{draw(forms)(record[key])}" for key in keys]
    text = draw(blanks) + "{" + draw(blanks) + f"{draw(blanks)},{draw(blanks)}".join(items) + draw(blanks) + "}"
    return (text + draw(blanks)).encode() + b"\n"


blanks = st.text(" \t\r", max_size=2)
forms = st.sampled_from([json.dumps, lambda value: json.dumps(value, ensure_ascii=False)])


@given(logs(), st.data())
def test_lines_of_any_valid_json_mean_the_same(log, data):
    events, _ = log
    stream, parser = b"", LogParser()
    for event in events:
        line, _, rest = WRITERS[type(event)](event).partition(b"\n")
        stream += data.draw(loosely(line)) + rest
    cut = data.draw(st.integers(0, len(stream)))
    assert parser.feed(stream[:cut]) + parser.feed(stream[cut:]) == events
    assert parser.pending_bytes == 0


@given(logs(), st.data())
def test_any_split_gives_the_same_events(log, data):
    events, stream = log
    parser, found, start = LogParser(), [], 0
    while start < len(stream):
        length = data.draw(st.integers(0, 40))
        found += parser.feed(stream[start : start + length])
        start += length
    assert found == events
    assert parser.pending_bytes == 0


@st.composite
def damaged(draw):
    """A log of which some bytes are others."""
    stream = bytearray(draw(logs())[1])
    for _ in range(draw(st.integers(1, 3))):
        stream[draw(st.integers(0, len(stream) - 1))] = draw(st.integers(0, 255))
    return bytes(stream)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
garbage = st.binary(max_size=200)
records = st.dictionaries(st.sampled_from(["features", "advice", "score"]), st.lists(values, max_size=3) | values)


@pytest.mark.parametrize(
    "streams",
    [garbage, garbage.map(INTERACTIVE.__add__), damaged(), records.map(lambda one: json.dumps(one).encode())],
    ids=["garbage", "garbage after a header", "damaged", "any JSON"],
)
@given(st.data())
def test_whatever_comes_raises_only_protocol_errors(streams, data):
    with contextlib.suppress(ProtocolError):
        LogParser().feed(data.draw(streams) + b"\n")
