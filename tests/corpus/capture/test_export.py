"""Corpora that are written for other tools, and read again."""

import json
import subprocess

import pytest

from mlgo.base.artifacts import PROJECT, write_rows
from mlgo.corpus.capture.export import Exporter
from mlgo.corpus.capture.extract import Extraction, extract
from mlgo.corpus.capture.imports import import_build
from mlgo.corpus.capture.llvm_corpora import read_llvm_corpus
from mlgo.corpus.store import project_modules
from mlgo.errors import CorpusError
from mlgo.host.module_file import with_options
from mlgo.host.session import compile_plain

TEXT = "extern int far[]; static int t(int x) { return far[x]; } int f(int x) { return t(x) + t(x + 1); }\n"


@pytest.fixture
def exporter(toolchain):
    return Exporter(toolchain, "-Oz", 30.0)


@pytest.fixture
def files(bitcode):
    data = bitcode(TEXT).read_bytes()
    return {"plain.c": data, "sub/options.c": with_options(data, ["-ffunction-sections", "-fno-pic"])}


def test_what_is_written_is_read_as_it_was(exporter, files, front_end, tmp_path):
    assert exporter.write(tmp_path / "corpus", files.items()) == 2
    build = import_build(tmp_path / "corpus")
    rows = extract(Extraction("p", "", front_end, tmp_path, 1), build.modules)
    assert {row["module"]: row["bitcode"] for row in rows} == files


def test_only_what_other_tools_know_is_written(exporter, files, tmp_path):
    exporter.write(tmp_path / "corpus", files.items())
    description = json.loads((tmp_path / "corpus/corpus_description.json").read_text())
    assert description == {"modules": ["plain.c", "sub/options.c"], "has_thinlto": False}
    written = sorted(str(path.relative_to(tmp_path / "corpus")) for path in tmp_path.glob("corpus/**/*.*"))
    members = ["plain.c.bc", "plain.c.cmd", "sub/options.c.bc", "sub/options.c.cmd"]
    assert written == ["corpus_description.json", *members]


def test_its_commands_make_the_objects_that_are_made_here(exporter, files, toolchain, settings, tmp_path):
    exporter.write(tmp_path / "corpus", files.items())
    for one in read_llvm_corpus(tmp_path / "corpus").modules:
        # as compiler_opt/rl/corpus.py does: the command, then the module
        command = [toolchain.binary, "clang", *one.command, "-x", "ir", one.bitcode, "-o", tmp_path / "theirs.o"]
        subprocess.run(command, check=True)
        assert not any("/" in word for word in one.command)
        (tmp_path / "module.bc").write_bytes(files[one.name])
        compile_plain(toolchain, tmp_path / "module.bc", settings, object_path=tmp_path / "ours.o")
        assert (tmp_path / "theirs.o").read_bytes() == (tmp_path / "ours.o").read_bytes()


def test_modules_of_thinlto_have_their_indexes_beside_them(exporter, files, tmp_path):
    exporter.write(tmp_path / "corpus", [("a", with_options(files["plain.c"], ["-fPIC"], b"index"))])
    corpus = read_llvm_corpus(tmp_path / "corpus")
    assert corpus.has_thinlto
    assert corpus.modules[0].index.read_bytes() == b"index"
    with pytest.raises(CorpusError, match="1 of 2 modules have an index"):
        exporter.write(
            tmp_path / "other", [("a", with_options(files["plain.c"], [], b"index")), ("b", files["plain.c"])]
        )


def test_names_stay_within_the_folder(exporter, files, tmp_path):
    data = files["plain.c"]
    exporter.write(tmp_path / "a/corpus", [(name, data) for name in ("/usr/x.c", "../../x.c", "../x.c", "..", "/x.c")])
    assert [one.name for one in read_llvm_corpus(tmp_path / "a/corpus").modules] == [
        *("usr/x.c", "x.c", "x.c#2", "module", "x.c#3")
    ]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["corpus"]


def test_folders_that_hold_something_and_nothing_to_write(exporter, files, tmp_path):
    with pytest.raises(CorpusError, match="there is no module to export"):
        exporter.write(tmp_path / "corpus", [])
    exporter.write(tmp_path / "new", files.items())
    with pytest.raises(CorpusError, match="new is not empty; name another folder"):
        exporter.write(tmp_path / "new", files.items())


def test_rows_that_were_left_out_are_no_modules(tmp_path):
    row = {"project": "p", "language": "c", "licence": "", "ir_sha256": "", "function_hashes": [], "function_sizes": []}
    rows = [
        {**row, "module": "a.c", "skip_reason": "", "bitcode": b"BC"},
        {**row, "module": "b.c", "skip_reason": "gone: b.c", "bitcode": None},
    ]
    write_rows(tmp_path / "project.parquet", rows, PROJECT, {})
    assert list(project_modules(tmp_path / "project.parquet")) == [("a.c", b"BC")]
