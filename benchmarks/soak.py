"""Thousands of compile sessions in one process, good ones and failing ones: does anything stay behind?

Example:
    python -m benchmarks.soak
    python -m benchmarks.soak --quick
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from tqdm import tqdm

from benchmarks.arguments import compiling_parser, print_record, run_benchmark
from benchmarks.modules import bitcode_of, smallest_modules
from benchmarks.processes import all_processes
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import positive, read_config
from mlgo.errors import CompileError, PolicyError
from mlgo.host.log import Header
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import EchoAdvisor, RecordedAdvisor, Responder, Task, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.pool.cores import claim_core

KINDS = ("echo", "known", "refusal", "hasty", "damaged", "plain")
"""Echo of the default; all answers written in advance; an advisor that gives up half-way; a deadline no compile can
meet; a file that is cut in half; no channel. Sessions take turns in this order."""

_NUM_MODULES = 24
_HASTY_S = 0.004
"""Less than the compiler takes to start, more than it takes to be started."""


@dataclass(frozen=True)
class SoakResult:
    """What many sessions left behind, beyond what there was after the warm-up.

    Attributes:
        sessions: compile sessions after the warm-up.
        failures: how many failed, by kind of failure; ``policy`` is an advisor that gave up.
        leaked_processes: children, and compilers that lost their parent.
        leaked_descriptors: open files, FIFOs and sockets.
        leaked_files: files, FIFOs and folders in this process's scratch folder.
        leaked_threads: threads.
        resident_mb_start: memory of this process after the warm-up, in 10^6 bytes.
        resident_mb_end: the same at the end.
        sessions_per_second: mean over all sessions.
    """

    sessions: int
    failures: dict[str, int]
    leaked_processes: int
    leaked_descriptors: int
    leaked_files: int
    leaked_threads: int
    resident_mb_start: float
    resident_mb_end: float
    sessions_per_second: float

    @property
    def leaked(self) -> bool:
        """Whether anything stayed behind; memory is only reported."""
        return any((self.leaked_processes, self.leaked_descriptors, self.leaked_files, self.leaked_threads))

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _GivesUp:
    """Echoes some answers, then fails as a policy does that does not fit."""

    feature: str
    num_answers: int

    def respond_to(self, header: Header) -> Responder:
        """Bind to the header and start counting."""
        echo, left = EchoAdvisor(self.feature).respond_to(header), self.num_answers

        def respond(payload: bytes) -> bytes:
            nonlocal left
            if left == 0:
                raise PolicyError(f"gives up after {self.num_answers} answers")
            left -= 1
            return echo(payload)

        return respond


def bench_soak(
    toolchain: Toolchain, task: Task, settings: CompileConfig, modules: Sequence[Path], num_sessions: int
) -> SoakResult:
    """Run sessions of all kinds in turn and count what they leave behind.

    Args:
        toolchain: compiler to use.
        task: decision problem.
        settings: compile settings.
        modules: bitcode files that ask something; small ones, so that much happens in little time.
        num_sessions: how many, after a warm-up of each kind on each module.

    Raises:
        CompileError: a module does not compile.
        ReplayMismatch: a compile went another way than the same one before.
    """
    with scratch_directory() as folder:
        root = folder.parent
        sessions = [
            session
            for number, module in enumerate(modules)
            for session in _sessions(toolchain, task, settings, module, folder / f"{number}.bc")
        ]
        for session in sessions:
            _failure(session)
        failures: Counter[str] = Counter()
        with tqdm(range(num_sessions), "sessions", unit="session", disable=None) as progress:
            before, start = _Holdings.now(root), monotonic()
            for number in progress:
                if kind := _failure(sessions[number % len(sessions)]):
                    failures[kind] += 1
            after, seconds = _Holdings.now(root), monotonic() - start
    return SoakResult(
        sessions=num_sessions,
        failures=dict(sorted(failures.items())),
        leaked_processes=len(after.processes - before.processes),
        leaked_descriptors=max(0, after.num_descriptors - before.num_descriptors),
        leaked_files=len(after.files - before.files),
        leaked_threads=max(0, after.num_threads - before.num_threads),
        resident_mb_start=round(before.resident_mb, 2),
        resident_mb_end=round(after.resident_mb, 2),
        sessions_per_second=round(num_sessions / seconds, 2),
    )


def _sessions(
    toolchain: Toolchain, task: Task, settings: CompileConfig, module: Path, damaged: Path
) -> list[Callable[[], object]]:
    """One session of each kind on a module, in the order of `KINDS`."""
    slot = toolchain.quirks.default_slot
    echo = EchoAdvisor(slot)
    heard = compile_under_advice(toolchain, task, module, echo, settings, with_heuristic_feature=True)
    recorded = RecordedAdvisor(heard.answers)
    walked = compile_under_advice(toolchain, task, module, recorded, settings, record=True)
    known = walked.answer_prefix()
    gives_up = _GivesUp(slot, heard.num_questions // 2)
    hasty = settings.model_copy(update={"compile_timeout_s": _HASTY_S})
    data = module.read_bytes()
    damaged.write_bytes(data[: len(data) // 2])
    by_kind: dict[str, Callable[[], object]] = {
        "echo": lambda: compile_under_advice(toolchain, task, module, echo, settings, with_heuristic_feature=True),
        "known": lambda: compile_under_advice(toolchain, task, module, recorded, settings, known=known),
        "refusal": lambda: compile_under_advice(
            toolchain, task, module, gives_up, settings, with_heuristic_feature=True
        ),
        "hasty": lambda: compile_under_advice(toolchain, task, module, echo, hasty, with_heuristic_feature=True),
        "damaged": lambda: compile_under_advice(toolchain, task, damaged, echo, settings, with_heuristic_feature=True),
        "plain": lambda: compile_plain(toolchain, module, settings),
    }
    return [by_kind[kind] for kind in KINDS]


def _failure(session: Callable[[], object]) -> str:
    """Run a session; kind of its failure, empty on success."""
    try:
        session()
    except CompileError as error:
        return error.kind
    except PolicyError:
        return "policy"
    return ""


@dataclass(frozen=True)
class _Holdings:
    """What this process holds at a moment."""

    processes: frozenset[int]
    num_descriptors: int
    files: frozenset[Path]
    num_threads: int
    resident_mb: float

    @classmethod
    def now(cls, root: Path) -> "_Holdings":
        """Count; ``root`` is the process's scratch folder."""
        own = Path("/proc/self")
        resident_pages = int((own / "statm").read_text().split()[1])
        return cls(
            frozenset(_processes(root)),
            len(list((own / "fd").iterdir())),
            frozenset(root.rglob("*")),
            len(list((own / "task").iterdir())),
            resident_pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        )


def _processes(root: Path) -> list[int]:
    """Children of this process, and whatever names its scratch folder: a child's child that lost its parent."""
    return [one.number for one in all_processes() if one.parent == os.getpid() or _names(one.number, root)]


def _names(process: int, root: Path) -> bool:
    """Whether a path is in a process's command line."""
    with suppress(OSError):  # it has ended
        return os.fsencode(root) in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def main() -> int:
    """Measure, and print what stayed behind; 1 if anything did."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--sessions", type=positive, default=10_000, help="how many (default: %(default)s)")
    args = parser.parse_args()
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    claim_core()
    paths = bitcode_of(args.data, smallest_modules(args.data, _NUM_MODULES))
    num_sessions = min(600, args.sessions) if args.quick else args.sessions
    result = bench_soak(toolchain, get_task(config.task), config.compile, list(paths.values()), num_sessions)
    print_record(result.record(), as_json=args.json)
    return 1 if result.leaked else 0


if __name__ == "__main__":
    run_benchmark("benchmarks.soak")
