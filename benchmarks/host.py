"""What a host costs: a plain compile against compiles under advice, side by side on one core.

Example:
    python -m benchmarks.host
    python -m benchmarks.host --quick --json
    python -m benchmarks.host --policy data/policies/marginal-s0
"""

import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.arguments import compiling_parser, run_benchmark
from benchmarks.host_worker import MlpEcho, make_reporter
from benchmarks.modules import FEWEST_QUESTIONS, bitcode_of
from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.cli.program import positive, read_config
from mlgo.errors import CompileTimeout, ToolchainError
from mlgo.evaluate.baseline import ScoredModule, load_scored_modules
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.log import Header
from mlgo.host.process import Child
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import EchoAdvisor, RecordedAdvisor, Task, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain, zig_environment
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy
from mlgo.pool import LocalBackend, Pool, WorkerLost
from mlgo.pool.cores import claim_core

HOSTS = ("plain", "c_host", "echo", "mlp", "known")
"""Plain compile; minimal host in C; our host echoing the default; the same after an MLP 38-64-64-1, or a policy that is
given; all answers written in advance."""

_MOST_QUESTIONS = 3000
_C_SOURCE = Path(__file__).with_name("echo_host.c")


def bench_host(
    toolchain: Toolchain,
    task: Task,
    settings: CompileConfig,
    modules: dict[str, list[Path]],
    repeats: int,
    policy: Policy | None = None,
) -> dict[str, dict[str, Any]]:
    """Time all hosts on modules, interleaved, this process and its compilers on one core.

    Args:
        toolchain: compiler to use.
        task: decision problem.
        settings: compile settings.
        modules: bitcode files by language.
        repeats: rounds; the median over rounds of the sum over modules is reported.
        policy: network to ask in place of one with random weights.

    Returns:
        ``worker_start_s`` (until its first answer) and ``worker_resident_mb`` of a worker process; under
        ``languages``, by language: ``num_modules``, ``num_questions``, ``plain_seconds``, for each host
        ``<host>_over_plain`` (median over rounds), ``<host>_over_plain_range`` and, in microseconds beyond the plain
        compile, ``us_per_question``. The figures of the first language also stand at the top.

    Raises:
        ToolchainError: the C host does not compile.
    """
    start_s, resident_mb = _measure_worker(toolchain, task, settings)
    claim_core()
    with scratch_directory() as folder:
        c_host = _build_c_host(toolchain, folder)
        languages = {
            language: _bench_language(toolchain, task, settings, paths, repeats, c_host, language, policy)
            for language, paths in modules.items()
            if paths
        }
    return {
        **next(iter(languages.values()), {}),
        "worker_start_s": round(start_s, 2),
        "worker_resident_mb": round(resident_mb, 1),
        "languages": languages,
    }


def _bench_language(
    toolchain: Toolchain,
    task: Task,
    settings: CompileConfig,
    modules: list[Path],
    repeats: int,
    c_host: Path,
    language: str,
    policy: Policy | None,
) -> dict[str, Any]:
    slot = toolchain.quirks.default_slot
    known: dict[Path, tuple[AnswerPrefix, bytes, Header]] = {}
    num_questions = 0
    for module in modules:
        echo = compile_under_advice(toolchain, task, module, EchoAdvisor(slot), settings, with_heuristic_feature=True)
        again = compile_under_advice(toolchain, task, module, RecordedAdvisor(echo.answers), settings, record=True)
        assert echo.header is not None
        known[module] = (again.answer_prefix(), again.answers, echo.header)
        num_questions += again.num_questions

    def run(host: str, module: Path) -> float:
        path, answers, header = known[module]
        if host == "plain":
            return compile_plain(toolchain, module, settings).seconds
        if host == "c_host":
            return _compile_with_c_host(toolchain, task, settings, module, c_host, header)
        if host == "known":
            advisor = RecordedAdvisor(answers)
            return compile_under_advice(toolchain, task, module, advisor, settings, known=path).seconds
        advisors: dict[str, Callable[[str], Any]] = {"echo": EchoAdvisor, "mlp": partial(MlpEcho, policy=policy)}
        return compile_under_advice(
            toolchain, task, module, advisors[host](slot), settings, with_heuristic_feature=True
        ).seconds

    totals = np.zeros((repeats, len(HOSTS)))
    rounds = [(r, module) for r in range(repeats) for module in modules]
    for r, module in tqdm(rounds, f"{language} modules", unit="module", disable=None):
        for turn in range(len(HOSTS)):
            h = (r + turn) % len(HOSTS)  # each round starts with another host
            totals[r, h] += run(HOSTS[h], module)
    plain = totals[:, 0]
    result: dict[str, Any] = {
        "num_modules": len(modules),
        "num_questions": num_questions,
        "plain_seconds": round(float(np.median(plain)), 4),
        "us_per_question": {},
    }
    for h, host in enumerate(HOSTS[1:], 1):
        ratios = totals[:, h] / plain
        beyond = float(np.median(totals[:, h] - plain))
        result[f"{host}_over_plain"] = round(float(np.median(ratios)), 3)
        result[f"{host}_over_plain_range"] = [round(float(ratios.min()), 3), round(float(ratios.max()), 3)]
        result["us_per_question"][host] = round(1e6 * beyond / max(1, num_questions), 1)
    return result


def _measure_worker(toolchain: Toolchain, task: Task, settings: CompileConfig) -> tuple[float, float]:
    """Seconds until a fresh worker has answered, and its resident memory in 10^6 bytes."""
    start = time.monotonic()
    with Pool[Any, int](LocalBackend(partial(make_reporter, toolchain, task.name, settings)), 1) as pool:
        ((_, resident_bytes),) = pool.map([MlpEcho("")])
        seconds = time.monotonic() - start
    if isinstance(resident_bytes, WorkerLost):
        raise ToolchainError(f"the worker died with exit code {resident_bytes.exit_code}")
    return seconds, resident_bytes / 1e6


def _build_c_host(toolchain: Toolchain, folder: Path) -> Path:
    program = folder / "echo_host"
    environment = zig_environment(folder)
    command = [*toolchain.front_end("c"), "-O2", "-o", str(program), str(_C_SOURCE)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode != 0:
        raise ToolchainError(f"the C host does not compile: {run.stderr.strip()[-300:]}")
    return program


def _compile_with_c_host(
    toolchain: Toolchain, task: Task, settings: CompileConfig, module: Path, c_host: Path, header: Header
) -> float:
    """Seconds of one compile under the C host."""
    slot = toolchain.quirks.default_slot
    assert header.advice is not None
    numbers = (header.payload_bytes, header.offset(slot), header.advice.num_bytes)
    with scratch_directory() as folder:
        base = folder / "channel"
        for suffix in (".in", ".out"):
            os.mkfifo(f"{base}{suffix}")
        words = None
        if vocabulary := task.ir2vec(settings.ir2vec):
            (words := folder / "ir2vec.json").write_bytes(vocabulary.content)
        flags = task.flags(base, settings.size_stop_factor, with_heuristic_feature=True, vocabulary=words)
        output = ["-x", "ir", str(module), "-c", "-o", str(folder / "module.o")]
        start = time.monotonic()
        with (
            Child([str(c_host), str(base), *map(str, numbers)]),
            Child([*toolchain.back_end, settings.optimization, *flags, *output]) as compiler,
        ):
            if compiler.wait(start + settings.compile_timeout_s) != 0:
                raise CompileTimeout(f"the C host did not get {module.name} compiled")
            return time.monotonic() - start


def _modules(data: Path, language: str, count: int, seed: int) -> list[ScoredModule]:
    """Training modules of a language that ask something and are not huge."""
    scored = load_scored_modules(data / "corpus", data / "baseline", "train")
    fitting = [
        one
        for one in scored
        if one.module.language == language and FEWEST_QUESTIONS <= one.num_questions <= _MOST_QUESTIONS
    ]
    return sample(fitting, count, seed, "bench", "host", language)


def main() -> None:
    """Measure, and print a table for each language."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--modules", type=positive, default=30, help="modules of each language (default: %(default)s)")
    parser.add_argument("--repeats", type=positive, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--policy", type=Path, help="folder of a policy to ask in place of the MLP")
    args = parser.parse_args()
    policy = load_policy(args.policy) if args.policy else None
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    count, repeats = (6, 3) if args.quick else (args.modules, args.repeats)
    files = {
        language: list(bitcode_of(args.data, _modules(args.data, language, count, config.seed)).values())
        for language in ("c++", "c")
    }
    result = bench_host(toolchain, get_task(config.task), config.compile, files, repeats, policy)
    if args.json:
        print(json.dumps(result, indent=2))
        return
    print(f"worker: started in {result['worker_start_s']} s, {result['worker_resident_mb']} MB resident")
    for language, figures in result["languages"].items():
        print(
            f"{language}: {figures['num_modules']} modules, {figures['num_questions']} questions, "
            f"plain {figures['plain_seconds']} s"
        )
        print("  host      over plain  (range over rounds)  us per question beyond plain")
        for host in HOSTS[1:]:
            low, high = figures[f"{host}_over_plain_range"]
            print(
                f"  {host:<8}  {figures[f'{host}_over_plain']:>10.3f}  ({low:.3f} to {high:.3f})"
                f"     {figures['us_per_question'][host]:>10.1f}"
            )


if __name__ == "__main__":
    run_benchmark("benchmarks.host")
