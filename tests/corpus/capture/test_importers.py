"""What `mlgo capture --from` takes, each of it made by real tools, and what it says of the rest."""

import errno
import json
import os
import shutil
import struct
import subprocess

import pytest

from mlgo.corpus.capture import bitcode
from mlgo.corpus.capture.importers import import_build
from mlgo.corpus.capture.project import EDITED, Extraction, extract
from mlgo.errors import ConfigError, CorpusError
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file
from tests.corpus.capture.conftest import write_llvm_corpus, write_model

TEXT = "int helper(int); int main(int n, char **v) { return helper(n) - 1; }\n"


@pytest.fixture
def clang(toolchain, tmp_path):
    def run(*arguments, folder=tmp_path, target="x86_64-linux-gnu"):
        subprocess.run([toolchain.binary, "clang", f"--target={target}", *arguments], cwd=folder, check=True)

    (tmp_path / "a.c").write_text(TEXT)
    return run


def module(clang, folder, name="a.bc", *options):
    folder.mkdir(exist_ok=True)
    clang("-Oz", *options, "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "a.c", "-o", folder / name)
    return (folder / name).read_bytes()


@pytest.fixture
def rows(front_end, tmp_path):
    def read(path, options=()):
        build = import_build(path, options=options)
        found = extract(Extraction("p", "", front_end, 2), [*build.units, *build.modules])
        return {row["module"]: row for row in found}

    return read


def reasons(found):
    return {name: row["skip_reason"] for name, row in found.items()}


def test_a_folder_of_bitcode(clang, rows, tmp_path):
    data = module(clang, tmp_path / "bitcode", "a b.bc")
    (tmp_path / "bitcode/sub").mkdir()
    (tmp_path / "bitcode/sub/a.bc").write_bytes(module_file(data, Generation(("-ffunction-sections",))))
    (tmp_path / "bitcode/README").write_text("text")
    (tmp_path / "bitcode/a.thinlto.bc").write_bytes(data)
    found = rows(tmp_path / "bitcode", ["-fPIC"])
    assert reasons(found) == {"a b.bc": "", "sub/a.bc": "", "a.thinlto.bc": "index: of ThinLTO, which holds no code"}
    assert found["a b.bc"]["bitcode"] == module_file(data, Generation(("-fPIC",)))
    assert found["a b.bc"]["language"] == "c"
    brought = Generation(("-ffunction-sections",))  # stays
    assert found["sub/a.bc"]["bitcode"] == module_file(data, brought)
    assert bitcode_of(found["a b.bc"]["bitcode"]) == data


def test_bitcode_that_does_not_fit_says_why(clang, rows, tmp_path):
    folder = tmp_path / "bitcode"
    data = module(clang, folder)
    clang("-O0", "-emit-llvm", "-c", "a.c", "-o", folder / "unoptimized.bc")
    clang("-Oz", "-emit-llvm", "-c", "a.c", "-o", folder / "arm.bc", target="aarch64-linux-gnu")
    (folder / "cut.bc").write_bytes(data[:-100])
    options = b"-fplugin=./evil.so\0".ljust(28, b"\0")
    (folder / "evil.bc").write_bytes(struct.pack("<5I", 0x0B17C0DE, 0, 48, len(data), 0xFFFFFFFF) + options + data)
    found = reasons(rows(folder))
    assert found.pop("a.bc") == ""
    assert found.pop("cut.bc").startswith("bitcode: bitcode is cut off at")
    assert found.pop("unoptimized.bc").startswith("level: compiled with -O0")
    assert found.pop("arm.bc").startswith("target: made for aarch64-unknown-linux-gnu, not for x86_64-linux-gnu")
    assert found.pop("evil.bc").startswith("options: compiler option -fplugin=./evil.so can make the compiler run")
    assert not found


def test_bitcode_of_a_newer_compiler(clang, rows, tmp_path):
    folder = tmp_path / "bitcode"
    data = bytearray(module(clang, folder))
    # LLVM22 becomes LLVM99 in the characters of six bits that name its maker, and the type table makes no sense.
    bits = int.from_bytes(data[:64], "little")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
    packed = [sum(letters.index(one) << 6 * place for place, one in enumerate(text)) for text in ("LLVM22", "LLVM99")]
    at = next(place for place in range(400) if bits >> place & (1 << 36) - 1 == packed[0])
    data[:64] = (bits ^ (packed[0] ^ packed[1]) << at).to_bytes(64, "little")
    data[80:400] = bytes(byte ^ 0x55 for byte in data[80:400])
    (folder / "a.bc").write_bytes(data)
    (reason,) = reasons(rows(folder)).values()
    assert reason == ("newer: made by LLVM 99.1.8, and LLVM 22.1.8 cannot read it; set toolchain: to a newer clang")


def test_a_module_of_another_level_is_marked_anew(clang, rows, tmp_path):
    (tmp_path / "bitcode").mkdir()
    clang("-O2", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "a.c", "-o", tmp_path / "bitcode/a.bc")
    (row,) = rows(tmp_path / "bitcode").values()
    assert (row["skip_reason"], row[EDITED]) == ("", "-O1 to -O3")
    module(clang, tmp_path / "bitcode")
    (same,) = rows(tmp_path / "bitcode").values()
    assert same[EDITED] == ""
    assert (row["function_hashes"] == same["function_hashes"]).all()


@pytest.mark.skipif(not shutil.which("ar"), reason="needs ar")
def test_objects_and_archives(clang, rows, tmp_path):
    folder = tmp_path / "objects"
    data = module(clang, folder, "a.bc", "-ffunction-sections", "-fPIC")
    (folder / "a.bc").unlink()
    clang("-Oz", "-ffunction-sections", "-fPIC", "-Xclang", "-fembed-bitcode=all", "-c", "a.c", "-o", "objects/a.o")
    clang("-Oz", "-c", "a.c", "-o", "objects/bare.o")
    clang("-Oz", "-flto", "-c", "a.c", "-o", "objects/lto.o")
    subprocess.run(["ar", "qcS", "x.a", "a.o", "a.o", "../a.c"], cwd=folder, check=True)
    subprocess.run(["ar", "qcTS", "thin.a", "a.o"], cwd=folder, check=True)
    found = rows(folder)
    named = reasons(found)
    assert named.pop("bare.o") == "bitcode: it holds no bitcode; compile with -Xclang -fembed-bitcode=all"
    assert named.pop("x.a(a.c)") == "format: neither an object nor bitcode"
    assert "is a thin archive" in named.pop("thin.a")
    assert named.pop("lto.o").startswith("optimized: made with -flto, so its first optimization is done")
    assert named == {"a.o": "", "x.a(a.o)": "", "x.a(a.o)#2": ""}
    expected = module_file(data, Generation(("-ffunction-sections", "-fPIC")))
    assert found["a.o"]["bitcode"] == found["x.a(a.o)#2"]["bitcode"] == expected


@pytest.mark.parametrize(
    "options", [(), ("-fno-pic",), ("-fPIC", "-fdata-sections"), ("-fpie", "-mcmodel=medium", "-ffp-contract=fast")]
)
def test_the_options_of_a_command_make_the_object_that_it_made(clang, rows, tmp_path, options):
    text = "static const double t[] = {1, 2, 3}; extern int far[]; double f(int x) { return t[x] * far[x] + t[2]; }\n"
    (tmp_path / "a.c").write_text(text)
    (tmp_path / "objects").mkdir()
    clang("-Oz", *options, "-Xclang", "-fembed-bitcode=all", "-c", "a.c", "-o", "objects/a.o")
    clang("-Oz", *options, "-c", "a.c", "-o", "plain.o")
    (row,) = rows(tmp_path / "objects").values()
    (tmp_path / "module.bc").write_bytes(row["bitcode"])
    clang("-Oz", *generation_of(tmp_path / "module.bc").options, "-x", "ir", "module.bc", "-c", "-o", "again.o")
    assert (tmp_path / "again.o").read_bytes() == (tmp_path / "plain.o").read_bytes()


def test_a_corpus_with_commands_and_perhaps_indexes(clang, rows, tmp_path):
    data = module(clang, tmp_path / "bitcode")
    good = ("sub/good.o", data, ("-cc1", "-O2", "-mrelocation-model", "static", "-fdata-sections"), None)
    refused = ["-load", "-fplugin=x.so", "-fpass-plugin=x.so", "-wrapper", "-B/bin", "-specs=x", "--config=x"]
    refused += ["-plugin", "@/etc/passwd"]
    bad = [(f"{number}.o", data, ("-cc1", word), None) for number, word in enumerate(refused)]
    write_llvm_corpus(tmp_path / "corpus", [good, *bad])
    for path in (tmp_path / "corpus", tmp_path / "corpus/corpus_description.json"):
        found = rows(path)
        assert found.pop("sub/good.o")["bitcode"] == module_file(data, Generation(("-fdata-sections", "-fno-pic")))
        expected = [f"options: compiled with {word}, which another compiler cannot repeat" for word in refused]
        assert list(reasons(found).values()) == expected
    write_llvm_corpus(tmp_path / "thin", [("a", data, ("-cc1", "-fdata-sections"), b"index")])
    assert rows(tmp_path / "thin")["a"]["bitcode"] == module_file(data, Generation(("-fdata-sections",), b"index"))


def test_a_corpus_with_one_command_for_all(clang, rows, tmp_path):
    data = module(clang, tmp_path / "bitcode")
    write_llvm_corpus(tmp_path / "corpus", [("a", data, None, None)], ("-c", "-O2", "-fPIC", "-fno-exceptions"))
    assert rows(tmp_path / "corpus")["a"]["bitcode"] == module_file(data, Generation(("-fPIC",)))
    with pytest.raises(ConfigError, match="--options are for bitcode without commands"):
        rows(tmp_path / "corpus", ["-fPIC"])
    write_llvm_corpus(tmp_path / "corpus", [("a", data, None, None)], ("-c", "-fpass-plugin=./evil.so"))
    with pytest.raises(CorpusError, match=r"global_command_override: compiled with -fpass-plugin=\./evil\.so"):
        rows(tmp_path / "corpus")


def test_a_folder_with_a_compilation_database(tmp_path):
    entry = {"directory": ".", "command": "cc -c a.c", "file": "a.c"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    (tmp_path / "other.json").write_text(f" \n{json.dumps([entry])}")
    for path in (tmp_path, tmp_path / "compile_commands.json", tmp_path / "other.json"):
        assert [unit.name for unit in import_build(path, tmp_path).units] == ["a.c"]


def test_a_database_may_list_a_link_before_its_archive(tmp_path):
    commands = ("c++ a.o lib.a -o prog", "ar qc lib.a b.o", "cc -c a.c", "cc -c b.c")  # as ninja -t compdb does
    entries = [{"directory": ".", "command": command, "file": "x"} for command in commands]
    (tmp_path / "db.json").write_text(json.dumps(entries))
    (program,) = import_build(tmp_path / "db.json", tmp_path).programs
    assert [(part.kind, part.units) for part in program.parts] == [("object", ("a.c",)), ("archive", ("b.c",))]
    assert program.foreign == ()


@pytest.mark.parametrize("name", ["missing", "text", "empty", "folder"])
def test_what_is_nothing_of_all_this(tmp_path, name):
    (tmp_path / "text").write_text("int x;")
    (tmp_path / "empty").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CorpusError, match=f"{name} is (none of these: compile_commands.json, |not there)"):
        import_build(tmp_path / name)


@pytest.mark.parametrize("way", ["database", "compdb", "aquery", "cmake", "corpus", "override", "object"])
@pytest.mark.parametrize(
    "word", ["-fplugin=./evil.so", "-fpass-plugin=./evil.so", "-B./evil", "-specs=evil", "@/etc/hostname"]
)
def test_nothing_runs_on_any_way_in(clang, rows, tmp_path, way, word):
    path = tmp_path / "in"
    path.mkdir()
    entry = {"directory": str(tmp_path), "file": "a.c"}
    action = {"mnemonic": "CppCompile", "arguments": ["gcc", word, "-c", str(tmp_path / "a.c"), "-o", "a.o"]}
    databases = {
        "database": [{**entry, "arguments": ["cc", word, "-c", "a.c"]}],
        "compdb": [{**entry, "command": f"ccache cc {word} -c a.c && :"}],
        "aquery": {"actions": [action]},
    }
    if way in databases:
        (path / "compile_commands.json").write_text(json.dumps(databases[way]))
    elif way == "cmake":
        write_model(tmp_path, path, word)
    elif way in ("corpus", "override"):
        data = module(clang, tmp_path / "bitcode")
        words = (None, (word,)) if way == "override" else (("-cc1", word), None)
        write_llvm_corpus(path, [("a", data, words[0], None)], words[1])
    else:
        clang("-Oz", "-Xclang", "-fembed-bitcode=all", "-c", "a.c", "-o", path / "a.o")
        (tmp_path / "command").write_bytes(b"-cc1\0" + word.encode() + b"\0")
        update = f"--update-section=.llvmcmd={tmp_path / 'command'}"
        subprocess.run(["objcopy", update, path / "a.o"], check=True)
    if way == "override":
        with pytest.raises(CorpusError, match=f"compiled with {word}, which another compiler cannot repeat"):
            rows(path)
        return
    (reason,) = reasons(rows(path)).values()
    outside = f"response: {word}, a file with further arguments, lies outside of the build's folder"
    refused = f"options: compiled with {word}, which another compiler cannot repeat"
    assert reason == (outside if word.startswith("@") and way not in ("corpus", "object") else refused)


def test_a_file_that_cannot_be_read_leaves_out_itself_alone(tmp_path, monkeypatch):
    (tmp_path / "a.bc").write_bytes(b"BC\xc0\xde" + bytes(60))
    (tmp_path / "b.log").touch()
    with (tmp_path / "b.log").open("r+b") as long:
        long.truncate(3 << 30)
    (tmp_path / "c.bc").write_bytes(b"BC\xc0\xde")
    opened = bitcode.open_input

    def refuse(path, *most):
        if path.name == "c.bc":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *most)

    monkeypatch.setattr(bitcode, "open_input", refuse)
    found = {one.name: one.problem for one in import_build(tmp_path).modules}
    assert set(found) == {"a.bc", "c.bc"}
    assert found["c.bc"] == "file: Permission denied"
