"""A captured build on disk, also where its writing was cut short."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlgo.corpus.capture.importers import import_build
from mlgo.corpus.capture.project import Extraction, write_project
from mlgo.host.frontend import FrontEnd

NUM_SOURCES = 48


class Counting(FrontEnd):
    compiled, most = 0, NUM_SOURCES

    def compile_to_bitcode(self, root, language, arguments, source, output, profile=None):
        Counting.compiled = number = Counting.compiled + 1  # without a call, so that no other thread comes between
        if number > self.most:
            raise KeyboardInterrupt
        super().compile_to_bitcode(root, language, arguments, source, output, profile)


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    for number in range(NUM_SOURCES):
        (folder / f"f{number:03d}.c").write_text(f"int f{number}(int x) {{ return x + {number}; }}\n")
    (folder / "f007.c").write_text("this is no C\n")
    names = sorted(path.name for path in folder.iterdir())
    entries = [{"directory": str(folder), "command": f"cc -c {name}", "file": name} for name in names]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture
def build(sources, tmp_path):
    return import_build(tmp_path / "compile_commands.json", sources)


@pytest.fixture
def extraction(front_end):
    Counting.compiled, Counting.most = 0, NUM_SOURCES
    counting = Counting(*(getattr(front_end, field.name) for field in dataclasses.fields(front_end)))
    return Extraction("p", "", counting, 2)


@pytest.fixture
def parts(build, sources, extraction, tmp_path):
    """Parts of a capture that was cut short, in the folder `cut`."""
    Counting.most = 36
    with pytest.raises(KeyboardInterrupt):
        write_project(tmp_path / "cut", build, sources, extraction)
    Counting.compiled, Counting.most = 0, NUM_SOURCES
    return sorted((tmp_path / "cut/parts").iterdir())


@pytest.mark.slow
def test_what_was_done_is_not_compiled_again_and_the_bytes_are_the_same(build, sources, extraction, parts, tmp_path):
    assert len(parts) == 36
    assert not (tmp_path / "cut/project.parquet").exists()
    cut = write_project(tmp_path / "cut", build, sources, extraction)
    assert Counting.compiled == NUM_SOURCES - len(parts)
    Counting.compiled = 0
    assert write_project(tmp_path / "whole", build, sources, extraction) == cut
    assert (cut.modules, list(cut.skipped), Counting.compiled) == (NUM_SOURCES - 1, ["f007.c"], NUM_SOURCES)
    for name in ("project.parquet", "programs.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "cut/parts").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("changed", "modules"), [(True, NUM_SOURCES), (False, NUM_SOURCES - 1)])
def test_parts_that_are_damaged_or_of_a_changed_source_are_compiled_again(
    build, extraction, sources, parts, tmp_path, changed, modules
):
    if changed:
        (sources / "f007.c").write_text("int now_it_is;\n")
    else:
        parts[0].write_bytes(b"damaged")
    assert write_project(tmp_path / "cut", build, sources, extraction).modules == modules
    assert Counting.compiled == NUM_SOURCES - (len(parts) - 1)


@pytest.mark.slow
def test_a_capture_that_was_killed_goes_on(sources, tmp_path):
    named = ["--from", tmp_path / "compile_commands.json", "--root", sources, "--name", "p", "-o"]
    command = [Path(sys.executable).with_name("mlgo"), "capture", *named]
    process = subprocess.Popen([*command, tmp_path / "killed"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("killed/parts/*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed/project.parquet").exists()
    for name in ("killed", "whole"):
        subprocess.run([*command, tmp_path / name], check=True, capture_output=True)
    killed, whole = (tmp_path / name / "project.parquet" for name in ("killed", "whole"))
    assert killed.read_bytes() == whole.read_bytes()
    assert not [path for path in (tmp_path / "killed").iterdir() if path.name.startswith(".")]
