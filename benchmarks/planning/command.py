"""How long generations would take on machines that are not at hand.

Example:
    python -m benchmarks.planning --measure                     measure this machine with its corpus, some minutes
    python -m benchmarks.planning                               simulate 96, 1,000 and 10,000 cores; write the page
    python -m benchmarks.planning --measured measured.json      the same without a corpus, from recorded measurements
    python -m benchmarks.planning --cores 500 --generation 200x50 --json
    python -m benchmarks.planning --cores 96 --network local --store local      one large machine, no cluster
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.arguments import benchmark_parser
from benchmarks.planning.cluster import CLUSTER_NETWORK, CLUSTER_STORE, LOCAL_NETWORK, LOCAL_STORE, Cluster, Placing
from benchmarks.planning.costs import costs_of, with_driver
from benchmarks.planning.generations import Shape
from benchmarks.planning.measure import Effort, measure
from benchmarks.planning.picture import duration, picture
from benchmarks.planning.scenarios import Scenario, nested, placings, relieved, run_all
from benchmarks.planning.workload import workload_of
from mlgo.base.files import read_json, write_json, write_text
from mlgo.cli.options import add_config_options, not_negative_float, positive, positive_float, read_config
from mlgo.errors import ArtifactError
from mlgo.host.toolchain import find_toolchain
from mlgo.policy.stored import load_policy
from mlgo.pool.local import LocalBackend
from mlgo.pool.messages import MOST
from mlgo.pool.ray_backend import RayBackend
from mlgo.report.pages import aligned, markdown

_COLUMNS = (
    "cores",
    "generation",
    "how",
    "time",
    "workers",
    "compiling",
    "in a message",
    "driver",
    "server",
    "link",
    "lock",
    "in trees",
)

_TITLES = {
    "placings": "Ways to schedule",
    "nested": "Several trainings",
    "relieved": "More drivers, shorter messages",
}
_NOTE = (
    "Written by `python -m benchmarks.planning --markdown`. Time of a generation is the mean of all but the first. "
    "Workers (at work, with a compiler), driver, file server, network link, the most wanted lock: share of the time in "
    "which they were busy."
)


def main() -> None:
    """Measure, or simulate and print tables."""
    args = _parser().parse_args()
    path = args.measured or args.data / "work" / "planning" / "measured.json"
    if args.measure:
        _measure(args, path)
        return
    if not path.exists():
        raise ArtifactError(
            f"{path} is missing; run: python -m benchmarks.planning --measure, or name another: --measured FILE"
        )
    measured = read_json(path)
    kinds = _simulate(args, measured)
    from benchmarks.planning.page import render_planning  # Plotly

    write_text(
        args.output or args.data / "work" / "planning" / "plan.html",
        render_planning(kinds, measured, _kind(args, measured)),
    )
    if args.picture:
        write_text(args.picture, picture(kinds["placings"]))
    if args.markdown:
        write_text(args.markdown, _markdown(kinds))
    if args.json:
        print(json.dumps(kinds, indent=2))
    else:
        print("\n\n".join(aligned([_COLUMNS, *map(_cells, rows)]) for rows in kinds.values() if rows))


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser("benchmarks.planning", __doc__)
    parser.add_argument("--cores", type=positive, nargs="+", default=[96, 1000, 10_000], help="default: %(default)s")
    parser.add_argument(
        "--generation",
        type=shape,
        nargs="+",
        metavar="CANDIDATESxMODULES",
        default=[Shape(64, 20), Shape(1000, 100)],
        help="sizes of a generation; more drivers are tried with the last (default: 64x20 1000x100)",
    )
    parser.add_argument("--generations", type=positive, default=3, help="of each training (default: %(default)s)")
    parser.add_argument(
        "--schedules", choices=("all", "full"), default="all", help="all ways to schedule, or only what pools do"
    )
    parser.add_argument(
        "--trainings",
        type=positive,
        nargs="*",
        default=[2, 4],
        help="that share the workers, each with the first size (default: 2 4)",
    )
    parser.add_argument(
        "--thinks",
        type=positive_float,
        default=5.0,
        metavar="SECONDS",
        help="of such trainings, a learner's step to try besides the measured one (default: %(default)s)",
    )
    parser.add_argument("--drivers", type=positive, nargs="+", default=[1, 8], help="to try (default: 1 8)")
    parser.add_argument(
        "--most",
        type=positive,
        nargs="+",
        default=[1, MOST],
        help="jobs in a message at most, to try (default: %(default)s)",
    )
    parser.add_argument("--network", choices=("cluster", "local"), default="cluster", help="default: %(default)s")
    parser.add_argument("--store", choices=("cluster", "local"), default="cluster", help="default: %(default)s")
    parser.add_argument("--latency", type=not_negative_float, help="of the network, one way, in seconds")
    parser.add_argument("--bandwidth", type=positive_float, help="of the driver's link, in bytes a second")
    parser.add_argument("--operation", type=not_negative_float, help="time of an operation of the store, in seconds")
    parser.add_argument("--operations", type=positive_float, help="of the store, for all workers, a second")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--measured", type=Path, help="costs and workload (default: DATA/work/planning/measured.json)")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="page to write (default: DATA/work/planning/plan.html)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown as well")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write a picture in SVG as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--measure", action="store_true", help="measure costs and workload here, and stop")
    parser.add_argument("--policy", type=Path, help="with --measure: where to start (default: DATA/policies/bc-s0)")
    parser.add_argument("--modules", type=positive, default=12, help="with --measure (default: %(default)s)")
    parser.add_argument("--pairs", type=positive, default=10, help="with --measure (default: %(default)s)")
    parser.add_argument("--real-generations", type=positive, default=5, help="with --measure (default: %(default)s)")
    parser.add_argument("--ray", action="store_true", help="with --measure: Ray's actors, too (extra ray)")
    parser.add_argument(
        "--workers",
        choices=("local", "ray"),
        help="whose driver costs count, and how many jobs a worker holds (default: ray where it was measured)",
    )
    add_config_options(parser)
    return parser


def shape(text: str) -> Shape:
    """Read the size of a generation, for ``argparse``."""
    candidates, separator, modules = text.partition("x")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text} is not of the form 64x20")
    return Shape(positive(candidates), positive(modules))


def _measure(args: argparse.Namespace, path: Path) -> None:
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    start = load_policy(args.policy or args.data / "policies" / "bc-s0")
    record = measure(
        config, toolchain, start, args.data, Effort(args.real_generations, args.modules, args.pairs, ray=args.ray)
    )
    write_json(path, record)
    if args.json:
        print(json.dumps({name: record[name] for name in ("machine", "costs", "validation")}, indent=2))
        return
    for name, cost in record["costs"].items():
        print(f"{name:<20} {cost['value']:>10.4g}   {cost['how']}")
    for row in record["validation"]:
        print(
            f"{row['workers']} workers: {row['measured_s']:.2f} s measured, {row['replayed_s']:.2f} s replayed, "
            f"{row['drawn_s']:.2f} s drawn; compiles took {row['slowdown']:.2f} times what they take alone"
        )


def _kind(args: argparse.Namespace, measured: Mapping[str, Any]) -> str:
    chosen: str = args.workers or ("ray" if "ray" in measured["drivers"] else "local")
    return chosen


def _simulate(args: argparse.Namespace, measured: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    network = CLUSTER_NETWORK if args.network == "cluster" else LOCAL_NETWORK
    store = CLUSTER_STORE if args.store == "cluster" else LOCAL_STORE
    if args.latency is not None:
        network = replace(network, latency_s=args.latency)
    if args.bandwidth is not None:
        network = replace(network, bytes_per_s=args.bandwidth)
    if args.operation is not None:
        store = replace(store, operation_s=args.operation)
    if args.operations is not None:
        store = replace(store, operations_per_s=args.operations)
    kind = _kind(args, measured)
    costs = with_driver(costs_of(measured["costs"]), measured["drivers"], kind)
    depth = (RayBackend if kind == "ray" else LocalBackend).depth
    local_costs = with_driver(costs_of(measured["costs"]), measured["drivers"], "local")
    clusters = [Cluster(cores, depth=depth, network=network, store=store) for cores in args.cores]
    shapes = [replace(one, generations=args.generations) for one in args.generation]
    ways = [(drivers, most) for drivers in args.drivers for most in args.most if (drivers, most) != (1, MOST)]
    kinds: dict[str, list[Scenario]] = {
        "placings": [
            one for one in placings(clusters, shapes, args.seed) if args.schedules == "all" or one.placing == Placing()
        ],
        "nested": list(nested(clusters, shapes[:1], args.trainings, [None, args.thinks], args.seed)),
        "relieved": list(relieved(clusters, shapes[-1:], ways, args.seed)),
    }
    everything = [one for scenarios in kinds.values() for one in scenarios]
    total = sum(one.num_evaluations for one in everything)
    workload = workload_of(measured["workload"])
    with tqdm(desc="simulated", total=total, unit="evaluation", unit_scale=True, disable=None) as bar:
        return {
            name: [
                one.record()
                for one in run_all(
                    workload,
                    local_costs if name == "nested" else costs,
                    scenarios,
                    args.jobs,
                    lambda one: bar.update(one.num_evaluations),
                )
            ]
            for name, scenarios in kinds.items()
        }


def _cells(row: Mapping[str, Any]) -> list[str]:
    if row["trainings"] > 1:
        thinks = f", {row['thinks_s']:g} s of learning" if row["thinks_s"] is not None else ""
        how = f"{row['trainings']} trainings, {'shared' if row['shared'] else 'apart'}{thinks}"
    elif row["drivers"] > 1 or row["most"] != MOST:
        how = f"{row['drivers']} driver{'s' * (row['drivers'] > 1)}, messages of up to {row['most']}"
    else:
        how = row["placing"]
    shares = ("driver", "server", "link", "lock", "hit_share")
    return [
        f"{row['cores']:,}",
        f"{row['candidates']:,} x {row['modules']:,}",
        how,
        duration(row["generation_s"]),
        f"{100 * row['utilisation']:.1f} %",
        f"{100 * row['compiling']:.1f} %",
        f"{row['in_message']:.1f}",
        *(f"{100 * row[name]:.1f} %" for name in shares),
    ]


def _markdown(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    parts = ["# Trainings on clusters, simulated", _NOTE]
    for name, rows in kinds.items():
        if rows:
            parts += [f"## {_TITLES[name]}", markdown([_COLUMNS, *map(_cells, rows)])]
    return "\n\n".join(parts) + "\n"
