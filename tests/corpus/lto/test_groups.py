"""Cutting a program into groups."""

from hypothesis import given
from hypothesis import strategies as st

from mlgo.corpus.lto.groups import cut

A, B, C, D = (frozenset(words) for words in ([b"f", b"g", b"h"], [b"f", b"g"], [b"h", b"k"], [b"k"]))


def test_the_two_that_share_the_most_names_merge_first():
    # A and B share two names, A and C one, C and D one.
    bodies = [{1: 10}, {2: 10}, {3: 10}, {4: 10}]
    assert cut([A, B, C, D], bodies, 20) == [[0, 1], [2, 3]]
    assert cut([A, B, C, D], bodies, 40) == [[0, 1, 2, 3]]
    assert cut([A, B, C, D], bodies, 10) == [[0], [1], [2], [3]]


def test_copies_count_once():
    assert cut([A, B], [{1: 10}, {1: 10}], 10) == [[0, 1]]
    assert cut([A, B], [{1: 10}, {2: 1}], 10) == [[0], [1]]


def test_modules_that_share_no_name_stay_apart():
    assert cut([B, D], [{1: 1}, {2: 1}], 100) == [[0], [1]]
    assert cut([frozenset(), frozenset()], [{}, {}], 100) == [[0], [1]]


names = st.frozensets(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]))
bodies = st.dictionaries(st.integers(0, 9), st.just(3))


@given(st.lists(st.tuples(names, bodies), max_size=8), st.integers(1, 12))
def test_each_module_is_in_one_group_and_groups_are_small_enough(modules, limit):
    groups = cut([one for one, _ in modules], [of for _, of in modules], limit)
    assert sorted(number for group in groups for number in group) == list(range(len(modules)))
    assert groups == sorted(sorted(group) for group in groups)
    for group in groups:
        together = {body for number in group for body in modules[number][1]}
        assert len(group) == 1 or 3 * len(together) <= limit
