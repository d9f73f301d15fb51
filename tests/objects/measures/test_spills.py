"""Costs of register allocation, read from remarks; held against a YAML parser."""

from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import RemarkError
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.objects.remarks import SpillCosts, cost_options, read_spill_costs

# As clang 22 writes it, with a loop's remark between those of its function and the next.
STREAM = b"""\
--- !Missed
Pass:            regalloc
Name:            LoopSpillReloadCopies
Function:        main
Args:
  - NumReloads:      '1'
  - String:          ' reloads '
  - TotalReloadsCost: '3.100000e+01'
  - String:          generated in loop
...
--- !Missed
Pass:            regalloc
Name:            SpillReloadCopies
Function:        main
Args:
  - NumSpills:       '2'
  - String:          ' spills '
  - TotalSpillsCost: '1.500000e+00'
  - NumReloads:      '3'
  - String:          ' reloads '
  - TotalReloadsCost: '3.200000e+01'
  - NumFoldedReloads: '1'
  - TotalFoldedReloadsCost: '5.000000e-01'
  - NumVRCopies:     '4'
  - String:          ' virtual registers copies '
  - TotalCopiesCost: '1.000000e+01'
  - String:          generated in function
...
--- !Missed
Pass:            regalloc
Name:            SpillReloadCopies
DebugLoc:        { File: a.c, Line: 3, Column: 0 }
Function:        'it''s $odd'
Args:
  - NumVRCopies:     '1'
  - String:          ' virtual registers copies '
  - TotalCopiesCost: '1.000000e+00'
  - String:          generated in function
...
"""


def test_functions_are_read_and_loops_are_not():
    main, odd = read_spill_costs(STREAM)
    counts = {"num_spills": 2, "num_reloads": 3, "num_folded_reloads": 1, "num_copies": 4}
    costs = {"spills_cost": 1.5, "reloads_cost": 32.0, "folded_reloads_cost": 0.5, "copies_cost": 10.0}
    assert main == SpillCosts("main", **counts, **costs)
    assert SPILL_COST.of_function(main) == pytest.approx(4 * 32.5 + 1.5 + 0.2 * 10)
    assert (odd.function, SPILL_COST.of_function(odd)) == ("it's $odd", pytest.approx(0.2))


@pytest.mark.parametrize(("entries", "cost"), [(b"100", 80_398.0), (b"0", 0.0)])
def test_under_a_profile_costs_are_those_of_all_entries(entries, cost):
    head = (
        b"DebugLoc:        { File: a.c, Line: 2, Column: 1 }\nFunction:        often\nHotness:         %b\n" % entries
    )
    start, end = b"--- !Missed\nPass:            regalloc\nName:            SpillReloadCopies\n", b"...\n"
    (often,) = read_spill_costs(
        start + head + b"Args:\n  - NumReloads:      '12'\n  - TotalReloadsCost: '8.039800e+02'\n" + end
    )
    assert often == SpillCosts("often", num_reloads=12, reloads_cost=pytest.approx(cost))


def test_entries_are_asked_for_where_a_profile_tells_them():
    with_profile = set(cost_options(b"BC..ProfileSummary..")) - set(cost_options(b"BC.."))
    assert with_profile == {"-fdiagnostics-show-hotness"}


def test_no_remark_at_all_is_no_cost():
    assert read_spill_costs(b"") == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (STREAM[:-1], "cut short or not YAML"),
        (STREAM[: len(STREAM) // 2], "cut short or not YAML"),
        (b"hello\n...\n", "cut short or not YAML"),
        (STREAM.replace(b"NumSpills", b"NumTears"), "unknown cost NumTears"),
        (STREAM.replace(b"'2'", b"'two'"), "b'two' as NumSpills"),
    ],
)
def test_what_is_not_such_a_stream(data, message):
    with pytest.raises(RemarkError, match=message):
        read_spill_costs(data)


@dataclass(frozen=True)
class Written:
    """A remark in the writer's terms."""

    function: str
    loop: bool
    values: dict[str, str]

    def text(self) -> str:
        name = "LoopSpillReloadCopies" if self.loop else "SpillReloadCopies"
        quoted = "'" + self.function.replace("'", "''") + "'"
        lines = [f"  - {key + ':':<16} '{value}'\n  - String:          ' x '\n" for key, value in self.values.items()]
        head = f"--- !Missed\nPass:            regalloc\nName:            {name}\nFunction:        {quoted}\nArgs:\n"
        return head + "".join(lines) + "...\n"


COUNTS = ["NumSpills", "NumFoldedSpills", "NumReloads", "NumFoldedReloads", "NumZeroCostFoldedReloads", "NumVRCopies"]
COSTS = ["TotalSpillsCost", "TotalFoldedSpillsCost", "TotalReloadsCost", "TotalFoldedReloadsCost", "TotalCopiesCost"]
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
VALUES = st.dictionaries(st.sampled_from(COUNTS), st.integers(1, 10**6).map(str)).flatmap(
    lambda counts: st.dictionaries(st.sampled_from(COSTS), st.floats(0, 1e12).map(lambda x: f"{x:e}")).map(
        lambda costs: {**counts, **costs}
    )
)


class _Loader(yaml.SafeLoader):
    pass


_Loader.add_constructor("!Missed", lambda loader, node: loader.construct_mapping(node, deep=True))


@given(st.lists(st.builds(Written, NAMES, st.booleans(), VALUES), max_size=5))
def test_a_yaml_parser_reads_the_same(remarks):
    text = "".join(one.text() for one in remarks)
    documents: list[Any] = list(yaml.load_all(text, _Loader))
    arguments = [{key: value for arg in one["Args"] or [] for key, value in arg.items()} for one in documents]
    expected = [
        (one["Function"], {key: float(value) for key, value in values.items() if key != "String"})
        for one, values in zip(documents, arguments, strict=True)
        if one["Name"] == "SpillReloadCopies"
    ]
    found = [(one.function, sorted(value for value in one[1:] if value)) for one in read_spill_costs(text.encode())]
    assert found == [(name, sorted(value for value in values.values() if value)) for name, values in expected]
