"""Honest artifacts, from which hostile ones are made."""

import json
import os
import shutil
from pathlib import Path

from tests.hostile.harness import CHECKOUT, Place, Request, Server, World, make_plugin

REQUIRE = "MLGO_HOSTILE_REQUIRE_PLUGINS"
"""Environment variable: without a clang that loads plug-ins there is an error."""
_SOURCES = {
    "src/a.c": "int b(int);\nstatic int f(int x) { return x * 3; }\nint a(int x) { return f(x) + b(f(x + 1)); }\n",
    "src/b.c": "static int h(int x) { return x ^ 7; }\nint b(int x) { return h(x) + h(x + 2); }\n",
    "src/main.c": "int a(int);\nint main(int n, char **v) { return a(n); }\n",
    "src/Makefile": "prog: a.o b.o main.o\n\tcc -Os a.o b.o main.o -o prog\n%.o: %.c\n\tcc -Os -c $< -o $@\n",
}


def make_world(folder: Path, checkout: Path = CHECKOUT) -> World:
    """Make all of them; a world without a plug-in has no clang."""
    folder.mkdir(parents=True, exist_ok=True)
    found = make_plugin(folder)
    if found is None and os.environ.get(REQUIRE):
        raise RuntimeError(f"{REQUIRE} is set, but no clang here loads a plug-in; install clang-19")
    world = World(folder, Server(checkout), *(found or ()))
    config = (checkout / "config/config.yaml").read_text()
    for before, after in (("max_memory_gb: 8.0", "max_memory_gb: 1.0"), ("timeout_s: 120.0", "timeout_s: 5.0")):
        assert before in config, before
        config = config.replace(before, after)
    (folder / "config.yaml").write_text(config)
    for name, text in _SOURCES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    shutil.copytree(checkout / "data/released/marginal-s0", folder / "policy-s0")
    shutil.copytree(checkout / "data/released/tree8-s0", folder / "tree-s0")
    place = world.place()
    build = ["mlgo", "capture", "-o", folder / "project", "--root", folder / "src", *world.config, "--jobs", "2"]
    _run(world, place, [*build, "--", "make", "-s", "-C", folder / "src"])
    database = [{"directory": str(folder / "src"), "arguments": ["cc", "-Os", "-c", "a.c"], "file": "a.c"}]
    (folder / "db.json").write_text(json.dumps(database))
    _run(world, place, ["mlgo", "capture", "-o", folder / "of-clang", "--from", folder / "db.json", *world.plugins])
    for project, ending in (("project", ".bc"), ("of-clang", "-clang.bc")):
        for row in world.tables(project)[0]["PROJECT"]:
            (folder / f"{Path(row['module']).stem}{ending}").write_bytes(row["bitcode"])
    _run(world, place, ["mlgo", "compile", folder / "a.bc", *world.config, "--log", folder / "a.episode"])
    for source, stored in (("policy-s0", "stored-s0"), ("tree-s0", "tree-stored-s0")):
        world.call("store_policy", str(folder / source), str(folder / stored))
    return world


def _run(world: World, place: Place, words: list[object]) -> None:
    found = world.start(place, Request([str(word) for word in words], seconds=300.0))
    assert found.status == 0, found.text
