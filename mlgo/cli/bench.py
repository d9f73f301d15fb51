"""`mlgo bench`: measure, side by side in one run."""

import argparse
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mlgo.bench.cores import watch_cores
from mlgo.bench.env import bench_envs
from mlgo.bench.host import HOSTS, bench_host
from mlgo.bench.log import bench_log
from mlgo.bench.nested import IDLE_OF, Sharing, bench_nested, compile_work, waiting_work
from mlgo.bench.pools import bench_pools
from mlgo.bench.replay import bench_replay
from mlgo.bench.save import bench_save
from mlgo.bench.soak import bench_soak
from mlgo.cli.options import add_config_options, not_negative_float, positive, positive_float, read_config
from mlgo.compiler.toolchain import find_toolchain
from mlgo.core.artifacts import read_table
from mlgo.core.config import LOCAL_WORKERS
from mlgo.core.errors import ConfigError, CorpusError
from mlgo.core.seeding import sample
from mlgo.corpus.store import unpack_bitcode
from mlgo.execution.cluster import connect, disconnect
from mlgo.execution.cores import claim_core
from mlgo.policy.stored import as_network_policy, load_policy
from mlgo.rollout.scored import ScoredModule, load_scored_modules
from mlgo.tasks import get_task

_EPILOG = """\
examples:
  mlgo bench host                        what a host costs beside a plain compile
  mlgo bench host --quick --json
  mlgo bench replay                      evolution strategies with and without decision trees
  mlgo bench replay --perturbation 0.05 0.3 --generations 20
  mlgo bench log                         reading a trace, against a reader that goes tensor by tensor
  mlgo bench save                        what saving policies costs a training step
  mlgo bench pools                       compiles by processes of this machine, in this process, and by Ray
  mlgo bench pools --address auto --rounds 9
  mlgo bench env                         steps per second of the environments
  mlgo bench nested                      experiments that share workers, against workers of their own
  mlgo bench cores snakemake --cores 1 --configfile config/presets/tiny.yaml
                                         cores and memory of each job of a run
  mlgo bench soak                        10,000 sessions in a row: does anything stay behind?
"""
_SOAK_MODULES = 24
_ENV_MODULES = ("json/parser.cpp", "lz/match.c", "matrix/lu.cpp")
_SAVE_MODULES = 8
_KINDS = ("local", "ray", "serial")


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "bench",
        help="measure the host, the decision trees and the environments; look for leaks",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="benchmarks", required=True, metavar="BENCHMARK")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--data", type=Path, default=Path("data"), help="folder with corpus/ and baseline/")
    shared.add_argument("--quick", action="store_true", help="under a minute on 2 cores, less precise")
    shared.add_argument("--json", action="store_true", help="print JSON")
    add_config_options(shared)
    host = actions.add_parser("host", parents=[shared], help="cost of the host per question")
    host.add_argument("--modules", type=positive, default=30, help="modules of each language (default: %(default)s)")
    host.add_argument("--repeats", type=positive, default=5, help="rounds (default: %(default)s)")
    host.set_defaults(run=_host)
    replay = actions.add_parser("replay", parents=[shared], help="compiles that decision trees save")
    replay.add_argument("--policy", type=Path, default=Path("data/policies/bc-s0"), help="where to start")
    replay.add_argument(
        "--perturbation", type=positive_float, nargs="+", help="sizes of the noise (default: es.perturbation)"
    )
    replay.add_argument("--generations", type=positive, default=20)
    replay.add_argument("--modules", type=positive, help="modules of each generation (default: es.modules)")
    replay.add_argument("--workers", type=positive, default=os.cpu_count() or 1)
    replay.set_defaults(run=_replay)
    log = actions.add_parser("log", parents=[shared], help="reading a recorded trace")
    log.add_argument("--questions", type=positive, default=400_000, help="at most (default: %(default)s)")
    log.add_argument("--repeats", type=positive, default=5, help="rounds (default: %(default)s)")
    log.set_defaults(run=_log)
    save = actions.add_parser("save", parents=[shared], help="cost of saving policies during training")
    save.add_argument("--policy", type=Path, default=Path("data/policies/bc-s0"), help="what is saved")
    save.add_argument("--repeats", type=positive, default=15, help="rounds (default: %(default)s)")
    save.add_argument("--workers", type=positive, default=os.cpu_count() or 1)
    save.set_defaults(run=_save)
    pools = actions.add_parser("pools", parents=[shared], help="cost of another kind of worker")
    pools.add_argument("--policy", type=Path, default=Path("data/policies/bc-s0"), help="candidates are around it")
    pools.add_argument(
        "--kinds", nargs="+", choices=_KINDS, default=_KINDS, help="the first is what others are held to"
    )
    pools.add_argument("--address", default="", help="of a Ray cluster (default: one is started here)")
    pools.add_argument("--modules", type=positive, default=12, help="of each generation (default: %(default)s)")
    pools.add_argument("--candidates", type=positive, default=8, help="of each generation (default: %(default)s)")
    pools.add_argument("--rounds", type=positive, default=5, help="generations of each kind (default: %(default)s)")
    pools.add_argument("--workers", type=positive, default=os.cpu_count() or 1)
    pools.set_defaults(run=_pools)
    env = actions.add_parser("env", parents=[shared], help="steps per second of the environments")
    env.add_argument("--modules", type=Path, nargs="+", help="bitcode or sources (default: three of DATA/sample)")
    env.add_argument("--repeats", type=positive, default=7, help="repetitions (default: %(default)s)")
    env.set_defaults(run=_env)
    nested = actions.add_parser("nested", parents=[shared], help="what sharing workers gains experiments that idle")
    nested.add_argument("--experiments", type=positive, nargs="+", default=[2, 4], help="(default: 2 and 4)")
    nested.add_argument(
        "--idle", type=_share, nargs="+", default=[0.0, 0.25, 0.5, 0.75], help="idle shares (default: 0 0.25 0.5 0.75)"
    )
    nested.add_argument("--idle-of", choices=IDLE_OF, nargs="+", default=IDLE_OF, help="of what (default: of each)")
    nested.add_argument("--modules", type=positive, help="sources of DATA/sample to compile (default: all)")
    nested.add_argument("--wait", action="store_true", help="jobs that wait instead of compiling")
    nested.add_argument("--seconds", type=positive_float, default=20.0, help="of each run (default: %(default)s)")
    nested.add_argument("--rounds", type=positive, default=5, help="of each way (default: %(default)s)")
    nested.add_argument("--at-once", type=positive, default=Sharing.at_once, help="see mlgo workers serve")
    nested.add_argument("--turn", type=not_negative_float, default=Sharing.turn_s, help="see mlgo workers serve")
    nested.set_defaults(run=_nested)
    soak = actions.add_parser("soak", parents=[shared], help="what many sessions leave behind; status 1 if anything")
    soak.add_argument("--sessions", type=positive, default=10_000, help="how many (default: %(default)s)")
    soak.set_defaults(run=_soak)
    cores = actions.add_parser("cores", help="cores and memory that the jobs of a run use; ends with its status")
    cores.add_argument("--json", action="store_true", help="print JSON")
    cores.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="for example snakemake --cores 1")
    cores.set_defaults(run=_cores)


def _host(args: argparse.Namespace) -> None:
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    count, repeats = (6, 3) if args.quick else (args.modules, args.repeats)
    chosen = {language: _modules(args.data, language, count, config.seed) for language in ("c++", "c")}
    everything = [one.module for some in chosen.values() for one in some]
    paths = unpack_bitcode(args.data / "corpus", everything, args.data / "work" / "bitcode")
    files = {language: [paths[one.module.key] for one in some] for language, some in chosen.items()}
    result = bench_host(toolchain, get_task(config.task), config.compile, files, repeats)
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


def _modules(data: Path, language: str, count: int, seed: int) -> list[ScoredModule]:
    """Training modules of a language that ask something and are not huge."""
    scored = load_scored_modules(data / "corpus", data / "baseline", "train")
    fitting = [one for one in scored if one.module.language == language and 20 <= one.num_questions <= 3000]
    return sample(fitting, count, seed, "bench", "host", language)


def _replay(args: argparse.Namespace) -> None:
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    generations, modules = (2, 6) if args.quick else (args.generations, args.modules or config.es.modules)
    start = load_policy(args.policy)
    records = []
    for perturbation in args.perturbation or [config.es.perturbation]:
        ratios = bench_replay(config, toolchain, start, args.data, perturbation, generations, modules, args.workers)
        records.append(ratios.record())
        if not args.json:
            print("\n".join(f"{name:<15} {value}" for name, value in records[-1].items()), end="\n\n")
    if args.json:
        print(json.dumps(records, indent=2))


def _log(args: argparse.Namespace) -> None:
    questions, repeats = (120_000, 3) if args.quick else (args.questions, args.repeats)
    record = bench_log(read_table(args.data / "baseline" / "trace.parquet"), questions, repeats).record()
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        print("\n".join(f"{name:<18} {value}" for name, value in record.items()))


def _pools(args: argparse.Namespace) -> None:
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    count, candidates, rounds = (4, 4, 2) if args.quick else (args.modules, args.candidates, args.rounds)
    scored = load_scored_modules(args.data / "corpus", args.data / "baseline", "train")
    modules = sample([one for one in scored if one.num_questions], count, config.seed, "bench", "pools")
    bitcode = unpack_bitcode(args.data / "corpus", [one.module for one in modules], args.data / "work" / "bitcode")
    common = {"address": args.address, "num_workers": args.workers}
    kinds = {kind: LOCAL_WORKERS.model_copy(update={"kind": kind, **common}) for kind in args.kinds}
    with ExitStack() as stack:
        if "ray" in kinds:  # one cluster for all rounds
            connect(args.address, kinds["ray"].files)
            stack.callback(disconnect)
        costs = bench_pools(
            toolchain,
            config.compile,
            load_policy(args.policy),
            modules,
            bitcode,
            kinds,
            candidates,
            rounds,
            args.workers,
        )
    if args.json:
        print(json.dumps([cost.record() for cost in costs], indent=2))
        return
    print(f"{costs[0].evaluations} evaluations a generation, {args.workers} workers, {rounds} rounds")
    print(f"  kind    compiled, s   over {costs[0].kind} (range)           in trees, s   over {costs[0].kind} (range)")
    for one in costs:
        (low, high), (least, most) = one.compiled_over_first_range, one.recalled_over_first_range
        print(
            f"  {one.kind:<7} {one.compiled_seconds:>11.2f}   {one.compiled_over_first:.3f} ({low:.3f} to {high:.3f})"
            f"     {one.recalled_seconds:>11.3f}   {one.recalled_over_first:.2f} ({least:.2f} to {most:.2f})"
            f"{'' if one.identical else '   OTHER REWARDS'}"
        )


def _save(args: argparse.Namespace) -> None:
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    modules = _smallest_modules(args.data)[:_SAVE_MODULES]
    bitcode = unpack_bitcode(args.data / "corpus", [one.module for one in modules], args.data / "work" / "bitcode")
    repeats, policy, records = 4 if args.quick else args.repeats, as_network_policy(load_policy(args.policy)), {}
    for length, candidates in {"short": 1, "long": 4 if args.quick else 12}.items():
        cost = bench_save(toolchain, config.compile, policy, modules, bitcode, candidates, repeats, args.workers)
        records[length] = cost.record()
        if not args.json:
            print(f"{length} steps\n" + "\n".join(f"  {name:<26} {value}" for name, value in records[length].items()))
    if args.json:
        print(json.dumps(records, indent=2))


def _env(args: argparse.Namespace) -> None:
    config = read_config(args)
    modules = args.modules or [args.data / "sample" / name for name in _ENV_MODULES]
    repeats = min(3, args.repeats) if args.quick else args.repeats
    speeds = bench_envs(modules, config.toolchain, config.target, repeats, config.seed)
    if args.json:
        print(json.dumps([one.record() for one in speeds], indent=2))
        return
    print("environment               trees   steps  compiles  steps per second  (range over repetitions)   us per step")
    for one in speeds:
        low, high = one.steps_per_second_min, one.steps_per_second_max
        print(
            f"{one.environment:<24}  {'yes' if one.trees else 'no':<5}  {one.num_steps:>6}  {one.num_compiles:>8}"
            f"  {one.steps_per_second:>16,.0f}  ({low:,.0f} to {high:,.0f})  {one.step_us:>12.1f}"
        )


def _share(text: str) -> float:
    """Read a share below 1, for ``argparse``."""
    value = not_negative_float(text)
    if value >= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not below 1")
    return value


def _nested(args: argparse.Namespace) -> None:
    config, cores = read_config(args), len(os.sched_getaffinity(0))
    seconds, rounds, shares = (5.0, 1, [0.0, 0.5]) if args.quick else (args.seconds, args.rounds, args.idle)
    idle = [("dedicated", 0.0)] if 0.0 in shares else []
    idle += [(idle_of, share) for share in shares if share for idle_of in args.idle_of]
    sharing, records = Sharing(args.at_once, args.turn), []
    for experiments in args.experiments:
        with ExitStack() as stack:
            if args.wait or cores < experiments:
                work, workers = waiting_work(), experiments
            else:
                toolchain = find_toolchain(config.toolchain, config.target)
                sources = sorted(path for path in (args.data / "sample").rglob("*") if path.suffix in (".c", ".cpp"))
                sources = sources[: args.modules]
                work = stack.enter_context(compile_work(toolchain, get_task(config.task), config.compile, sources))
                workers = cores // experiments * experiments
            gains = bench_nested(work, experiments, workers, idle, seconds, rounds, sharing)
        records += [one.record() for one in gains]
        if args.json:
            continue
        print(f"{experiments} experiments, {workers} workers, {gains[0].jobs} jobs a generation: {work.name}")
        print(
            "idle of     share  idle s  measured: dedicated  shared  jobs/s: dedicated  shared  ratio (range)"
            "           bound  processor ms a job: dedicated, shared"
        )
        for one in gains:
            low, high = one.ratio_range
            print(
                f"{one.idle_of:<10}  {one.idle_share:>5.2f}  {one.idle_s:>6.2f}  {one.dedicated_idle_share:>19.2f}"
                f"  {one.shared_idle_share:>6.2f}  {one.dedicated_per_s:>17.1f}  {one.shared_per_s:>6.1f}"
                f"  {one.ratio:.3f} ({low:.3f} to {high:.3f})  {one.bound:.3f}"
                f"  {one.dedicated_processor_ms:.1f}, {one.shared_processor_ms:.1f}"
            )
    if args.json:
        print(json.dumps(records, indent=2))


def _soak(args: argparse.Namespace) -> int:
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    claim_core()
    modules = _smallest_modules(args.data)
    paths = unpack_bitcode(args.data / "corpus", [one.module for one in modules], args.data / "work" / "bitcode")
    num_sessions = min(600, args.sessions) if args.quick else args.sessions
    result = bench_soak(toolchain, get_task(config.task), config.compile, list(paths.values()), num_sessions)
    if args.json:
        print(json.dumps(result.record(), indent=2))
    else:
        print("\n".join(f"{name:<20} {_said(value)}" for name, value in result.record().items()))
    return 1 if result.leaked else 0


def _cores(args: argparse.Namespace) -> int:
    if not args.command:
        raise ConfigError("mlgo bench cores needs a command to run, for example: snakemake --cores 1")
    status, uses = watch_cores(args.command)
    if args.json:
        print(json.dumps([one.record() for one in uses], indent=2))
        return status
    print(f"{'job':<36} {'seconds':>8} {'cores':>6} {'(peak)':>7} {'runnable':>9} {'(peak)':>7} {'memory MB':>10}")
    for one in uses:
        print(
            f"{one.job:<36} {one.seconds:>8.1f} {one.cores:>6.2f} {one.peak_cores:>7.2f} {one.runnable:>9.2f}"
            f" {one.peak_runnable:>7.2f} {one.peak_memory_mb:>10.0f}"
        )
    return status


def _smallest_modules(data: Path) -> list[ScoredModule]:
    """The training modules that ask least, though enough for a conversation."""
    scored = load_scored_modules(data / "corpus", data / "baseline", "train")
    asking = sorted((one for one in scored if one.num_questions >= 20), key=lambda one: one.num_questions)
    if not asking:
        raise CorpusError("no training module asks 20 questions; build the default corpus")
    return asking[:_SOAK_MODULES]


def _said(value: Any) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in value.items()) if isinstance(value, dict) else str(value)
