"""Compilation databases and bazel's action graph."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.corpus.capture.builds import read_build
from mlgo.corpus.capture.commands import CompileStep, LinkStep
from mlgo.corpus.capture.databases import read_database
from mlgo.errors import CorpusError


def steps(tmp_path, content, folder=None):
    path = tmp_path / "compile_commands.json"
    path.write_text(json.dumps(content))
    return read_database(path, folder)


def test_both_forms_say_the_same_in_any_bytes(tmp_path):
    forms = {"command": "ccache cc -DA='x y' -c a.c -o a.o", "arguments": ["cc", "-DA=x y", "-c", "a.c", "-o", "a.o"]}
    found = steps(tmp_path, [{"directory": "/build", "file": "a.c", form: said} for form, said in forms.items()])
    expected = ("/build", "a.c", ("-DA=x y",), "/build/a.o")
    assert [(str(one.folder), one.source, one.options, str(one.output)) for one in found] == [expected] * 2
    path = tmp_path / "compile_commands.json"
    path.write_bytes(b'[{"directory": "/", "file": "\xe9.c", "arguments": ["zig", "cc", "-c", "\xe9.c"]}]')
    (one,) = read_database(path)
    assert one.source == "\udce9.c"  # as the file system's names are in Python


def test_relative_folders_start_at_the_file(tmp_path):
    (one,) = steps(tmp_path, [{"directory": "sub", "command": "cc -c a.c"}])
    assert one.folder == tmp_path / "sub"


@pytest.mark.parametrize("command", [": && /usr/bin/c++ -O3 a.o -o prog libb.a && :", "cc @o.rsp -o prog"])
def test_links_are_read_of_ninja_and_of_response_files_that_are_there(tmp_path, command):
    (tmp_path / "o.rsp").write_text("a.o libb.a")
    (link,) = steps(tmp_path, [{"directory": str(tmp_path), "command": command, "file": "a.o", "output": "prog"}])
    assert [path.name for path in link.inputs] == ["a.o", "libb.a"]


def test_actions_of_bazel_and_the_response_files_that_it_wrote_into_them(tmp_path):
    params = [{"execPath": "out/p.params", "arguments": ["-o", "out/p", "a b.o"]}]
    actions = [
        {"mnemonic": "CppCompile", "arguments": ["/usr/bin/gcc", "-c", "a.cc", "-o", "bazel-out/a.o"]},
        {"mnemonic": "FileWrite"},
        {"mnemonic": "Genrule", "arguments": ["/bin/bash", "-c", "echo"]},
        {"arguments": ["/usr/bin/gcc", "@out/p.params"], "paramFiles": params},
    ]
    one, link = steps(tmp_path, {"artifacts": [], "actions": actions}, tmp_path / "root")
    assert (one.folder, one.source) == (tmp_path / "root", "a.cc")
    assert [str(path.relative_to(tmp_path / "root")) for path in (*link.inputs, link.output)] == ["a b.o", "out/p"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((content, "neither a compilation database") for content in ({}, "text")),
        ([{"command": "cc -c a.c"}], "entry 0 has no directory"),
        ([{"directory": "/", "command": "cc"}, 3], "entry 1 has no directory"),
        ([{"directory": "/", "file": "a.c"}], "entry 0 has neither arguments nor a command"),
    ],
)
def test_what_is_no_database(tmp_path, content, message):
    with pytest.raises(CorpusError, match=message):
        steps(tmp_path, content)
    with pytest.raises(CorpusError, match="cannot be read as JSON"):
        read_database(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cc -c 'a.c", "command: its quotes do not end"),
        ("cl.exe /c a.c", "compiler: cl.exe is no C or C++ compiler that is known here"),
        ("/opt/armcc -c a.c -o a.o", "compiler: armcc is no C or C++ compiler that is known here"),
        ("cc @gone.rsp", "response: @gone.rsp, a file with further arguments, is gone; "),
        ("cc @gone.rsp -c a.c", "response: @gone.rsp, a file with further arguments, is gone; "),
        ("cc @../secret -c a.c", "response: @../secret, a file with further arguments, lies outside of the build's"),
        ("cc @/secret -c a.c", "response: @/secret, a file with further arguments, lies outside of the build's"),
    ],
)
def test_compiles_that_cannot_be_followed_say_why(tmp_path, command, reason):
    (tmp_path / "secret").write_text("-DSECRET=1")
    (tmp_path / "build").mkdir()
    command = command.replace("/secret", f"{tmp_path}/secret") if "@/" in command else command
    (one,) = steps(tmp_path / "build", [{"directory": ".", "command": command, "file": "a.c"}])
    assert isinstance(one, CompileStep)
    assert (one.source, one.folder) == ("a.c", tmp_path / "build")
    assert one.problem.replace(str(tmp_path), "").startswith(reason)
    assert "SECRET" not in str(one)


def test_a_link_out_of_response_files_inside_a_folder(tmp_path):
    (tmp_path / "out").symlink_to("/etc")
    link = {"directory": ".", "file": "a.o"}
    found = steps(tmp_path, [{**link, "command": "cc @out/hostname -o one"}, {**link, "command": "cc @gone -o two"}])
    assert [type(one) for one in found] == [LinkStep, LinkStep]
    assert [one.problem.partition("arguments, ")[2][:12] for one in found] == ["lies outside", "is gone; nin"]


words = st.text(st.sampled_from("acC+@-/.'\"&;|\\ \0\udce9\ud800=x"), max_size=12)
values = st.recursive(st.none() | st.booleans() | st.integers() | words, lambda inner: st.lists(inner, max_size=3))
entries = st.fixed_dictionaries(
    {"directory": words}, optional={"file": words | values, "command": words, "arguments": values, "output": values}
)


@given(st.lists(entries | values, max_size=3) | st.fixed_dictionaries({"actions": st.lists(entries | values)}))
def test_any_database_is_steps_or_one_error(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("database")
    try:
        found = steps(folder, content)
    except CorpusError:
        return
    assert read_build(found, folder) is not None


@pytest.mark.parametrize("name", ["a\0.c", "a\ud800.c"])
def test_what_no_name_can_hold_is_replaced(tmp_path, name):
    said = {"directory": f"/b{name}", "file": name, "arguments": ["cc", "-c", name, f"-DX={name}", "-o", f"{name}.o"]}
    (one,) = steps(tmp_path, [said])
    assert (one.folder.name, one.source, one.options) == ("ba\ufffd.c", "a\ufffd.c", ("-DX=a\ufffd.c",))
