"""Which units take part, and on which side."""

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import CorpusError
from mlgo.jit.baseline import repeats, split_units
from mlgo.jit.compiler import compile_each
from mlgo.jit.outcome import Failed
from mlgo.jit.state import skip_reason
from tests.jit.additive import AdditiveCompiler


def shares(test, validation):
    return SimpleNamespace(test_share=test, validation_share=validation)


def baselines(effects, **options):
    compiler = AdditiveCompiler({"u": effects}, **options)
    return compile_each(compiler, "u")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (baselines([(1, 1), (2, 2)]), ""),
        (baselines([(1, 1)]), "too few viable candidates: 1"),
        (baselines([(1, 1)] * 4), "too many candidates: 4"),
        (baselines([(1, 1)] * 3, not_viable=frozenset({("u", 0), ("u", 1)})), "too few viable candidates: 1"),
        (baselines([(1, 1)] * 2, failing=frozenset({("u", None)})), "fails under the heuristic: jit_error"),
        ((Failed("timeout", ""), Failed("timeout", "")), "fails without elimination: timeout"),
        (baselines([(1, 1)] * 2, base=0.0), "scores nothing without elimination"),
    ],
)
def test_a_unit_takes_part_or_the_reason_is_given(found, reason):
    assert skip_reason(*found, 2, 3) == reason


def test_repeats_name_the_first():
    assert repeats({"a": "x", "b": "y", "c": "x", "d": "x"}) == dict.fromkeys("cd", "same code as another: a")


def test_each_number_of_candidates_is_shared_out():
    viable = {str(i): 3 + i % 2 for i in range(200)}
    side = split_units(viable, shares(0.2, 0.1), seed=0)
    for group in (3, 4):
        counts = Counter(side[name] for name, count in viable.items() if count == group)
        assert counts == {"test": 20, "validation": 10, "train": 70}


def test_the_split_depends_on_the_seed_alone():
    one, again, other = (split_units({str(i): 3 for i in range(50)}, shares(0.2, 0.1), seed) for seed in (1, 1, 2))
    assert one == again != other


def test_too_few_units_for_a_side_are_an_error():
    with pytest.raises(CorpusError, match="no unit for"):
        split_units({"a": 3}, shares(0.5, 0.5), 0)


@given(st.dictionaries(st.text(max_size=3), st.integers(3, 6), min_size=60, max_size=90), st.integers(0, 99))
def test_every_unit_is_on_one_side_and_small_groups_are_fair(viable, seed):
    side = split_units(viable, shares(0.3, 0.2), seed)
    assert side.keys() == viable.keys()
    for group in set(viable.values()):
        members = [side[name] for name, count in viable.items() if count == group]
        assert abs(members.count("test") - 0.3 * len(members)) <= 1
        assert abs(members.count("validation") - 0.2 * len(members)) <= 1
