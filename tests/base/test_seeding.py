"""Named generators."""

import subprocess
import sys

import numpy as np
import pytest

from mlgo.base.seeding import generator, sample


def draw(*key):
    return generator(*key).integers(0, 2**62, 4).tolist()


def test_keys_are_independent():
    keys = [(1,), (0, "a"), (0, "b"), (0, "a", "b"), (0, "ab"), (0, "a", 1), (0, "a", 2), (2**40, "a"), (0, "")]
    assert len({tuple(draw(*key)) for key in keys}) == len(keys)
    with pytest.raises(ValueError, match="non-negative"):
        generator(-1)


def test_other_generators_do_not_matter():
    before = draw(3, "x")
    np.random.seed(99)  # noqa: NPY002
    generator(3, "y").random(1000)
    assert draw(3, "x") == before


def test_streams_do_not_depend_on_the_process():
    program = "from mlgo.base.seeding import generator; print(generator(5, 'es', 3).integers(0, 2**62, 4).tolist())"
    for hash_seed in ("1", "2"):
        command, environment = [sys.executable, "-c", program], {"PYTHONHASHSEED": hash_seed}
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert run.stdout.strip() == str(draw(5, "es", 3))


def test_samples():
    items = [f"item{i}" for i in range(50)]
    drawn = sample(items, 10, 0, "purpose", 1)
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn, key=items.index)
    assert drawn == sample(items, 10, 0, "purpose", 1)
    assert drawn != sample(items, 10, 0, "purpose", 2)
    assert drawn != sample(items, 10, 1, "purpose", 1)
    assert sample(items, 50, 0) == items
    assert sample(items, 99, 0) == items
    assert sample([], 3, 0) == []


def test_samples_are_fair():
    counts = np.zeros(10)
    for seed in range(500):
        for item in sample(range(10), 3, seed, "fair"):
            counts[item] += 1
    assert np.all(np.abs(counts - 150) < 60)  # standard deviation of each is about 10


def test_groups_take_turns():
    items = [f"{group}{number}" for group, count in (("a", 50), ("b", 3), ("c", 1)) for number in range(count)]
    groups = [item[0] for item in items]
    for count, expected in ((3, (1, 1, 1)), (6, (3, 2, 1)), (10, (6, 3, 1)), (54, (50, 3, 1))):
        drawn = sample(items, count, 0, "turns", turns=groups)
        assert [sum(one[0] == group for one in drawn) for group in "abc"] in (
            list(expected),
            [2, 3, 1] if count == 6 else None,  # who is first in the third turn is up to chance
        )
        assert drawn == sorted(set(drawn), key=items.index)
    firsts = {sample(items, 1, seed, "turns", turns=groups)[0][0] for seed in range(40)}
    assert firsts == {"a", "b", "c"}
    assert sample(items, 9, 1, "turns", turns=groups) != sample(items, 9, 2, "turns", turns=groups)
