"""Corpora in the layout of LLVM's tools: read, written, and written of modules of ours."""

import json
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.base.artifacts import PROJECT, write_rows
from mlgo.corpus.build import columns_without
from mlgo.corpus.capture.importers import import_build
from mlgo.corpus.capture.llvm_corpora import export_corpus, read_llvm_corpus, split_command, unit_of_command
from mlgo.corpus.capture.project import Extraction, extract
from mlgo.corpus.store import unpack_project
from mlgo.errors import CorpusError
from mlgo.host.module_file import Generation, module_file
from mlgo.host.session import compile_plain
from tests.corpus.capture.conftest import write_llvm_corpus

names = st.lists(
    st.lists(st.text("abcXYZ019._-", min_size=1).filter(lambda part: part.strip(".")), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
    unique_by=lambda parts: "/".join(parts),
).map(lambda found: ["/".join(parts) for parts in found])
words = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
commands = st.lists(words, max_size=4).map(lambda found: ("-cc1", *found))


@settings(max_examples=50, deadline=None)
@given(names, st.data())
def test_what_is_written_is_read(tmp_path_factory, some, data):
    if len({f"{a}." for a in some} & {f"{a.split('/')[0]}." for a in some if "/" in a}):
        return  # a module and a folder of one name
    folder = tmp_path_factory.mktemp("corpus")
    content = st.binary(max_size=8) if data.draw(st.booleans()) else st.none()
    modules = [(name, data.draw(st.binary(max_size=8)), data.draw(commands), data.draw(content)) for name in some]
    write_llvm_corpus(folder, modules)
    units = read_llvm_corpus(folder)
    found = [(one.name, one.piece.read(), one.index.read() if one.index else None) for one in units]
    assert found == [(name, bitcode, index) for name, bitcode, _, index in modules]
    of_commands = [
        unit_of_command(one.name, one.piece, command, one.index)
        for one, (_, _, command, _) in zip(units, modules, strict=True)
    ]
    assert units == of_commands


@pytest.mark.parametrize(
    ("changes", "command", "message"),
    [
        ({"modules": []}, "-cc1", "lists no modules"),
        ({"modules": "a"}, "-cc1", "modules: Input should be a valid list"),
        ({"modules": ["../a"]}, "-cc1", "module ../a lies outside the folder"),
        ({"modules": ["/a"]}, "-cc1", "module /a lies outside the folder"),
        ({"modules": ["b"]}, "-cc1", "b.bc is missing"),
        ({"has_thinlto": True}, "-cc1", "a.thinlto.bc is missing"),
        ({"has_thinlto": 1}, "-cc1", "has_thinlto: Input should be a valid boolean"),
        ({"global_command_override": ["<UNSPECIFIED>"]}, "-cc1", "write the options of the build there"),
        ({}, "-c", r"a\.cmd does not begin with -cc1"),
        ({}, None, r"a\.cmd cannot be read"),
        *((text, None, None) for text in ("{", "[1]", "[" * 100_000)),
    ],
)
def test_corpora_that_are_refused(tmp_path, changes, command, message):
    write_llvm_corpus(tmp_path, [("a", b"BC", command and [command], None)])
    description = tmp_path / "corpus_description.json"
    text = changes if isinstance(changes, str) else json.dumps(json.loads(description.read_text()) | changes)
    description.write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_llvm_corpus(tmp_path)


TEXT = "extern int far[]; static int t(int x) { return far[x]; } int f(int x) { return t(x) + t(x + 1); }\n"


@pytest.fixture
def export(toolchain, settings):
    return lambda folder, modules: export_corpus(folder, modules, toolchain, settings)


@pytest.fixture
def files(bitcode, tmp_path):
    plain = bitcode(TEXT)
    options = tmp_path / "options.bc"
    options.write_bytes(module_file(plain.read_bytes(), Generation(("-ffunction-sections", "-fno-pic"))))
    return {"plain.c": plain, "sub/options.c": options}


def test_what_is_written_is_read_as_it_was_and_only_what_other_tools_know(export, files, front_end, tmp_path):
    assert export(tmp_path / "corpus", files.items()) == 2
    description = json.loads((tmp_path / "corpus/corpus_description.json").read_text())
    assert description == {"modules": ["plain.c", "sub/options.c"], "has_thinlto": False}
    written = sorted(str(path.relative_to(tmp_path / "corpus")) for path in tmp_path.glob("corpus/**/*.*"))
    members = ["plain.c.bc", "plain.c.cmd", "sub/options.c.bc", "sub/options.c.cmd"]
    assert written == ["corpus_description.json", *members]
    rows = extract(Extraction("p", "", front_end, 1), import_build(tmp_path / "corpus").modules)
    assert {row["module"]: row["bitcode"] for row in rows} == {name: path.read_bytes() for name, path in files.items()}


def test_its_commands_make_the_objects_that_are_made_here(export, files, toolchain, settings, tmp_path):
    export(tmp_path / "corpus", files.items())
    for name in files:
        data = (tmp_path / f"corpus/{name}.cmd").read_bytes()
        assert data.endswith(b"\0")
        words = split_command(data)
        assert split_command(data.removesuffix(b"\0")) == words  # the last argument may lack its end
        # as compiler_opt/rl/corpus.py does: the command, then the module
        module = tmp_path / f"corpus/{name}.bc"
        command = [toolchain.binary, "clang", *words, "-x", "ir", module, "-o", tmp_path / "theirs.o"]
        subprocess.run(command, check=True)
        assert not any("/" in word for word in words)
        compile_plain(toolchain, files[name], settings, object_path=tmp_path / "ours.o")
        assert (tmp_path / "theirs.o").read_bytes() == (tmp_path / "ours.o").read_bytes()


def test_modules_of_thinlto_have_their_indexes_beside_them_and_what_is_refused_says_why(export, files, tmp_path):
    (tmp_path / "indexed.bc").write_bytes(module_file(files["plain.c"].read_bytes(), Generation(("-fPIC",), b"index")))
    indexed = ("a", tmp_path / "indexed.bc")
    export(tmp_path / "corpus", [indexed])
    assert read_llvm_corpus(tmp_path / "corpus")[0].index.read() == b"index"
    for folder, modules, message in (
        ("other", [indexed, ("b", files["plain.c"])], "1 of 2 modules have an index"),
        ("nothing", [], "there is no module to export"),
        ("corpus", files.items(), "corpus is not empty; name another folder"),
    ):
        with pytest.raises(CorpusError, match=message):
            export(tmp_path / folder, modules)


def test_names_stay_within_the_folder(export, files, tmp_path):
    modules = dict.fromkeys(("/usr/x.c", "../../x.c", "../x.c", "..", "/x.c"), files["plain.c"])
    export(tmp_path / "a/corpus", modules.items())
    expected = ["usr/x.c", "x.c", "x.c#2", "module", "x.c#3"]
    assert [one.name for one in read_llvm_corpus(tmp_path / "a/corpus")] == expected
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["corpus"]


def test_rows_that_were_left_out_are_no_modules(tmp_path):
    named = {"project": "p", "language": "c", "licence": ""}
    left = {**named, "module": "b.c", **columns_without("gone: b.c")}
    used = {**left, "module": "a.c", "skip_reason": "", "bitcode": b"BC"}
    write_rows(tmp_path / "project.parquet", [used, left], PROJECT, {})
    modules, files = unpack_project(tmp_path / "project.parquet", tmp_path / "bitcode")
    assert [(one.name, files[one.key].read_bytes()) for one in modules] == [("a.c", b"BC")]
