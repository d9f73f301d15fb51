"""`mlgo corpus`: what is in a corpus, and whether it is true."""

import argparse
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from mlgo.base.artifacts import OBJECTS_OF_BUILD, PROJECT, VERIFIED, provenance, read_provenance, read_table, write_rows
from mlgo.base.files import beneath, joined, write_atomically
from mlgo.base.names import PolicyName
from mlgo.base.output import claim
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import CONFIG, add_actions, add_options, configured, positive, say
from mlgo.corpus import store
from mlgo.corpus.assemble import SPLITS
from mlgo.corpus.capture.builds import Relink, read_build
from mlgo.corpus.capture.commands import steps_of
from mlgo.corpus.capture.invocations import RECORDS, named_tools, read_invocations
from mlgo.corpus.capture.llvm_corpora import export_corpus
from mlgo.corpus.capture.objects import Recompiler
from mlgo.corpus.seen import KINDS, SeenBodies, project_bodies, seen_share, shares
from mlgo.errors import ConfigError, CorpusError
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.shipped import object_paths
from mlgo.evaluate.targets import corpus_projects, one_project
from mlgo.host.frontend import FrontEnd
from mlgo.policy.stored import load_stored
from mlgo.pool.cores import usable_cores
from mlgo.report.pages import Table, count_column, text_column


def add_parser(commands: Any) -> None:
    add_action = add_actions(commands, "corpus", "Check what was captured, or write it for other tools.")
    verify = add_action("verify", run_verify)
    verify.add_argument("--project", type=Path, required=True, metavar="DIR", help="what mlgo capture has written")
    verify.add_argument("--least", type=float, default=0.0, metavar="SHARE", help="fail if less is reproduced")
    verify.add_argument(
        "--jobs", type=positive, default=usable_cores(), help="compiles at a time (default: %(default)s)"
    )
    add_options(verify, "--json", *CONFIG)
    export = add_action("export", run_export)
    source = export.add_mutually_exclusive_group(required=True)
    source.add_argument("--project", type=Path, metavar="DIR", help="what mlgo capture has written")
    source.add_argument("--corpus", type=Path, metavar="DIR", help="folder with modules.parquet, such as data/corpus")
    export.add_argument("--split", choices=SPLITS, help="only this split of --corpus")
    export.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="a new folder")
    add_options(export, "--json", *CONFIG)
    relink = add_action("relink", run_relink)
    relink.add_argument("--project", type=Path, required=True, metavar="DIR", help="what mlgo capture has written")
    relink.add_argument("--policy", type=Path, required=True, metavar="DIR", help="folder of the policy")
    relink.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="for the linked files")
    help_text = "programs that may link, as the record of the build names them (also: CC, CXX, LD)"
    relink.add_argument("--tools", nargs="+", default=[], metavar="PROGRAM", help=help_text)
    relink.add_argument("--workers", type=positive, default=usable_cores(), help="(default: %(default)s)")
    add_options(relink, "--json", *CONFIG)
    seen = add_action("seen", run_seen)
    help_text = "what mlgo capture has written, or a table projects/NAME.parquet; may be repeated"
    seen.add_argument("--project", type=Path, action="append", required=True, metavar="DIR", help=help_text)
    seen.add_argument("--corpus", type=Path, metavar="DIR", help="corpus whose projects of split train are trained on")
    seen.add_argument("--against", type=Path, action="append", default=[], metavar="DIR", help="a project trained on")
    seen.add_argument("--most", type=float, default=1.0, metavar="SHARE", help="fail if more of its own code was seen")
    seen.add_argument("--list", type=int, default=0, metavar="N", help="print the N longest functions that were seen")
    seen.add_argument("--jobs", type=positive, default=usable_cores(), help="(default: %(default)s)")
    add_options(seen, "--json", *CONFIG)


def run_verify(args: argparse.Namespace) -> int:
    """Compile a captured project's modules as its build did, and compare with the build's own objects.

    mlgo corpus verify --project captured/zlib
    mlgo corpus verify --project captured/zlib --least 0.95 --json
    """
    config, toolchain = configured(args)
    captured = read_table(args.project / store.CAPTURED_NAME, PROJECT, ["module"], [("skip_reason", "==", "")])
    modules = set(captured["module"].to_pylist())
    objects = read_table(args.project / store.OBJECTS_NAME, OBJECTS_OF_BUILD).to_pylist()
    chosen = [row for row in objects if row["module"] in modules]
    if modules and not objects:
        raise CorpusError(f"{args.project} was taken from bitcode, so there is no object of a build to compare with")
    if not chosen:
        raise CorpusError(f"{args.project} holds no module; every source of the project was left out")
    recompiler = Recompiler(toolchain, config.compile.compile_timeout_s, shared_folder() / "zig-cache", args.jobs)
    rows = list(tqdm(recompiler.verify(chosen), "compiled", len(chosen), disable=None))
    origin = provenance(compiler=toolchain.name, compiler_sha256=toolchain.sha256)
    write_rows(args.project / store.VERIFIED_NAME, rows, VERIFIED, origin)
    summary = summary_of(rows)
    say(args, summary, _text(summary, rows))
    return int(summary["reproduced"] < args.least * summary["modules"])


def run_export(args: argparse.Namespace) -> None:
    """Write modules as a corpus of LLVM's tools and of ml-compiler-opt.

    mlgo corpus export --project captured/zlib -o exported/zlib
    mlgo corpus export --corpus data/corpus --split train -o exported/train
    """
    if args.split and not args.corpus:
        raise ConfigError("--split is for --corpus; a captured project has no splits")
    config, toolchain = configured(args)
    modules = tqdm(_unpacked(args), "written", unit="module", disable=None)
    count = export_corpus(args.output, modules, toolchain, config.compile)
    say(args, {"modules": count}, f"{count} modules in {args.output}")


def _unpacked(args: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Modules by name, and their files; unpacked with the first that is asked for."""
    bitcode = shared_folder() / "bitcode"
    if args.corpus:
        modules = store.load_modules(args.corpus, splits=[args.split] if args.split else None)
        files = store.unpack_bitcode(args.corpus, modules, bitcode)
    else:
        modules, files = store.unpack_project(args.project / store.CAPTURED_NAME, bitcode)
    yield from ((one.key if args.corpus else one.name, files[one.key]) for one in modules)


def run_relink(args: argparse.Namespace) -> None:
    """Compile a captured project under a policy, and link it again as its build did.

    CC=gcc mlgo corpus relink --project captured/zlib --policy data/policies/marginal-s0 -o relinked
    mlgo corpus relink --project captured/app --policy data/policies/marginal-s0 --tools /usr/bin/g++ -o relinked
    """
    (config, toolchain), name = configured(args), PolicyName.of(args.policy.resolve().name)
    policy = load_stored(args.policy)
    shared = shared_folder()
    subject = one_project(args.project, shared / "bitcode")
    subject.check(policy.task, config.compile.optimization)
    origin = read_provenance(args.project / store.OBJECTS_NAME)
    root = origin.get("root")
    if not root or not (args.project / RECORDS).is_dir():
        raise CorpusError(f"{args.project} was not captured from a build that ran here; there is no link to do again")
    calls = read_invocations(args.project / RECORDS)
    moved = origin["moved"] if isinstance(origin.get("moved"), dict) else {}
    build = read_build(chain.from_iterable(map(steps_of, calls)), Path(root), moved=moved)
    known = {program.row["program"] for program in subject.programs}
    build = replace(build, programs=tuple(one for one in build.programs if one.name in known))
    Relink.check(calls, build, named_tools(args.tools))
    claim(args.output)
    with (
        scratch_directory() as folder,
        CompileHost(toolchain, policy.task, config.compile, args.workers, workers=config.workers) as host,
    ):
        bitcode, places = subject.unpack(), object_paths(subject.modules, folder)
        host.compile_all(
            [CompileJob(key, bitcode[key], policy, object_path=path) for key, path in places.items()], str(name)
        )
        objects = {one.name: places[one.key] for one in subject.modules if places[one.key].exists()}
        again = Relink(objects, folder / "linked", (shared / "zig-cache").absolute(), config.compile.compile_timeout_s)
        files = again.run(calls, build)
        targets = [joined(args.output, beneath(program) or "program") for program in files]
        for file, target in zip(files.values(), targets, strict=True):
            write_atomically(target, partial(shutil.copy2, file))
    written = list(map(str, targets))
    text = "\n".join([f"{len(objects)} modules compiled under {name}", *written])
    say(args, {"modules": len(objects), "programs": written}, text)


def run_seen(args: argparse.Namespace) -> int:
    """Tell how much of a project's code occurs in what a policy is trained on.

    mlgo corpus seen --project captured/zlib --corpus data/corpus
    mlgo corpus seen --project captured/zlib --project captured/ninja --against captured/app --list 10
    """
    if args.corpus is None and not args.against:
        raise ConfigError("name what is trained on: --corpus DIR, or --against DIR for single projects")
    (config, toolchain), shared = configured(args), shared_folder()
    front_end = FrontEnd(toolchain, config.compile, shared / "zig-cache")
    unpacked: list[tuple[Sequence[store.Module], Mapping[str, Path]]] = [
        store.unpack_project(store.table_of(path), shared / "bitcode") for path in [*args.project, *args.against]
    ]
    if args.corpus is not None:
        trained = corpus_projects(args.corpus, shared / "bitcode", "train", None)
        unpacked += [
            (one.modules, store.unpack_bitcode(args.corpus, one.modules, shared / "bitcode")) for one in trained
        ]
    tables = [
        project_bodies(front_end.print_ir, modules, files, shared / "bodies", args.jobs)
        for modules, files in tqdm(unpacked, "read", unit="project", disable=None)
    ]
    names = [modules[0].project for modules, _ in unpacked]
    number = len(args.project)
    seen = SeenBodies.of(pa.concat_tables(tables[number:]))
    found = []
    for name, bodies in zip(names[:number], tables[:number], strict=True):
        kinds = seen.kinds(bodies)
        instructions = shares(bodies, kinds)
        share, longest = seen_share(instructions), seen.longest(bodies, kinds, args.list)
        found.append({"project": name, "instructions": instructions, "seen": share, "longest": longest})
    say(args, {"projects": found, "trained_on": names[number:]}, _seen_text(found))
    return int(any(one["seen"] > args.most for one in found))


def _seen_text(found: list[dict[str, Any]]) -> str:
    table = Table(
        [
            text_column("project", lambda row: row["project"]),
            count_column("instructions", lambda row: sum(row["instructions"].values())),
            *(text_column(kind, partial(_percent, kind=kind)) for kind in KINDS),
            text_column("seen of its own code", lambda row: f"{100.0 * row['seen']:.2f} %"),
        ],
        found,
    )
    longest = [
        f"{row['project']}: {one['function']} ({one['instructions']:,} instructions, {one['kind']}) is {one['like']}"
        for row in found
        for one in row["longest"]
    ]
    return "\n".join([table.aligned(), *longest])


def _percent(row: Mapping[str, Any], kind: str) -> str:
    parts = row["instructions"]
    return f"{100.0 * parts[kind] / max(sum(parts.values()), 1):.2f} %"


def summary_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many modules were reproduced, and how many were not for each kind of reason."""
    compared = [row for row in rows if row["recompiled_bytes"] is not None]
    return {
        "modules": len(rows),
        "reproduced": sum(not row["reason"] for row in rows),
        "same_contents": sum(row["same_contents"] for row in rows),
        "reasons": dict(Counter(row["reason"] for row in rows if row["reason"]).most_common()),
        "other_profile": sum(bool(row["other_profile"]) for row in rows),
        "text_bytes": sum(row["text_bytes"] for row in compared),
        "recompiled_bytes": sum(row["recompiled_bytes"] for row in compared),
    }


def _text(summary: Mapping[str, Any], rows: list[dict[str, Any]]) -> str:
    modules, reproduced, same = (summary[name] for name in ("modules", "reproduced", "same_contents"))
    built, recompiled = summary["text_bytes"], summary["recompiled_bytes"]
    lines = [
        f"{reproduced} of {modules} modules ({100.0 * reproduced / modules:.1f} %) have the text size of the build's "
        f"own object; in {same} all code and data is the same, byte for byte",
        f"all that could be compared: {built:,} bytes in the build, {recompiled:,} here",
    ]
    for reason, count in summary["reasons"].items():
        first = next(row for row in rows if row["reason"] == reason)
        lines.append(f"{count} not reproduced, the first is {first['module']}: {first['message']}")
    if summary["other_profile"]:
        first = next(row for row in rows if row["other_profile"])
        count = f"{summary['other_profile']} with a profile of other sources, as LLVM says"
        lines.append(f"{count}, the first is {first['module']}: {first['other_profile']}")
    return "\n".join(lines)
