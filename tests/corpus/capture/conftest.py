"""Lines for a shell, corpora in the layout of LLVM's tools and replies of CMake's file API, as others write them."""

import json
import shutil

import pytest

from mlgo.corpus.capture.builds import recorded_build
from mlgo.corpus.capture.commands import steps_of
from mlgo.corpus.capture.databases import Responses, call_of, shell_commands
from mlgo.corpus.capture.invocations import is_own, run_build
from mlgo.corpus.capture.objects import with_system_headers
from mlgo.corpus.capture.project import Extraction, extract

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("zig-cache")


def captured(front_end, folder, *command):
    """Status and rows of a build of a folder, which is the current one."""
    status = run_build(command, folder / "captured")
    build = with_system_headers(recorded_build(folder / "captured", folder), is_own)
    return status, list(extract(Extraction("p", "", front_end, 1), build.units))


def shell_calls(line, folder):
    """Calls of tools in a line for a shell."""
    commands = shell_commands(line, folder)
    return [call for words, place in commands for call in call_of(words, place, Responses((folder,), {}))]


def shell_steps(folder, *lines):
    return [step for line in lines for call in shell_calls(line, folder) for step in steps_of(call)]


def write_llvm_corpus(folder, modules, override=None):
    """Write modules, each given as name, bitcode, command and index; the last two may be None."""
    description = {
        "modules": [name for name, *_ in modules],
        "has_thinlto": any(index is not None for *_, index in modules),
    }
    for name, bitcode, command, index in modules:
        command = None if command is None else "".join(f"{word}\0" for word in command).encode()
        for ending, data in (("bc", bitcode), ("cmd", command), ("thinlto.bc", index)):
            path = folder / f"{name}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                path.write_bytes(data)
    if override is not None:
        description["global_command_override"] = list(override)
    (folder / "corpus_description.json").write_text(json.dumps(description))


CMAKE_INDEX = {"objects": [{"kind": "codemodel", "jsonFile": "model.json"}]}


def write_reply(folder, **files):
    """Write files of a reply of CMake, each a text or what becomes JSON."""
    reply = folder / ".cmake/api/v1/reply"
    reply.mkdir(parents=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (reply / f"{name.replace('_', '-')}.json").write_text(text)


def write_model(source, build, fragment, indexes=(0,), configurations=("",)):
    """Write the reply of a build folder with one target of one source."""
    group = {"language": "C", "sourceIndexes": indexes, "compileCommandFragments": [{"fragment": fragment}]}
    target = {"name": "t", "type": "OBJECT_LIBRARY", "paths": {"source": ".", "build": "."}}
    named = [{"name": name, "targets": [{"name": "t", "jsonFile": "t.json"}]} for name in configurations]
    model = {"paths": {"source": str(source), "build": str(build)}, "configurations": named}
    target |= {"sources": [{"path": "a.c"}], "compileGroups": [group]}
    write_reply(build, index_1=CMAKE_INDEX, model=model, t=target)
