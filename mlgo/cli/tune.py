"""`mlgo tune`: search one program for smaller code, and keep what was found as a policy for its build."""

import argparse
import csv
import io
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlgo.base.artifacts import Row
from mlgo.base.files import write_text
from mlgo.base.names import LANGUAGES
from mlgo.base.output import claim
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.sealed import load_sealed
from mlgo.base.ships import AS_BUILT, Ships
from mlgo.cli.evaluate import EvaluationTools
from mlgo.cli.program import CONFIG, add_command, add_options, positive, positive_float, say, settings_of, workers_of
from mlgo.deploy.drivers import default_policy, policy_folder
from mlgo.errors import ConfigError, CorpusError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.headroom import FIXED
from mlgo.evaluate.linked_search import LinkedModule, changed_calls, overrides_of, search_linked
from mlgo.evaluate.sealed_log import LOG, log_evaluation, sealed_evaluation
from mlgo.evaluate.shipped import EvaluationRun, in_record
from mlgo.evaluate.targets import one_project
from mlgo.host.actions import Binary
from mlgo.host.tasks.task import HEURISTIC
from mlgo.policy.policy import Overrides, Policy
from mlgo.policy.stored import load_policy, model_sha256, save_policy
from mlgo.pool.cores import usable_cores

DECISIONS = "decisions.csv"
"""File beside a tuned policy: which calls it decides otherwise."""

_BASE, _TUNED = "the policy", "tuned"


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "tune", run)
    parser.add_argument("project", type=Path, metavar="DIR", help="what mlgo capture has written")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="POLICY", help="folder for the policy")
    parser.add_argument("--budget", type=positive, default=1000, metavar="N", help="compiles (default: %(default)s)")
    parser.add_argument("--minutes", type=positive_float, help="end earlier, after the round that is under way then")
    parser.add_argument("--policy", type=policy_folder, metavar="P", help="begin with it (default: the released one)")
    parser.add_argument(
        "--ships", type=Ships.of, default=AS_BUILT, metavar="RECORD", help="what ships, as in whole,folding=all"
    )
    parser.add_argument("--update", action="store_true", help="begin with the result for an earlier version, in POLICY")
    parser.add_argument("--reason", default="", metavar="TEXT", help=f"to tune a sealed project; kept in {LOG}")
    parser.add_argument("--workers", type=positive, default=usable_cores(), help="(default: %(default)s)")
    add_options(parser, "--json", *CONFIG)


def run(args: argparse.Namespace) -> None:
    """Search one program for smaller code, and keep it as a policy for its build.

    mlgo tune captured/app -o tuned/app --budget 2000                  then mlgo cc --policy tuned/app
    mlgo tune captured/app -o tuned/app --ships whole,folding=all      then mlgo cc --whole --policy tuned/app
    mlgo tune captured/app -o tuned/app --minutes 60                   a second call goes on
    mlgo tune captured/app-2 -o tuned/app --update                     the next version of the program
    """
    values, folder = settings_of(args), args.policy or default_policy()
    policy = load_policy(folder, Binary)
    if policy.overrides:
        raise ConfigError(f"{folder} is the result of mlgo tune; name it as --output, or name its base")
    target = one_project(args.project, shared_folder() / "bitcode")
    tools = EvaluationTools.of(args, values, policy, args.ships, [target])
    of = {
        "project": target.project,
        "content": target.content,
        "compile": tools.compiling.model_dump(),
        "base_sha256": model_sha256(folder),
        "compiler_sha256": tools.toolchain.sha256,
        "seed": values.value("seed"),
    }
    earlier = _earlier(args, of)
    if load_sealed().holds(target.project):
        ships = str(tools.compiling.ships)
        log_evaluation(sealed_evaluation(policy, folder, ships, {target.project: target.content}, args.reason))
    (target,) = tools.in_form([target])
    if not target.programs:
        raise CorpusError(f"{args.project} has no linked file to make smaller; capture a build that links")
    claim(args.output, ("policy.json", "weights.npy", DECISIONS))
    origin = policy.origin | {"compile": tools.compiling.model_dump(), "languages": list(LANGUAGES)}
    spent = earlier.origin["tuned"]["num_compiles"] if earlier and not args.update else 0
    with (
        CompileHost(tools.toolchain, policy.task, tools.compiling, args.workers, workers=workers_of(values)) as host,
        scratch_directory() as scratch,
        tqdm(total=args.budget, initial=spent, unit="compile", disable=None, file=sys.stderr) as bar,
    ):
        project = EvaluationRun(host, target.modules, target.programs, target.unpack(), tools.linking, scratch)
        project = in_record(project, tools.front_end, scratch)
        project.compile()
        project.compile(_BASE, lambda module: policy)
        heuristic, base = _total(project.link(HEURISTIC)), _total(project.link(_BASE))
        end = time.monotonic() + 60.0 * args.minutes if args.minutes else None

        def keep(overrides: Overrides | None, num_compiles: int, total: int) -> None:
            told = {**of, "num_compiles": num_compiles, "heuristic": heuristic, "base": base, "total": total}
            save_policy(replace(policy, overrides=overrides, origin=origin | {"tuned": told}), args.output)

        def after_round(modules: Sequence[LinkedModule]) -> bool:
            done, saved = spent + sum(one.num_compiles for one in modules), sum(one.saved for one in modules)
            keep(overrides_of(modules, policy), done, base - saved)
            bar.set_postfix_str(f"{saved:,} bytes less than under the policy")
            bar.update(done - bar.n)
            return end is None or time.monotonic() < end

        starts = len(FIXED) + 1 + (not tools.toolchain.quirks.default_hides_a_feature) + bool(earlier)
        each = (args.budget - spent) // max(1, len(target.modules))
        if each < starts:
            raise ConfigError(
                f"{args.budget} compiles are below what {'is spent already and ' if spent else ''}the start costs: "
                f"{len(target.modules)} modules of {starts} compiles; give --budget "
                f"{spent + starts * len(target.modules)} or more"
            )
        try:
            modules = search_linked(
                project,
                policy,
                project.objects(_BASE),
                each,
                values.value("headroom.flips_per_round"),
                of["seed"],
                tools.toolchain.quirks,
                [earlier] if earlier else [],
                after_round,
            )
        except KeyboardInterrupt:
            print(f"{args.output} holds the best so far; the same command goes on", file=sys.stderr)
            raise
        num_compiles = spent + sum(one.num_compiles for one in modules)
        overrides, total, rows = _built(project, tools, policy, modules, base)
        keep(overrides, num_compiles, total)
    write_text(args.output / DECISIONS, _as_csv(rows))
    text = (
        f"{total:,} bytes in {len(target.programs)} linked files: {1 - total / base:+.2%} against the policy "
        f"({base:,}), {1 - total / heuristic:+.2%} against {tools.compiling.optimization} ({heuristic:,}), after "
        f"{num_compiles} compiles\n{len(rows)} calls are decided otherwise: {args.output / DECISIONS}"
    )
    record = {"total": total, "base": base, "heuristic": heuristic, "num_compiles": num_compiles, "calls": len(rows)}
    say(args, record, text)


def _earlier(args: argparse.Namespace, of: Mapping[str, Any]) -> Policy | None:
    """The result that is in the output folder already."""
    if not (args.output / "policy.json").exists():
        if args.update:
            raise ConfigError(f"{args.output} holds no result to begin with; leave --update out")
        return None
    found = load_policy(args.output, Binary)
    told = found.origin.get("tuned")
    if not isinstance(told, dict) or type(told.get("num_compiles")) is not int:
        raise ConfigError(f"{args.output} holds a policy that mlgo tune has not made; name a new folder")
    if not args.update and (other := [name for name, value in of.items() if told.get(name) != value]):
        raise ConfigError(
            f"{args.output} was tuned with another {other[0]}; name a new folder, or begin with it: --update"
        )
    return found


def _built(
    project: EvaluationRun, tools: EvaluationTools, policy: Policy, modules: Sequence[LinkedModule], base: int
) -> tuple[Overrides | None, int, list[Row]]:
    """What is kept of a search, the linked bytes of a build with it, and the calls that it decides otherwise.

    Overrides hold in all modules. If those of some modules disturb others too much, only what saved most is kept.
    """
    saving = sorted((one for one in modules if one.saved > 0), key=lambda one: -one.saved)
    while saving:
        overrides = overrides_of(saving, policy)
        tuned = replace(policy, overrides=overrides)
        project.compile(_TUNED, lambda module, tuned=tuned: tuned)  # type: ignore[misc]
        total = _total(project.link(_TUNED))
        if total < base:
            return overrides, total, changed_calls(project, tools.front_end.print_ir, saving, policy, tuned)
        saving = saving[: len(saving) // 2]
    return None, base, []


def _total(rows: Sequence[Row]) -> int:
    failed = [f"{row['program']}: {row['message']}" for row in rows if row["failure"]]
    if failed:
        raise CorpusError(f"{failed[0]}; a program that does not link cannot be tuned")
    return sum(row["total"] for row in rows if not row["folded"])


def _as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    names = ("module", "caller", "callee", "decision", "caller_before", "caller_after", "callee_before", "callee_after")
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
