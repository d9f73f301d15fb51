"""Whether a capture stands for its build: sources compiled again, and compared with the build's own objects.

A source goes the way that modules go: to bitcode before optimization, then to an object. Only the level and the options
are those of the build, not those of the corpus. How the build's driver turns them into a call of clang's front end is
asked of the driver itself (``-###``), so what ``zig cc`` adds is there, too.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mlgo.base.artifacts import Row, RowView
from mlgo.base.files import file_sha256
from mlgo.corpus.capture.builds import as_text
from mlgo.corpus.capture.objects import driver_plan, front_end_words, measured_object
from mlgo.corpus.capture.options import as_built, portable, profile_of, without_unknown
from mlgo.errors import CompileError, CompilerExit, CompileTimeout, ConfigError
from mlgo.host.process import run_bounded, without_folders
from mlgo.host.toolchain import Toolchain

# What zig cc adds to clang's own options, and what a build without it does not have.
_WITHOUT_ADDED = ("-g0", "-fno-sanitize=all", "-fomit-frame-pointer")
_DATE = "date-time"


@dataclass(frozen=True)
class Recompiler:
    """Compiles sources as their builds did."""

    toolchain: Toolchain  # the configured clang
    timeout_s: float  # deadline of each step
    cache_dir: Path  # folder for zig's caches
    folder: Path  # for files while they are in use
    num_threads: int  # compiles at a time

    def verify(self, rows: Sequence[RowView], done: Callable[[], object] = lambda: None) -> Iterator[Row]:
        """Rows of ``artifacts.VERIFIED`` for rows of ``artifacts.OBJECTS_OF_BUILD``, in their order."""

        def one(row: RowView) -> Row:
            found = self._verify(row)
            done()
            return found

        with ThreadPoolExecutor(self.num_threads) as pool:
            yield from pool.map(one, rows)

    def _verify(self, row: RowView) -> Row:
        names = ("project", "module", "compiler", "level", "text_bytes")
        found = {name: row[name] for name in names} | {"recompiled_bytes": None, "same_contents": False}
        reason = row["missing"] or _source_is_other(row)
        if not reason:
            try:
                expected = row["text_bytes"], row["contents_sha256"]
                objects = map(measured_object, self.recompile(row))
                size, contents = max(objects, key=lambda one: (one == expected, one[0] == expected[0]))
                found |= {"recompiled_bytes": size, "same_contents": contents == row["contents_sha256"]}
                reason = "" if size == row["text_bytes"] else self._reason(row)
            except ConfigError as error:
                reason = f"options: {error}"
            except CompileError as error:
                reason = f"{error.kind}: {str(error).replace(row['folder'] + '/', '')}"
        return found | {"reason": reason.partition(":")[0], "message": reason}

    def recompile(self, row: RowView) -> list[bytes]:
        """The object that a row's source becomes, by way of bitcode.

        ``zig cc`` merges equal constants of an object, unless it also writes a dependency file. Its call of clang does
        not show that, so there are both objects then.
        """
        stem = hashlib.sha256(row["module"].encode("utf-8", "surrogateescape")).hexdigest()
        bitcode, result = self.folder / f"{stem}.bc", self.folder / f"{stem}.o"
        try:
            words = self._front_end(row, result)
            *options, x, _, _ = words
            if x != "-x" or "-emit-obj" not in options:
                raise CompilerExit("the driver of the build does not make an object of it")
            self._run(row, [*_instead(options, result, bitcode), "-w", *words[-3:]])
            self._run(row, [*options, "-w", "-x", "ir", str(bitcode)])
            found = [result.read_bytes()]
            if self.is_same(row) and row["driver"] == "zig":
                level = [row["level"]] if row["level"] else []
                self._bounded([*self._driver(row), *level, "-c", str(result), "-o", str(result)], row["folder"])
                found.append(result.read_bytes())
            return found
        finally:
            bitcode.unlink(missing_ok=True)
            result.unlink(missing_ok=True)

    def _front_end(self, row: RowView, output: Path) -> list[str]:
        """Arguments of clang's front end that the driver of the build makes of a row's options."""
        plans: list[str] = []

        def ask(options: Sequence[str]) -> None:
            command = [*self._driver(row), *options, "-c", row["source"], "-o", str(output), "-###"]
            plans.append(self._plan(command, row["folder"]))

        same = self.is_same(row)
        options = (as_built if same else portable)(row["options"])
        level = () if same or not options.level else (options.level,)
        without_unknown([*level, *options.front_end], ask)
        words = front_end_words(plans[-1])
        if words is None:
            raise CompilerExit("the driver does not say how it calls clang's front end")
        return words[1:]

    def is_same(self, row: RowView) -> bool:
        """Whether the build's compiler is the configured one."""
        return row["driver"] != "other" and row["compiler_sha256"] == self.toolchain.sha256

    def _driver(self, row: RowView) -> list[str]:
        """Start of the command: nothing of it is taken from the row, which may come from others."""
        if not self.is_same(row):
            return [*self.toolchain.front_end(row["language"]), *_WITHOUT_ADDED]
        binary, is_cxx = str(self.toolchain.binary), row["language"] == "c++"
        if row["driver"] == "zig":
            return [binary, "c++" if is_cxx else "cc"]
        return [binary, *(["clang"] if self.toolchain.is_zig else []), *(["--driver-mode=g++"] if is_cxx else [])]

    def _plan(self, command: Sequence[str], folder: str) -> str:
        environment = self.toolchain.front_end_environment(self.cache_dir)
        plan = driver_plan(command, self.timeout_s, cwd=folder, env=environment)
        if front_end_words(plan) is None:
            raise CompilerExit(as_text(_first_error(plan)))
        return plan

    def _run(self, row: RowView, arguments: Sequence[str]) -> str:
        clang = [str(self.toolchain.binary), *(["clang"] if self.toolchain.is_zig else [])]
        return self._bounded([*clang, *arguments], row["folder"])

    def _bounded(self, command: Sequence[str], folder: str) -> str:
        environment = self.toolchain.front_end_environment(self.cache_dir)
        run = run_bounded(command, self.timeout_s, cwd=Path(folder), env=environment)
        if run.returncode is None:
            raise CompileTimeout(f"no end within {self.timeout_s:g} s")
        if run.returncode != 0:
            raise CompilerExit(without_folders(_first_error(run.stderr)))
        return run.stderr

    def _reason(self, row: RowView) -> str:
        """Kind and text of the most likely reason why the sizes differ."""
        if not self.is_same(row):
            return f"compiler: built by {row['compiler']}, so only the sizes can be compared"
        if self._uses_the_time(row):
            return "time: it has __DATE__ or __TIME__ in it"
        dropped = as_built(row["options"]).dropped
        if dropped:
            return f"options: compiled with {' '.join(dropped)}, which is not repeated"
        return "unknown: sizes differ, and no known reason was found"

    def _uses_the_time(self, row: RowView) -> bool:
        *options, _, language, source = self._front_end(row, self.folder / "unused.o")
        options = [option for option in options if option not in ("-emit-obj", f"-Werror={_DATE}")]
        try:
            said = self._run(row, [options[0], "-fsyntax-only", f"-W{_DATE}", *options[1:], "-x", language, source])
        except CompileError:
            return False
        return f"[-W{_DATE}]" in said


def _instead(options: Sequence[str], output: Path, bitcode: Path) -> list[str]:
    """Arguments that make bitcode before optimization where the given ones make an object; ``-cc1`` comes first."""
    replaced = {str(output): str(bitcode), "-emit-obj": "-emit-llvm-bc"}
    return [options[0], "-disable-llvm-passes", *(replaced.get(option, option) for option in options[1:])]


def _source_is_other(row: RowView) -> str:
    """Reason why a source cannot be compiled as it was; empty if it can."""
    folder, source = Path(row["folder"]), Path(row["folder"], row["source"])
    if not folder.is_dir():
        return f"gone: folder {folder.name}, where it was compiled, is no longer there"
    if not source.is_file():
        return f"gone: {row['source']} is no longer there"
    if file_sha256(source) != row["source_sha256"]:
        return f"changed: {row['source']} is another one since the capture"
    profile = profile_of(row["options"], folder)
    if profile is not None and not profile[1].is_file():
        return f"profile: {profile[1].name}, which {profile[0]} names, is no longer there"
    return ""


def _first_error(stderr: str) -> str:
    lines = stderr.splitlines()
    errors = [line for line in lines if "error:" in line] or lines[-1:]
    return errors[0][:300] if errors else "the compiler ended without a word"
