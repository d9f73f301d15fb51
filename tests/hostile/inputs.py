"""All hostile inputs, and the bounded part of them."""

from collections import defaultdict

from tests.hostile import bombs, broken, content, formats, options, programs, shared
from tests.hostile.harness import Input

BOUNDED = 250
"""Inputs that tests run, some of them in `make test`."""


def all_inputs() -> list[Input]:
    """Each has a key of its own."""
    found = [one for module in (options, programs, shared, content, bombs, broken, formats) for one in module.inputs()]
    assert len({one.key for one in found}) == len(found)
    return found


def bounded(inputs: list[Input], most: int = BOUNDED) -> list[Input]:
    """A part of the inputs, spread evenly over kinds, and over the surfaces of each."""
    by_kind: dict[str, list[Input]] = defaultdict(list)
    for one in inputs:
        by_kind[one.kind].append(one)
    chosen: list[Input] = []
    for number, some in enumerate(sorted(by_kind.values(), key=len)):
        share = (most - len(chosen)) // (len(by_kind) - number)
        step = max(1, len(some) / share)
        chosen += [some[int(place * step)] for place in range(min(share, len(some)))]
    return sorted(chosen, key=lambda one: one.key)
