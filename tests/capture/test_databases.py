"""Compilation databases and bazel's action graph."""

import json

import pytest

from mlgo.capture.commands import steps_of
from mlgo.capture.databases import read_database
from mlgo.core.errors import CorpusError


def steps(tmp_path, content, folder=None):
    path = tmp_path / "compile_commands.json"
    path.write_text(json.dumps(content))
    return [step for call in read_database(path, folder) for step in steps_of(call)]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "ccache /usr/bin/cc -DA='x y' -c a.c -o a.o"},
        {"arguments": ["/usr/bin/cc", "-DA=x y", "-c", "a.c", "-o", "a.o"]},
    ],
)
def test_both_forms_say_the_same(tmp_path, entry):
    (one,) = steps(tmp_path, [{"directory": "/build", "file": "a.c", **entry}])
    assert (str(one.folder), one.source, one.options, str(one.output)) == ("/build", "a.c", ("-DA=x y",), "/build/a.o")


def test_relative_folders_start_at_the_file(tmp_path):
    (one,) = steps(tmp_path, [{"directory": "sub", "command": "cc -c a.c"}])
    assert one.folder == tmp_path / "sub"


def test_ninja_tells_of_links_too(tmp_path):
    command = ": && /usr/bin/c++ -O3 a.o -o prog libb.a && :"
    (link,) = steps(tmp_path, [{"directory": "/build", "command": command, "file": "a.o", "output": "prog"}])
    assert [path.name for path in link.inputs] == ["a.o", "libb.a"]


def test_actions_of_bazel(tmp_path):
    actions = [
        {"mnemonic": "CppCompile", "arguments": ["/usr/bin/gcc", "-c", "a.cc", "-o", "bazel-out/a.o"]},
        {"mnemonic": "FileWrite"},
        {"mnemonic": "Genrule", "arguments": ["/bin/bash", "-c", "echo"]},
    ]
    (one,) = steps(tmp_path, {"artifacts": [], "actions": actions}, tmp_path / "root")
    assert (one.folder, one.source) == (tmp_path / "root", "a.cc")


def test_response_files_that_are_still_there(tmp_path):
    (tmp_path / "o.rsp").write_text("a.o b.o")
    (link,) = steps(tmp_path, [{"directory": str(tmp_path), "command": "cc @o.rsp -o prog"}])
    assert [path.name for path in link.inputs] == ["a.o", "b.o"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "neither a compilation database"),
        ("text", "neither a compilation database"),
        ([{"command": "cc -c a.c"}], "entry 0 has no directory"),
        ([{"directory": "/", "command": "cc"}, 3], "entry 1 has no directory"),
        ([{"directory": "/", "file": "a.c"}], "entry 0 has neither arguments nor a command"),
    ],
)
def test_what_is_no_database(tmp_path, content, message):
    with pytest.raises(CorpusError, match=message):
        steps(tmp_path, content)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CorpusError, match="cannot be read as JSON"):
        read_database(tmp_path / "missing.json")


def test_commands_whose_quotes_do_not_end_are_passed_over(tmp_path):
    assert steps(tmp_path, [{"directory": "/", "command": "cc -c 'a.c"}]) == []
