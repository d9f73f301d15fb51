"""Corpora in the layout of LLVM's tools."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.corpus.capture.llvm_corpora import read_llvm_corpus, split_command, write_llvm_corpus
from mlgo.errors import CorpusError

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
    override = data.draw(st.none() | commands)
    with_index = data.draw(st.booleans())
    modules = [
        (
            name,
            data.draw(st.binary(max_size=8)),
            data.draw(commands) if override is None else None,
            data.draw(st.binary(max_size=8)) if with_index else None,
        )
        for name in some
    ]
    assert write_llvm_corpus(folder, modules, override) == len(modules)
    corpus = read_llvm_corpus(folder)
    assert (corpus.has_thinlto, corpus.override) == (with_index, override)
    found = [
        (one.name, one.bitcode.read_bytes(), one.command, one.index.read_bytes() if one.index else None)
        for one in corpus.modules
    ]
    assert found == modules


def test_the_description_holds_the_keys_of_llvm_and_no_other(tmp_path):
    write_llvm_corpus(tmp_path, [("a.o", b"BC", ("-cc1", "-O2"), None)])
    assert json.loads((tmp_path / "corpus_description.json").read_text()) == {"modules": ["a.o"], "has_thinlto": False}
    assert (tmp_path / "a.o.cmd").read_bytes() == b"-cc1\0-O2\0"


def test_a_last_argument_may_lack_its_end():
    assert split_command(b"-cc1\0-O2") == ("-cc1", "-O2")


def corpus(folder: Path, **description: object) -> Path:
    (folder / "corpus_description.json").write_text(json.dumps({"modules": ["a"], "has_thinlto": False, **description}))
    (folder / "a.bc").write_bytes(b"BC")
    (folder / "a.cmd").write_bytes(b"-cc1\0")
    return folder


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"modules": []}, "lists no modules"),
        ({"modules": "a"}, "modules must be a list of names"),
        ({"modules": ["../a"]}, "module ../a lies outside the folder"),
        ({"modules": ["/a"]}, "module /a lies outside the folder"),
        ({"modules": ["b"]}, "b.bc is missing"),
        ({"has_thinlto": True}, "a.thinlto.bc is missing"),
        ({"has_thinlto": 1}, "has_thinlto must be true or false"),
        ({"global_command_override": ["<UNSPECIFIED>"]}, "write the options of the build there"),
    ],
)
def test_descriptions_that_are_refused(tmp_path, description, message):
    with pytest.raises(CorpusError, match=message):
        read_llvm_corpus(corpus(tmp_path, **description))


def test_commands_that_no_compiler_wrote(tmp_path):
    (corpus(tmp_path) / "a.cmd").write_bytes(b"-c\0")
    with pytest.raises(CorpusError, match=r"a\.cmd does not begin with -cc1"):
        read_llvm_corpus(tmp_path)
    (tmp_path / "a.cmd").unlink()
    with pytest.raises(CorpusError, match=r"a\.cmd cannot be read"):
        read_llvm_corpus(tmp_path)


def test_modules_that_differ_in_what_they_have(tmp_path):
    with pytest.raises(CorpusError, match="1 of 2 modules have an index"):
        write_llvm_corpus(tmp_path, [("a", b"", ("-cc1",), b""), ("b", b"", ("-cc1",), None)])
    with pytest.raises(CorpusError, match="a module has its own command exactly where"):
        write_llvm_corpus(tmp_path, [("a", b"", None, None)])


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_what_is_no_description(tmp_path, text):
    (tmp_path / "corpus_description.json").write_text(text)
    with pytest.raises(CorpusError):
        read_llvm_corpus(tmp_path)
