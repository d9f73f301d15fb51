"""What comes from others is data; and the judge of that sees what runs, writes, hangs and crashes."""

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.harness import Input, Place, Request, World
from tests.hostile.inputs import all_inputs, bounded
from tests.hostile.options import capture
from tests.hostile.world import make_world

PENDING: tuple[str, ...] = ()
"""Patterns of inputs that the package does not withstand yet."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = make_world(tmp_path_factory.mktemp("hostile"))
    yield found
    found.server.close()


IN_MAKE_TEST = 5
"""Of so many inputs one is in `make test`, the others are slow."""
HEAVY = ("F-bomb-*", "I-doctor*", "J-archive-*", "J-response-*-many", "J-parts-*", "K-driver-*", "K-saved-model-*")
"""Patterns of inputs that take more than three seconds of a processor."""


def is_slow(number: int, one: Input) -> bool:
    """Whether an input of the bounded ones is left out of `make test`."""
    return number % IN_MAKE_TEST > 0 or any(fnmatch.fnmatchcase(one.key, pattern) for pattern in HEAVY)


SOME = bounded(all_inputs())
QUICK = [one for number, one in enumerate(SOME) if not is_slow(number, one)]
INPUTS = [pytest.param(one, id=one.key, marks=[] if one in QUICK else [pytest.mark.slow]) for one in SOME]


@pytest.mark.parametrize("one", INPUTS)
def test_input_is_data(world: World, one: Input) -> None:
    if any(fnmatch.fnmatchcase(one.key, pattern) for pattern in PENDING):
        pytest.skip("the package does not withstand it yet")
    if one.needs_plugins and not world.clang:
        pytest.skip("no clang here loads plug-ins; install clang-19")
    found, outcome = world.judge(one)
    assert not found, f"{found}\n{outcome.text}"


def judged(world: World, words: list[str], script: str, **options: object) -> set[str]:
    """Faults that the judge sees in a program of Python."""

    def make(place: Place) -> Request:
        program = place.write("program.py", f"import os, sys, time, subprocess\n{script}\n")
        return Request([program, *words], seconds=1.5, options={"memory": 500 << 20}, **options)

    return {fault for fault, _ in world.judge(Input("K", "control", "program", make))[0]}


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("open('../outside/fired', 'w')", "canary"),
        ("open('../other', 'w')", "outside"),
        ("open('../outside/precious', 'w')", "outside"),
        ("os.unlink('../outside/precious')", "outside"),
        ("{}['key']", "traceback"),
        ("time.sleep(29)", "hang"),
        ("os.abort()", "crash"),
        ("subprocess.Popen(['sleep', '61.5'], start_new_session=True)", "left"),
        ("data = b'x' * (600 << 20); time.sleep(0.5)", "memory"),
    ],
)
def test_the_judge_sees_it(world: World, script: str, fault: str) -> None:
    assert judged(world, [], script) == {fault}


def test_the_judge_takes_an_honest_program_as_one(world: World) -> None:
    assert judged(world, [], "open('../outside/new', 'w'); sys.exit(3)", may_write=["outside/new"]) == set()


def test_a_plain_plug_in_fires_the_canary(world: World) -> None:
    """Otherwise silence would mean nothing; the command line is a person's own here."""
    if not world.clang:
        pytest.skip("no clang here loads plug-ins; install clang-19")
    script = f"subprocess.run([{world.clang!r}, '-fplugin=' + sys.argv[1], '-fsyntax-only', 'a.c'])"

    def make(place: Place) -> Request:
        program = place.write("program.py", f"import subprocess, sys\n{script}\n")
        return Request([program, str(place.plugin)])

    assert world.judge(Input("A", "control", "plug-in", make))[0] == [("canary", "in/canary.so.fired")]


def test_an_honest_capture_passes(world: World) -> None:
    def make(place: Place) -> Request:
        entry = f'[{{"directory": "{place.work}", "arguments": ["cc", "-Os", "-DX=1", "-c", "a.c"], "file": "a.c"}}]'
        place.write("compile_commands.json", entry)
        return capture(place, "compile_commands.json")

    found, outcome = world.judge(Input("A", "control", "honest", make))
    assert (found, outcome.status) == ([], 0), outcome.text


def test_names_of_inputs_are_paths_of_none(tmp_path: Path) -> None:
    """Keys are for people and patterns; surrogates in them would end a report."""
    for one in all_inputs():
        os.fsencode(one.key).decode()
        assert one.kind in "ABCDEFGHIJK"


def test_each_kind_is_in_make_test() -> None:
    assert {one.kind for one in QUICK} == {*"ABCDEFGHIJK"}
