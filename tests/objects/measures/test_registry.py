"""The registry of measures, and what follows from it."""

import numpy as np
import pytest

from mlgo.base import artifacts
from mlgo.base.config import CompileConfig, default_compile, json_schema, parse_section
from mlgo.errors import ConfigError
from mlgo.objects import measures
from mlgo.objects.measures import Compiled, get_measure
from mlgo.objects.measures.built_in import EXEC, INSTRUCTIONS, LINKED, LINKED_CODE, SHARED_TEXT, SPILL_COST, TEXT
from mlgo.objects.remarks import SpillCosts
from tests.fakes.elf import ALLOC, PROGBITS, WRITE, elf_object
from tests.fakes.elf import EXEC as CODE

COLUMNS = ["exec_bytes", "text_bytes", "dedup_bytes", "linked_bytes", "linked_code", "instructions", "spill_cost"]


def test_the_default_comes_first_where_users_choose():
    assert list(measures.MEASURES) == COLUMNS
    assert measures.names() == ("text_bytes", "exec_bytes", *COLUMNS[2:])
    assert ("text_bytes", "exec_bytes", *COLUMNS[2:6]) == measures.SIZES


def test_unknown_measures_are_named():
    with pytest.raises(ConfigError, match=r"unknown measure 'size'; known: text_bytes, exec_bytes, dedup_bytes, lin"):
        get_measure("size")
    settings = default_compile().model_dump() | {"objective": "size"}
    with pytest.raises(ConfigError, match=r"objective: .* must be one of text_bytes, .* spill_cost.*, got 'size'"):
        parse_section(CompileConfig, settings)


def test_the_schema_of_the_configuration_lists_them():
    objective = json_schema()["$defs"]["CompileConfig"]["properties"]["objective"]
    assert objective["enum"] == list(measures.names())


def test_columns_by_hand():
    def described(schema, name):
        field = schema.field(name)
        return str(field.type), field.nullable, field.metadata[b"meaning"].decode(), field.metadata[b"unit"].decode()

    assert artifacts.SCORES.names[3:10] == artifacts.RESULTS.names[6:13] == COLUMNS
    assert artifacts.RESULTS.names[13:20] == [f"baseline_{name}" for name in COLUMNS]
    assert artifacts.HEADROOM.names[5:11] == COLUMNS[:6]
    assert artifacts.EPISODE.names[8:10] == COLUMNS[:2]
    assert artifacts.PROGRAMS.names[2:4] == ["text_bytes", "spill_cost"]
    text = ("int64", True, "Berkeley text of the object", "bytes")
    assert described(artifacts.SCORES, "text_bytes") == described(artifacts.HEADROOM, "text_bytes") == text
    assert described(artifacts.EPISODE, "text_bytes") == ("int64", False, *text[2:])
    assert described(artifacts.PROGRAMS, "text_bytes") == ("int64", True, "Berkeley text of its objects", "bytes")
    expected = ("double", True, "spills, reloads and copies under the heuristic", "")
    assert described(artifacts.RESULTS, "baseline_spill_cost") == expected
    expected = ("int64", True, "Berkeley text by shares under the policy", "bytes")
    assert described(artifacts.RESULTS, "dedup_bytes") == expected
    expected = ("int64", True, "text by shares under the heuristic", "bytes")
    assert described(artifacts.RESULTS, "baseline_dedup_bytes") == expected


def test_reading_by_hand():
    data = elf_object([(PROGBITS, ALLOC | CODE, 100), (PROGBITS, ALLOC, 30), (PROGBITS, ALLOC | WRITE, 7)])
    plain, known = Compiled(data), Compiled(data, (), {b"f": 2})
    assert [one.read(plain) for one in (EXEC, TEXT, SHARED_TEXT, SPILL_COST)] == [100, 130, None, None]
    assert [one.read(known) for one in (EXEC, TEXT, SHARED_TEXT, SPILL_COST)] == [100, 130, 130, 0.0]
    assert [INSTRUCTIONS.read(one) for one in (plain, Compiled(data, instructions=7))] == [None, 7]
    linked = Compiled(data, linked={"text": 100, "read_only": 20, "unwind": 12, "total": 120})
    assert [(LINKED.read(one), LINKED_CODE.read(one)) for one in (plain, linked)] == [(None, None), (120, 100)]
    costs = SpillCosts("f", spills_cost=1.0, reloads_cost=2.0), SpillCosts("g", copies_cost=10.0)
    assert SPILL_COST.read(Compiled(data, costs)) == SPILL_COST.of_functions(costs) == 1.0 + 4 * 2.0 + 0.2 * 10.0


def test_only_sums_over_functions_are_read_from_functions():
    assert [one.is_by_function for one in measures.MEASURES.values()] == [*[False] * 6, True]
    assert [one.is_of_object for one in measures.MEASURES.values()] == [True, True, *[False] * 5]
    with pytest.raises(ValueError, match="text_bytes is not known: only what functions cost is"):
        TEXT.of_functions(())


def test_rewards_take_the_offset_of_their_measure():
    score, baseline = np.array([90.0, 0.0]), np.array([100.0, 1.0])
    assert TEXT.reward(score, baseline).tolist() == pytest.approx([0.1, 1.0])
    assert SPILL_COST.reward(score, baseline).tolist() == pytest.approx([np.log(101 / 91), np.log(2.0)])
