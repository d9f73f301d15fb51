"""`mlgo workers`: workers of this machine that experiments share."""

import argparse
from typing import Any

from mlgo.cli.program import add_actions, add_options, not_negative_float, positive, say
from mlgo.pool.cores import usable_cores
from mlgo.pool.nested import NestingProxy, serve_workers
from mlgo.pool.schedule import TURN_S


def add_parser(commands: Any) -> None:
    add_action = add_actions(commands, "workers", "Serve workers that several experiments share.", title="actions")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--address",
        default="",
        metavar="HOST:PORT[/NAME]",
        help="of a Ray cluster, or auto (default: a cluster of this machine, started for these workers)",
    )
    serve = add_action("serve", _serve, shared)
    serve.add_argument("--num", type=positive, default=usable_cores(), help="workers (default: one for each core)")
    serve.add_argument("--at-once", type=positive, default=1, help="jobs that each runs at once (default: %(default)s)")
    serve.add_argument(
        "--turn",
        type=not_negative_float,
        default=TURN_S,
        metavar="S",
        help="seconds for which one experiment may keep all workers while others wait (default: %(default)g)",
    )
    add_options(add_action("status", _status, shared), "--json")
    add_action("stop", _stop, shared)


def _serve(args: argparse.Namespace) -> None:
    """Start them, and end them with Ctrl-C.

    mlgo workers serve                     one worker for each core, until Ctrl-C, on a Ray cluster of this machine
    mlgo workers serve --num 4 --address auto             on the cluster that this machine belongs to
    mlgo workers serve --address 10.0.0.5:6379/large      under a name of its own
    """
    with serve_workers(args.address, args.num, at_once=args.at_once, turn_s=args.turn) as served:
        numbers = [one["core"] for one in served.status()["cores"]]
        cores = ", ".join(str(one) for one in numbers if one is not None) or "none of their own"
        print(f"{args.num} workers at {served.address}, cores {cores}", flush=True)
        served.wait_for_end()


def _status(args: argparse.Namespace) -> None:
    """Who uses what.

    mlgo workers status                    who uses what; --json
    """
    with NestingProxy(args.address) as served:
        status = served.status()
    lines = [
        f"{status['address']}: process {status['process']}, mlgo {status['version']}, {status['seconds']:.0f} s old",
        "worker  core  hosted  outstanding  busy",
    ]
    for number, one in enumerate(status["cores"]):
        core = "-" if one["core"] is None else one["core"]
        row = "{workers:>6}  {outstanding:>11}  {busy_share:>4.0%}".format(**one)
        lines.append(f"{number:>6}  {core:>4}  {row}")
    if status["experiments"]:
        lines.append("experiment            workers  outstanding  done  seconds used  folder")
    for one in status["experiments"]:
        row = "{workers:>7}  {outstanding:>11}  {done:>4}  {used_s:>12.1f}  {folder}".format(**one)
        lines.append(f"{one['host'] + ':' + str(one['process']):<20}  {row}")
    say(args, status, "\n".join(lines))


def _stop(args: argparse.Namespace) -> None:
    """End them and whatever they run.

    mlgo workers stop
    """
    with NestingProxy(args.address) as served:
        served.stop()
        print(f"stopped the workers at {served.address}")
