"""rustc through LLVM's interactive channel, as far as it takes to see whether it keeps its word.

In builds of Rust the native driver asks the policy (`mlgo/deploy/driver/rust.h`).
"""

import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlgo.base.config import CompileConfig
from mlgo.base.files import read_input
from mlgo.errors import CompilerExit, LinkError, ToolchainError
from mlgo.host.conversation import AnswerPrefix, Channel, Conversation
from mlgo.host.process import Child
from mlgo.host.tasks.task import EchoAdvisor, Task
from mlgo.host.toolchain import OLDEST_LLVM, Quirks, ask_version, print_of

RUST_LIBRARY = "rustlib:"
"""How names of rustc's own libraries begin, of which programs are linked; the rest says target, file and version."""
_LIBRARY = re.compile(r"lib/rustlib/([\w.-]+)/lib/([\w.-]+\.rlib)$")
_NAME = re.compile(rf"{RUST_LIBRARY}([\w.-]+)/([\w.-]+\.rlib)")
_SAMPLE = """\
pub fn count(text: &str) -> std::collections::BTreeMap<String, usize> {
    let mut found = std::collections::BTreeMap::new();
    for word in text.split_whitespace() {
        *found.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    found
}
"""


@dataclass(frozen=True)
class Rustc:
    """A rustc."""

    binary: Path  # the executable
    version: str
    llvm: tuple[int, int, int]

    def compile(self, output: Path, options: Sequence[str], settings: CompileConfig) -> Child:
        """Start to compile the sample for size to an object."""
        source = output.with_suffix(".rs")
        source.write_text(_SAMPLE)
        how = ["--edition=2021", "--crate-type=lib", "--emit=obj", "-Copt-level=z", "-Ccodegen-units=1", *options]
        command = [str(self.binary), *how, str(source), "-o", str(output)]
        return Child(command, max_memory_bytes=int(settings.max_memory_gb * 1e9))


def find_rustc() -> Rustc | None:
    """The rustc on PATH, if any; ToolchainError if it says no version or its LLVM has no channel."""
    if (found := shutil.which("rustc")) is None:
        return None
    said = ask_version([found, "--verbose"])
    release, llvm = (
        re.search(r"^release: (\S+)", said, re.M),
        re.search(r"^LLVM version: (\d+)\.(\d+)\.(\d+)", said, re.M),
    )
    if release is None or llvm is None:
        raise ToolchainError(f"{found} does not say which rustc it is")
    major, minor, patch = map(int, llvm.groups())
    if major < OLDEST_LLVM:
        raise ToolchainError(f"rustc {release[1]} has LLVM {major}, the interactive channel came with {OLDEST_LLVM}")
    return Rustc(Path(found), release[1], (major, minor, patch))


def plain_object(rustc: Rustc, folder: Path, settings: CompileConfig, options: Sequence[str] = ()) -> bytes:
    """The sample's object without a channel."""
    output = folder / "sample.o"
    with rustc.compile(output, options, settings) as child:
        _end(child.wait(time.monotonic() + settings.compile_timeout_s), child)
    return read_input(output)


def echoed_object(rustc: Rustc, task: Task, folder: Path, settings: CompileConfig) -> tuple[bytes, int]:
    """The sample's object where each question is answered by the heuristic's own decision, and the number of questions.

    Raises:
        CompileError: the compile failed, took too long, or broke the protocol.
    """
    output, slot = folder / "sample.o", Quirks.of(rustc.llvm).default_slot
    talk = Conversation(task, EchoAdvisor(slot), settings, False, AnswerPrefix(), lambda context: None)
    with Channel(folder) as channel:
        flags = [*task.asking_flags(str(channel.base), 1000.0), *(task.default.flags if task.default else ())]
        options = [f"-Cllvm-args={flag}" for flag in flags if flag != "-mllvm"]
        start = time.monotonic()
        with rustc.compile(output, options, settings) as child:
            _end(talk.run(channel, child, start), child)
    return read_input(output), sum(count for _, count in talk.contexts)


def _end(status: int | None, child: Child) -> None:
    if status != 0:
        raise CompilerExit(f"rustc ended with {status}: {child.stderr_tail[-500:]}")


def library_of_rust(path: Path) -> str:
    """Name of a library that came with rustc, the same on every machine; empty for other files."""
    found = _LIBRARY.search(path.as_posix())
    return f"{RUST_LIBRARY}{found[1]}/{found[2]}" if found else ""


@cache
def rust_library(name: str) -> Path:
    """The library of such a name; LinkError where the rustc on PATH is another one than that of the build."""
    match, rustc = _NAME.fullmatch(name), shutil.which("rustc")
    if match is None or ".." in match.groups():
        raise LinkError(f"{name} is no library of rustc")
    if rustc is None:
        raise LinkError(f"{match[2]} is needed, which comes with rustc, and none is installed")
    folder = Path(print_of([rustc, "--print", "sysroot"]).strip(), "lib/rustlib", match[1], "lib")
    if not (folder / match[2]).is_file():
        raise LinkError(f"{match[2]} is not in {folder}: the program was captured with another rustc; install that one")
    return folder / match[2]
