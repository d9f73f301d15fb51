"""One compile by GCC in which a policy chooses the eliminations."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.base.files import content_hash, write_bytes
from mlgo.base.scratch import scratch_directory
from mlgo.errors import ObjectError, RemarkError
from mlgo.host.command_line import check_options
from mlgo.jit.gcc.counters import COUNTER, DUMP, DUMP_BEFORE, intervals, read_counts
from mlgo.jit.gcc.find import Gcc
from mlgo.jit.gcc.invoke import run_gcc
from mlgo.jit.gcc.rtl import Candidates, read_candidates
from mlgo.objects.elf import function_bytes, function_sizes, read_sections, text_size

_PREPROCESSED = {"c": "cpp-output", "c++": "c++-cpp-output"}


@dataclass(frozen=True)
class TranslationUnit:
    """A preprocessed source.

    Attributes:
        name: ``project/source``.
        project: whose it is.
        language: c or c++.
        arguments: options of the front end that the text was made with; the compile needs them again.
        text: what `preprocess.preprocess` gives.
    """

    name: str
    project: str
    language: str
    arguments: tuple[str, ...]
    text: bytes

    @property
    def sha256(self) -> str:
        """Hash of all that decides its compiles."""
        return content_hash([hashlib.sha256(self.text).hexdigest(), self.language, self.arguments])


@dataclass(frozen=True)
class GccSettings:
    """How translation units are compiled.

    Attributes:
        optimization: level; the pass runs from -O2 on, and not at -Os.
        timeout_s: deadline of a compile.
        max_memory_bytes: limit of the address space of each process of a compile.
    """

    optimization: str = "-O2"
    timeout_s: float = 60.0
    max_memory_bytes: int = 8 * 10**9


@dataclass(frozen=True)
class GccObject:
    """What one compile gave.

    Attributes:
        text_bytes: Berkeley text of the object, in bytes, see `elf.text_size`.
        function_bytes: code of all functions without padding between them, see `measure.function_bytes`.
        num_candidates: eliminations that were asked for.
        num_performed: eliminations among these that were performed.
        object_sha256: hash of the object file.
        function_sizes: code of each function by its symbol, see `measure.function_sizes`.
        candidates: the performed ones, if they were wanted.
    """

    text_bytes: int
    function_bytes: int
    num_candidates: int
    num_performed: int
    object_sha256: str
    function_sizes: dict[str, int]
    candidates: Candidates | None = None


def compile_unit(
    gcc: Gcc,
    unit: TranslationUnit,
    performed: Sequence[int] | None,
    settings: GccSettings,
    *,
    want_candidates: bool = False,
    object_path: Path | None = None,
) -> GccObject:
    """Compile preprocessed text and perform the chosen eliminations only.

    Args:
        gcc: what `find.find_gcc` gives.
        unit: what is compiled.
        performed: positions of the eliminations to perform, from 0, in any order; None leaves the choice to GCC, which
            performs all.
        settings: level and limits.
        want_candidates: read the dumps. With ``performed`` they name, and count, what was performed only.
        object_path: where to keep the object file.

    Raises:
        ValueError: a position that the unit does not have.
        CompileError: the compile failed or took too long, or its object or dumps are not well-formed.
        ConfigError: an option could run or load other code, see `check_options`.
        ToolchainError: C++, and there is no g++.
    """
    check_options(unit.arguments)
    if performed is not None and any(position < 0 for position in performed):
        raise ValueError(f"elimination {min(performed)}: positions start at 0")
    chosen = None if performed is None else {position + 1 for position in performed}
    choice = [] if chosen is None else [f"-fdbg-cnt={COUNTER}:{intervals(chosen)}"]
    with scratch_directory() as directory:
        # The name of the file gets into the object, so it is always the same.
        text, output = directory / "unit.i", directory / "unit.o"
        decided, before = directory / "decided", directory / "before"
        text.write_bytes(unit.text)
        dumps = (f"{DUMP}={decided.name}", f"{DUMP_BEFORE}={before.name}", "-fdump-noaddr")
        dumping = dumps if want_candidates else ()
        command = [
            *(str(gcc.driver(unit.language)), *unit.arguments, settings.optimization, "-w"),
            *(*choice, "-fdbg-cnt-list", *dumping),
            *("-x", _PREPROCESSED[unit.language], text.name, "-c", "-o", output.name),
        ]
        stderr = run_gcc(command, directory, settings.timeout_s, max_memory_bytes=settings.max_memory_bytes)
        counts = read_counts(stderr)
        if COUNTER not in counts:  # its row holds all intervals, and only the end of stderr is kept
            raise RemarkError(f"the table of debug counters has no whole row of {COUNTER}: too many intervals")
        num_candidates = counts[COUNTER]
        if chosen and max(chosen) > num_candidates:
            raise ValueError(f"elimination {max(chosen) - 1}: positions start at 0, and the unit has {num_candidates}")
        num_performed = num_candidates if chosen is None else len(chosen)
        data = _read(output)
        candidates = None
        if want_candidates:
            dumped = [_read_dump(path, num_candidates) for path in (decided, before)]
            candidates = read_candidates(dumped[0], dumped[1], num_performed)
        if object_path is not None:
            write_bytes(object_path, data)
    return GccObject(
        text_bytes=text_size(read_sections(data)),
        function_bytes=function_bytes(data),
        num_candidates=num_candidates,
        num_performed=num_performed,
        object_sha256=hashlib.sha256(data).hexdigest(),
        function_sizes=function_sizes(data),
        candidates=candidates,
    )


def _read(output: Path) -> bytes:
    try:
        return output.read_bytes()
    except FileNotFoundError:
        raise ObjectError("the compiler ended well but wrote no object file") from None


def _read_dump(dump: Path, num_candidates: int) -> str:
    """A dump as text; GCC writes none where no function of the unit enters the pass."""
    if not num_candidates and not dump.exists():
        return ""
    try:
        return dump.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise RemarkError("the compiler ended well but wrote no dump of the pass") from None
