"""`mlgo tune`: search one program for smaller code, and keep what was found as a policy for its build."""

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from mlgo.base.artifacts import Row, read_table, write_table
from mlgo.base.config import Settings
from mlgo.base.files import read_input, readable, write_bytes, write_text
from mlgo.base.names import OF_CLANG
from mlgo.base.output import claim
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.ships import AS_BUILT, Ships
from mlgo.cli.evaluate import EvaluationTools
from mlgo.cli.program import CONFIG, add_command, add_options, positive, positive_float, say, settings_of, workers_of
from mlgo.deploy.drivers import default_policy, policy_folder
from mlgo.errors import CompileError, ConfigError, CorpusError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.labels import label_table
from mlgo.evaluate.linked_search import (
    LinkedPrograms,
    ProgramBuild,
    changed_calls,
    known_share,
    overrides_of,
    search_linked,
)
from mlgo.evaluate.sealed_log import log_if_sealed
from mlgo.evaluate.search import Labels, search
from mlgo.evaluate.shipped import EvaluationRun, in_record, measure_level
from mlgo.evaluate.targets import EvaluationTarget, one_project
from mlgo.host.actions import Binary
from mlgo.policy.policy import Overrides, Policy
from mlgo.policy.stored import load_policy, model_sha256, save_policy
from mlgo.pool.cores import usable_cores

PAGE = "report.html"
"""File beside a tuned policy: how the size fell, and which calls it decides otherwise."""

DECISIONS = "decisions.csv"
"""File beside it: the calls as a table."""

LABELS = "labels.parquet"
"""File beside it: what each flip has saved, ``artifacts.label_schema``."""

TRIED = "tried.bin"
"""File beside it, for a call that goes on: hashes of what was tried in vain, uint64."""

_SMALL = ("-Os", "-Oz")


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
    parser.add_argument("--program", action="append", metavar="NAME", help="only this linked file; may be repeated")
    parser.add_argument("--update", action="store_true", help="begin with the result for an earlier version, in POLICY")
    parser.add_argument("--reason", default="", metavar="TEXT", help="to tune a sealed project; kept in its log")
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
    captured = one_project(args.project, shared_folder() / "bitcode")
    target = _only(captured, args.program)
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
    log_if_sealed(policy, folder, str(tools.compiling.ships), {target.project: captured.content}, args.reason)
    (target,) = tools.in_form([target])
    if not target.programs:
        raise CorpusError(f"{args.project} has no linked file to make smaller; capture a build that links")
    claim(args.output, ("policy.json", "weights.npy", PAGE, DECISIONS, LABELS, TRIED))
    origin = policy.origin | {"compile": tools.compiling.model_dump(), "languages": list(OF_CLANG)}
    labels = list[pa.Table]()  # of each round
    spent, tried, course = 0, set[int](), list[list[int]]()  # of pairs: compiles, and the least total after these
    if earlier and not args.update:
        spent, known = earlier.origin["tuned"]["num_compiles"], args.output / TRIED
        course = earlier.origin["tuned"].get("course", [])
        with readable(known, "hashes of 8 bytes", ValueError):
            tried.update(np.frombuffer(read_input(known), np.uint64).tolist() if known.exists() else ())
        labels += [read_table(args.output / LABELS)] if (args.output / LABELS).exists() else []
    with (
        linked_programs(target, tools, policy, args.workers, values) as (project, programs),
        tqdm(total=args.budget, initial=spent, unit="compile", disable=None, file=sys.stderr) as bar,
    ):
        beside = 2 * programs.compiles_per_build  # under the heuristic, and with the result
        starts = programs.compiles_per_build * (1 + len(programs.heuristic) + bool(earlier)) + programs.num_variants
        if args.budget < spent + beside + starts:
            raise ConfigError(
                f"{args.budget} compiles are below what {'is spent already and ' if spent else ''}the start costs; "
                f"give --budget {spent + beside + starts} or more"
            )
        heuristic = _built(programs, None).total
        end = time.monotonic() + 60.0 * args.minutes if args.minutes else None

        def keep(overrides: Overrides | None, base: int, total: int) -> None:
            num_compiles = spent + programs.num_compiles
            if not course or total < course[-1][1]:
                course.append([num_compiles, total])
            sizes = {"heuristic": heuristic, "base": base, "total": total}
            told = {**of, "num_compiles": num_compiles, **sizes, "course": course}
            if labels:
                write_table(args.output / LABELS, pa.concat_tables(labels), labels[-1].schema, told)
            write_bytes(args.output / TRIED, np.array(sorted(tried), np.uint64).tobytes())
            save_policy(replace(policy, overrides=overrides, origin=origin | {"tuned": told}), args.output)

        def after_round(first: ProgramBuild, best: ProgramBuild) -> bool:
            keep(overrides_of(best, policy), first.total, best.total)
            bar.set_postfix_str(f"{first.total - best.total:,} bytes less than under the policy")
            bar.update(spent + programs.num_compiles - bar.n)
            return end is None or time.monotonic() < end

        def take(found: Labels) -> None:
            table = label_table(target.project, 1 + labels[-1]["round"][-1].as_py() if labels else 0, found)
            labels.extend([table] if len(table) else [])

        method = partial(search, take=take)
        budget, flips = args.budget - spent - beside, values.value("headroom.flips_per_round")
        more_starts = [earlier] if earlier else []
        try:
            first, best = search_linked(
                programs, policy, budget, flips, of["seed"], more_starts, after_round, tried, method
            )
        except KeyboardInterrupt:
            print(f"{args.output} holds the best so far; the same command goes on", file=sys.stderr)
            raise
        except CompileError as error:
            raise CorpusError(f"{error}; what does not build under the policy cannot be tuned") from None
        notes = _notes(project, tools, policy, first, earlier)
        tuned = replace(policy, overrides=overrides_of(best, policy))
        last = _built(programs, tuned)
        if last.total >= first.total:
            tuned, last = policy, first
        keep(tuned.overrides, first.total, last.total)
        rows = changed_calls(tools.front_end.print_ir, first, last, policy)
        num_compiles = spent + programs.num_compiles
    from mlgo.report.tuned import render_tuned  # here, since pages load jinja2

    base, total = first.total, last.total
    record = {"total": total, "base": base, "heuristic": heuristic, "num_compiles": num_compiles, "course": course}
    write_text(args.output / DECISIONS, _as_csv(rows))
    write_text(args.output / PAGE, render_tuned(target.project, record, rows))
    text = (
        f"{total:,} bytes in {len(target.programs)} linked files: {1 - total / base:+.2%} against the policy "
        f"({base:,}), {1 - total / heuristic:+.2%} against {tools.compiling.optimization} ({heuristic:,}), after "
        f"{num_compiles} compiles\n{len(rows)} calls are decided otherwise\npage: {args.output / PAGE}"
    )
    say(args, record | {"calls": len(rows), "notes": notes}, "\n".join([text, *notes]))


@contextmanager
def linked_programs(
    target: EvaluationTarget, tools: EvaluationTools, policy: Policy, num_workers: int, values: Settings
) -> Iterator[tuple[EvaluationRun, LinkedPrograms]]:
    """A project in the form of its record, with workers that compile it: how it is evaluated, and what is searched."""
    workers = workers_of(values)
    with (
        CompileHost(tools.toolchain, policy.task, tools.compiling, num_workers, workers=workers) as host,
        scratch_directory() as scratch,
    ):
        project = EvaluationRun(host, target.modules, target.programs, target.unpack(), tools.linking, scratch)
        project = in_record(project, tools.front_end, scratch)
        yield project, LinkedPrograms(project, target.programs, tools.toolchain.quirks)


def _only(target: EvaluationTarget, names: Sequence[str] | None) -> EvaluationTarget:
    """The project with these linked files alone, by default all."""
    known = {program.row["program"]: program for program in target.programs}
    if unknown := [name for name in names or () if name not in known]:
        raise ConfigError(f"--program {unknown[0]}: {target.table} has {', '.join(known) or 'no linked file'}")
    return replace(target, programs=[known[name] for name in dict.fromkeys(names)]) if names else target


def _built(programs: LinkedPrograms, advisor: Policy | None) -> ProgramBuild:
    (build,) = programs.build([advisor])
    if build.error is not None:
        raise CorpusError(f"{build.error}; a program that cannot be built cannot be tuned")
    return build


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


def _notes(
    project: EvaluationRun, tools: EvaluationTools, policy: Policy, first: ProgramBuild, earlier: Policy | None
) -> list[str]:
    """What a user should know besides: how well an earlier result fits, and whether another level is smaller."""
    notes, level = list[str](), tools.compiling.optimization
    if earlier is not None and earlier.overrides:
        share = known_share(earlier.overrides, first)
        notes.append(f"the program asks {share:.0%} of the questions that the earlier result answers otherwise")
    if level in _SMALL and tools.linking.ships.form != "thin":
        other = _SMALL[1 - _SMALL.index(level)]
        rows = [row for row in measure_level(project, tools.front_end, other, policy) if not row["folded"]]
        total = None if any(row["failure"] for row in rows) else sum(row["total"] for row in rows)
        if total is not None and total < first.total:
            notes.append(f"{other} is smaller under the policy, {total:,} bytes: tune with --ships level={other}")
    return notes


def _as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    names = ("module", "caller", "callee", "decision", "caller_before", "caller_after", "callee_before", "callee_after")
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
