"""`mlgo evaluate`: a finished policy on a project of one's own, or on any corpus."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from mlgo.base import artifacts
from mlgo.base.config import CompileConfig, Settings
from mlgo.base.files import file_sha256, joined, write_text
from mlgo.base.names import PolicyName
from mlgo.base.output import check_output, remove_tables
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.base.ships import AS_BUILT, Ships
from mlgo.cli.cc import add_languages
from mlgo.cli.program import CONFIG, add_command, add_options, positive, say, settings_of, workers_of
from mlgo.compare.inference import Bootstrap
from mlgo.compare.programs import ship_failures
from mlgo.corpus.assemble import SPLITS
from mlgo.corpus.link_time import Tools
from mlgo.corpus.seen import TRAINED_NAME, Kinds, SeenBodies, kinds_by_name, project_bodies, seen_table
from mlgo.corpus.store import Program
from mlgo.deploy.drivers import note_of_form, policy_folder
from mlgo.errors import CompileError, ConfigError, CorpusError, MlgoError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.evaluation import Evaluation, evaluate_project, evaluate_thin
from mlgo.evaluate.linked_search import LinkedPrograms, known_share, measure_build, search_linked
from mlgo.evaluate.sealed_log import log_evaluation, log_if_sealed
from mlgo.evaluate.shipped import (
    UNMERGED,
    EvaluationRun,
    Linking,
    in_record,
    measure_full_lto,
    measure_references,
    other_modules,
)
from mlgo.evaluate.targets import EvaluationTarget, corpus_projects, evaluate_targets, merged_programs, one_project
from mlgo.host.actions import Binary
from mlgo.host.frontend import FrontEnd
from mlgo.host.process import without_folders
from mlgo.host.tasks.task import get_task, settings_for_policy
from mlgo.host.toolchain import Toolchain, find_linker, find_toolchain
from mlgo.policy.policy import Policy
from mlgo.policy.stored import StoredPolicy, languages_by_default, languages_of, load_stored, model_sha256
from mlgo.pool.cores import usable_cores


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "evaluate", run)
    parser.add_argument("--policy", type=policy_folder, required=True, metavar="P", help="a policy's folder or name")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="folder with modules.parquet, projects/, programs/")
    parser.add_argument("--split", choices=SPLITS, help="only this split of the corpus")
    parser.add_argument(
        "--project",
        action="extend",
        nargs="+",
        default=[],
        metavar="DIR",
        help="what mlgo capture has written, or a table projects/NAME.parquet; with --corpus, the name of a project; "
        "several need --output",
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="to look at a sealed test set; kept in its log with the result"
    )
    add_languages(parser)
    parser.add_argument(
        "--ships",
        action="append",
        type=Ships.of,
        metavar="RECORD",
        help="what ships, where it is not as the build says: form (objects, thin, whole), level, relocation, exports, "
        "sections, folding, unwind, as in whole,folding=all,unwind=no; several make a table, with "
        "other levels beside the first alone (default: objects)",
    )
    parser.add_argument(
        "--no-references",
        dest="references",
        action="store_false",
        help="compare with the heuristic alone, not with other levels and with no inlining (half as many compiles; "
        "with form thin this is so always)",
    )
    parser.add_argument(
        "--search",
        type=positive,
        metavar="N",
        help="also look for answers that make the linked files smaller, with N compiles of each module: what a better "
        "policy could gain",
    )
    parser.add_argument(
        "--trained-on",
        type=Path,
        metavar="FILE",
        help="bodies that the policy was trained on, so that what ships is told apart by them (default: "
        f"corpus/{TRAINED_NAME} beside the folder of policies, if it is there)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="for page and tables (default: evaluation/POLICY beside the project)"
    )
    parser.add_argument("--workers", type=positive, default=usable_cores(), help="(default: %(default)s)")
    add_options(parser, "--json", *CONFIG)


def run(args: argparse.Namespace) -> None:
    """Try a finished policy on a project or a corpus.

    mlgo evaluate --policy data/policies/marginal-s0 --project captured/zlib
    mlgo evaluate --policy data/policies/marginal-s0 --project captured/zlib --ships whole,folding=all
    mlgo evaluate --policy data/policies/marginal-s0 --project captured/zlib --search 60
    mlgo evaluate --policy data/policies/marginal-s0 --corpus data/corpus --split test
    mlgo evaluate --policy data/policies/marginal-s0 --corpus data/corpus --project ninja --json
    """
    values = settings_of(args)
    named = args.policy.resolve().name
    name = PolicyName.find(named) or PolicyName.of(f"{named}-s0")  # a user's own name is that of one seed
    targets, place = _targets(args, name)
    records = args.ships or [AS_BUILT]
    if len(records) == 1 and args.output is not None:
        folders = [place]
    elif args.output is not None:
        folders = [joined(place, str(one) or "as-built") for one in records]
    else:
        folders = [place.with_name("-".join(filter(None, (place.name, str(one))))) for one in records]
    for folder in folders:
        check_output(folder, ("results.parquet", "shipped.parquet", "search.parquet", "report.html", "parts"))
    found = []
    for number, (one, folder) in enumerate(zip(records, folders, strict=True)):
        with_levels = args.references and number == 0  # a level is a record, too, where another way to ship wants it
        found.append(_evaluate(args, values, name, targets, one, folder, with_levels))
    if len(found) == 1:
        say(args, *found[0][:2])
    else:
        _say_together(args, values, name, {str(one) or "as built": of for one, of in zip(records, found, strict=True)})


def _say_together(
    args: argparse.Namespace,
    values: Settings,
    name: PolicyName,
    found: Mapping[str, tuple[dict[str, Any], str, pa.Table]],
) -> None:
    from mlgo.report.ships import compare_records  # here, since pages load jinja2

    shipped = {one: rows for one, (_, _, rows) in found.items()}
    table = compare_records(shipped, str(name), Bootstrap.of(values))
    reasons = {
        f"{row['project']}/{row['program']} as {one}": without_folders(row["message"])
        for one, rows in shipped.items()
        for row in reversed(ship_failures(rows))
    }
    lines = [f"{what}: not measured, {reason}" for what, reason in reasons.items()]
    pages = [f"page: {record['page']}" for record, _, _ in found.values()]
    by_record = {one: record for one, (record, _, _) in found.items()}
    say(args, {"records": by_record, "table": table.csv()}, "\n".join([table.aligned(), *lines, *pages]))


def _evaluate(
    args: argparse.Namespace,
    values: Settings,
    name: PolicyName,
    targets: Sequence[EvaluationTarget],
    ships: Ships,
    output: Path,
    with_levels: bool,
) -> tuple[dict[str, Any], str, pa.Table]:
    """Evaluate in one way to ship; what was found as JSON and as text, and ``artifacts.SHIPPED_SIZES``."""
    is_thin, parts = ships.form == "thin", joined(output, "parts")
    policy = load_stored(args.policy, *([Binary] if args.search else []))
    tools = EvaluationTools.of(args, values, policy, ships, targets)
    compiling, toolchain, linking, front_end = tools.compiling, tools.toolchain, tools.linking, tools.front_end
    contents = {one.project: one.content for one in targets}
    sealed = log_if_sealed(policy, args.policy, str(compiling.ships), contents, args.reason)
    asked, all_asked = tuple(args.languages or languages_by_default(args.policy, policy)), languages_of(policy)
    policy = replace(policy, origin=policy.origin | {"languages": list(asked)})
    with_levels = with_levels and not is_thin
    sources = {one.project: one for one in targets}
    targets = tools.in_form(targets)
    origin = artifacts.provenance(
        task=policy.task,
        **toolchain.provenance,
        compile=compiling.model_dump(),
        policy=str(name),
        policy_sha256=model_sha256(args.policy),
        linker_sha256=file_sha256(linking.linker),
        ships=ships.given,
        **({"languages": list(asked)} if asked != all_asked else {}),
        references=with_levels,
    )
    searched = {}
    if args.search:
        searched = {"flips_per_round": values.value("headroom.flips_per_round"), "seed": values.value("seed")}
        origin |= {"search": args.search, **searched}
    beside = args.policy.resolve().parent.parent / "corpus" / TRAINED_NAME
    trained = args.trained_on or (beside if beside.exists() else None)
    origin["trained_sha256"] = file_sha256(trained) if trained else ""
    seen = SeenBodies.of(artifacts.read_table(trained, artifacts.BODIES)) if trained else None
    write_line = partial(tqdm.write, file=sys.stderr)
    with CompileHost(toolchain, policy.task, compiling, args.workers, workers=workers_of(values)) as host:

        def evaluate(target: EvaluationTarget) -> Evaluation:
            with scratch_directory() as folder:
                bitcode = target.unpack()
                kinds = _kinds_of(seen, target, bitcode, front_end, args.workers) if seen else {}
                how = replace(linking, kinds=kinds)
                project = EvaluationRun(host, target.modules, target.programs, bitcode, how, folder)
                project = in_record(project, front_end, folder)
                found = evaluate_thin(project, policy, name) if is_thin else evaluate_project(project, policy, name)
                linked = _linked(project, found, name)
                overrides = policy.overrides if isinstance(policy, Policy) else None
                wanted = linked and (args.search or overrides)
                programs = LinkedPrograms(project, linked, toolchain.quirks) if wanted else None
                if programs and overrides:
                    (tried,) = programs.build([policy])
                    share = 0.0 if tried.error else known_share(overrides, tried)
                    write_line(f"{target.project} asks {share:.0%} of the questions that the policy was tuned to")
                if programs and args.search:
                    budget = args.search * programs.compiles_per_build
                    _, best = search_linked(programs, policy, budget, **searched)
                    sizes, course = measure_build(how, best), programs.course()
                    found = replace(found, sizes=[*found.sizes, *sizes], course=course)
                others = measure_references(project, front_end, policy.task) if with_levels else []
                if args.references and ships.form == "whole":
                    source, optimized = sources[target.project], Ships(sections=True).over(ships)
                    build = EvaluationRun(
                        host,
                        source.modules,
                        source.programs,
                        source.unpack(),
                        replace(linking, ships=optimized),
                        folder,
                    )
                    others += measure_full_lto(build)
                return replace(found, sizes=[*found.sizes, *others])

        # What an interrupted run has finished is not done again.
        results, shipped, course = evaluate_targets(targets, evaluate, parts, origin, write_line)
    origin["projects"] = {one.project: one.content for one in targets}
    artifacts.write_table(output / "results.parquet", results, artifacts.RESULTS, origin)
    artifacts.write_table(output / "shipped.parquet", shipped, artifacts.SHIPPED_SIZES, origin)
    if args.search:
        artifacts.write_table(output / "search.parquet", course, artifacts.SEARCH_COURSE, origin)
    else:  # of an earlier evaluation
        (output / "search.parquet").unlink(missing_ok=True)
    remove_tables(parts)
    failures = [row for row in results.to_pylist() if row["failure"]]
    if len(failures) == results.num_rows:
        first = failures[0]
        raise MlgoError(
            f"no module compiles; the first, {first['project']}/{first['module']}: {first['failure']}: "
            f"{first['message']}; {output / 'results.parquet'} tells of all"
        )
    text, headline = _write_page(output, policy.task, str(name), values, results, shipped, course)
    for evaluation in sealed:
        log_evaluation(replace(evaluation, headline=headline))
    failed = len(failures)
    record = {"modules": results.num_rows, "failed": failed, "shipped": shipped.to_pylist()}
    head = f"{results.num_rows} modules, {failed} failed; gains of linked files over the heuristic, more is better"
    return {**record, "page": str(output / "report.html")}, f"{head}\n{text}\npage: {output / 'report.html'}", shipped


@dataclass(frozen=True)
class EvaluationTools:
    """What compiles and links projects as a record of what ships wants them."""

    compiling: CompileConfig
    toolchain: Toolchain
    linking: Linking
    front_end: FrontEnd

    @classmethod
    def of(
        cls,
        args: argparse.Namespace,
        values: Settings,
        policy: StoredPolicy,
        ships: Ships,
        targets: Sequence[EvaluationTarget],
    ) -> "EvaluationTools":
        """By options and settings, for a policy; the projects must have been made for it."""
        task = get_task(policy.task)
        compiling = settings_for_policy(policy.features, task, values.section("compile", CompileConfig))
        for target in targets:
            target.check(policy.task, compiling.optimization)
        compiling = compiling.model_copy(
            update={"ships": ships.over(compiling.ships), "optimization": ships.level or compiling.optimization}
        )
        if note := note_of_form(policy, compiling.ships.form):
            print(f"note: {note}", file=sys.stderr)
        toolchain = find_toolchain(args.toolchain or values.value("toolchain"), values.value("target"))
        linking = Linking(find_linker(), compiling.compile_timeout_s, args.workers, ships)
        front_end = FrontEnd(toolchain, compiling, shared_folder() / "zig-cache", task)
        return cls(compiling, toolchain, linking, front_end)

    def in_form(self, targets: Sequence[EvaluationTarget]) -> Sequence[EvaluationTarget]:
        """Projects with their programs merged where the record says so; CorpusError where none can be.

        Each is one module, as `mlgo ld` has it, however long; only in a corpus to train on long ones are several.
        """
        if self.linking.ships.form != "whole":
            return targets
        tools = Tools(self.front_end, self.linking.linker, sys.maxsize, self.linking.num_threads)
        targets = [merged_programs(one, tools, shared_folder() / "bitcode") for one in targets]
        if not any(one.modules for one in targets):
            reasons = [program.row[UNMERGED] for one in targets for program in one.programs]
            raise CorpusError(f"nothing can be merged; {(reasons or ['there is no linked file'])[0]}")
        return targets


def _linked(project: EvaluationRun, found: Evaluation, name: PolicyName) -> list[Program]:
    """Programs that link under a policy."""
    names = {row["program"] for row in found.sizes if row["contender"] == str(name) and not row["failure"]}
    return [one for one in project.programs if one.row["program"] in names]


def _kinds_of(
    seen: SeenBodies, target: EvaluationTarget, bitcode: Mapping[str, Path], front_end: FrontEnd, num_threads: int
) -> Kinds:
    """Which functions of a project were seen in training."""
    every = [*target.modules, *other_modules(target.modules, target.programs)]
    try:
        bodies = project_bodies(front_end.print_ir, every, bitcode, shared_folder() / "bodies", num_threads)
    except CompileError:  # a module that cannot be read is a failed row of the evaluation
        return {}
    return kinds_by_name(seen_table(bodies, seen.kinds(bodies)))


def _targets(args: argparse.Namespace, name: PolicyName) -> tuple[list[EvaluationTarget], Path]:
    """What is evaluated, and where the results go."""
    bitcode, folder = shared_folder() / "bitcode", str(name)
    if args.corpus is not None:
        named = args.project or [None]
        targets = [one for name in named for one in corpus_projects(args.corpus, bitcode, args.split, name)]
        where = "-".join(args.project) or args.split or "all"
        return targets, args.output or args.corpus.parent / "evaluated" / where / folder
    if not args.project or args.split is not None:
        raise ConfigError("give --project DIR, or --corpus DIR with or without --split and --project NAME")
    paths = [Path(project) for project in args.project]
    if args.output is None and paths[0].suffix == ".parquet":
        raise ConfigError("give --output DIR, too: beside a table of a corpus is no place for results")
    if args.output is None and len(paths) > 1:
        raise ConfigError("give --output DIR, too: results of several projects belong to none of them")
    targets = [one_project(path, bitcode) for path in paths]
    if twice := [name for name, count in Counter(one.project for one in targets).items() if count > 1]:
        raise ConfigError(f"--project names {twice[0]} more than once")
    return targets, args.output or joined(paths[0], f"evaluation/{folder}")


def _write_page(
    output: Path, task: str, policy: str, values: Settings, results: pa.Table, shipped: pa.Table, course: pa.Table
) -> tuple[str, str]:
    """Write the page of the tables, which are written already; the table of linked files and the headline as text."""
    from mlgo.report.headline_page import sentences
    from mlgo.report.inputs import flatten, input_hashes  # here, since the page loads jinja2
    from mlgo.report.policy_page import compare_policy, known_gains, render_policy_page

    names = ("results.parquet", "shipped.parquet", "search.parquet")
    paths = {name: output / name for name in names if (output / name).exists()}
    measurement = flatten(artifacts.read_provenance(paths["results.parquet"]))
    tried, known = compare_policy(task, values, results, shipped, measurement), known_gains(course, shipped, policy)
    facts = {"SHA-256 of the inputs": input_hashes(paths)}
    write_text(output / "report.html", render_policy_page(tried, policy, known, facts))
    failed = [
        f"{row['program']} under {row['contender']}: not measured, {row['message']}" for row in tried.ships.failures
    ]
    if not shipped.num_rows:
        unknown = "no linked file is known, so what ships was not measured"
        return f"{unknown}; the page has the modules", unknown
    lines = sentences(tried.truth, values.value("compile.optimization")) if tried.truth else []
    shares = [tried.ships.shares.aligned()] if tried.ships.parts else []
    return "\n".join([*lines, tried.ships.table.aligned(), *shares, *failed]), tried.ships.headline
