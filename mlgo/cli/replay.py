"""`mlgo replay`: look at, check, prune, export and merge what compiles have shown; do a logged compile again."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import provenance, write_table
from mlgo.base.config import Config, changed_settings
from mlgo.base.registry import PROBLEMS
from mlgo.base.seeding import sample
from mlgo.cli.compile_module import add_episode_options, run_episode
from mlgo.cli.leftovers import add_folder_options, delete_leftovers, find_leftovers
from mlgo.cli.program import CONFIG, SETTINGS, add_actions, add_options, not_negative_float, positive, read_config, say
from mlgo.errors import ArtifactError, CompileError, ConfigError, PolicyError, ReplayMismatch
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import RecordedAdvisor, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.jit.cache import CompileCache, caches, figures, outcomes_table
from mlgo.jit.compiler import SuperPmiSpec
from mlgo.objects.measures import MEASURES
from mlgo.pool.module_trees import ModuleTrees, visits_of
from mlgo.pool.records import prune
from mlgo.pool.response_tree import ModuleLeaf
from mlgo.pool.tree_store import ReplayStore, stores
from mlgo.pool.tree_tables import compiles_table


def add_parser(commands: Any) -> None:
    what = "What compiles have shown: sizes, checks, pruning; do one again."
    add_action = add_actions(commands, "replay", what, title="actions")
    shared = argparse.ArgumentParser(add_help=False)
    add_folder_options(shared)
    add_options(add_action("stats", _stats, shared), "--json")
    verify = add_action("verify", _verify, shared)
    verify.add_argument("--count", type=positive, default=20, help="results (default: %(default)s)")
    verify.add_argument("--seed", type=int, default=0, help="chooses them")
    add_options(verify, *CONFIG)
    less = add_action("prune", _prune, shared)
    less.add_argument("--max-gb", type=not_negative_float, help="what trees may stay, in 10^9 bytes")
    less.add_argument(
        "--old", action="store_true", help="delete what older settings left (see mlgo doctor); end runs first"
    )
    less.add_argument("--dry-run", action="store_true", help="with --old: list it, delete nothing")
    export = add_action("export", _export, shared)
    export.add_argument("output", type=Path, help="one file; of several compilers or settings, one for each")
    merge = add_action("merge", _merge, shared)
    merge.add_argument("folder", type=Path, help="its data/work/replay, or a copy of that; it is only read")
    add_episode_options(add_action("episode", run_episode))


def _stats(args: argparse.Namespace) -> None:
    """Sizes of the response trees.

    mlgo replay stats
    """
    rows = []
    for store in stores(args.work / "replay"):
        modules = contexts = nodes = compiles = size = 0
        for sha256, trees in _trees_of(store):
            modules, contexts = modules + 1, contexts + len(trees.by_context)
            nodes, compiles = nodes + trees.num_nodes, compiles + trees.num_leaves
            size += store.file_bytes(sha256)
        rows.append(
            {
                "key": store.key.folder,
                "task": store.key.task,
                "optimization": store.key.optimization,
                "size_stop_factor": store.key.size_stop_factor,
                "modules": modules,
                "contexts": contexts,
                "compiles": compiles,
                "nodes": nodes,
                "bytes": size,
                "bytes_per_node": round(size / nodes, 1) if nodes else None,
            }
        )
    for cache in caches(args.work / "replay"):
        units = cache.units()
        outcomes = sum(len(cache.outcomes(unit)) for unit in units)
        rows.append({"compiler": cache.name, "units": len(units), "compiles": outcomes, "bytes": cache.num_bytes()})
    say(args, rows, "\n\n".join("\n".join(f"{k:<17} {v}" for k, v in row.items()) for row in rows) or "no trees yet")


def _verify(args: argparse.Namespace) -> int:
    """Compile a sample of known results again.

    mlgo replay verify --count 50          compile a sample of known results again and compare
    mlgo replay verify --preset jit.yaml                    the same for outcomes under choices
    """
    config, trees, choices = read_config(args), stores(args.work / "replay"), caches(args.work / "replay")
    equal = True
    if trees or not choices:
        equal &= _count(_wrong_results(args, config, trees), "results are as the trees say")
    if choices and PROBLEMS.get(config.task).kind != "choices":
        print(f"outcomes under choices: not of task {config.task}, left out; name the preset of theirs")
    elif choices:
        equal &= _count(_wrong_outcomes(args, config, choices), "outcomes under choices are as the cache says")
    return int(not equal)


def _count(differences: Iterator[str], what: str) -> bool:
    """Print differences as they are found, empty for a result that is the same again; whether there are none."""
    checked = wrong = 0
    for difference in differences:
        checked, wrong = checked + 1, wrong + bool(difference)
        if difference:
            print(difference)
    print(f"{checked - wrong} of {checked} {what}")
    return not wrong


def _wrong_results(args: argparse.Namespace, config: Config, found: Sequence[ReplayStore]) -> Iterator[str]:
    """For some results of each store that is of this compiler: what is different when compiled again."""
    toolchain = find_toolchain(config.toolchain, config.target)
    for store in found:
        if (store.key.compiler_sha256, store.key.target) != (toolchain.sha256, toolchain.target):
            print(f"{store.key.folder}: made by another compiler, left out")
            continue
        results = [
            (sha256, index)
            for sha256, trees in _trees_of(store)
            for index in range(max(len(tree.leaves) for tree in trees.by_context))
        ]
        here = [one for one in results if (args.work / "bitcode" / f"{one[0]}.bc").exists()]
        for sha256, index in sample(here, args.count, args.seed, "replay", "verify"):
            difference = _compile_again(args.work, config, toolchain, store, sha256, index)
            yield difference and f"{sha256[:16]}: {difference}"


def _wrong_outcomes(args: argparse.Namespace, config: Config, found: Sequence[CompileCache]) -> Iterator[str]:
    """The same for some outcomes of the cache that is of this compiler and its settings."""
    spec = SuperPmiSpec.of(config.cse.superpmi)
    mine = CompileCache(args.work / "replay", spec.key())
    for cache in found:
        if cache.folder != mine.folder:
            print(f"{cache.name}: made by another compiler or under other settings, left out")
            continue
        known = [
            (unit, decisions, outcome) for unit in cache.units() for decisions, outcome in cache.outcomes(unit).items()
        ]
        with spec.open() as compiler:
            for unit, decisions, outcome in sample(known, args.count, args.seed, "replay", "verify"):
                compiler.forget()
                again, before = figures(compiler.outcome(unit, decisions)), figures(outcome)
                same = again == before
                yield "" if same else f"{unit} under {decisions}: the compiler gives {again}, known is {before}"


def _compile_again(
    work: Path, config: Config, toolchain: Toolchain, store: ReplayStore, sha256: str, index: int
) -> str:
    """Give known answers to the compiler again; say what differs, nothing if all agrees."""
    trees = store.load(sha256)
    assert trees is not None
    settings = changed_settings(config.compile, asdict(store.key), f"the key of {store.key.folder}")
    known = [next(itertools.islice(tree.compiles(), index % len(tree.leaves), None)) for tree in trees.by_context]
    path = trees.path_of(known)
    advisor = RecordedAdvisor(b"".join(one.answers for one in path.contexts))
    module = work / "bitcode" / f"{sha256}.bc"
    try:
        result = compile_under_advice(toolchain, get_task(store.key.task), module, advisor, settings, known=path)
    except (CompileError, PolicyError, ReplayMismatch) as error:
        return str(error)
    visits = visits_of(result, path)
    if visits is None:
        return "costs cannot be told apart by function"
    for visit, walk in zip(visits, known, strict=True):
        found = visit.leaf
        if isinstance(found, ModuleLeaf) and isinstance(walk.leaf, ModuleLeaf):
            shares = {name: walk.leaf.scores[name] for name, measure in MEASURES.items() if measure.needs_copies}
            found = replace(found, scores={**found.scores, **shares})  # the object's hash vouches for them
        if found != walk.leaf:
            return f"the compiler gives {found}, the tree says {walk.leaf}"
    return ""


def _prune(args: argparse.Namespace) -> None:
    """Delete unused trees, or what older settings left.

    mlgo replay prune --max-gb 2           delete the least recently used trees beyond 2 GB
    mlgo replay prune --old --dry-run      list what older settings left: checkpoints, trees, bitcode, downloads
    """
    if args.max_gb is None and not args.old:
        raise ConfigError("say what to delete: --max-gb N or --old")
    if args.dry_run and args.max_gb is not None:
        raise ConfigError("--dry-run lists what --old would delete; leave --max-gb out")
    found = find_leftovers(args.work, args.data, SETTINGS) if args.old else []
    if args.old and not found:
        print("older settings left nothing")
    for one in found:
        if args.dry_run:
            print("\n".join([f"{one}:", *(f"  {path}" for path in one.paths)]))
        else:
            delete_leftovers(one)
            print(f"deleted {one}")
    if args.max_gb is not None:
        deleted = prune(args.work / "replay", int(args.max_gb * 1e9))
        print(f"{len(deleted)} files deleted")


def _export(args: argparse.Namespace) -> None:
    """Write all known compiles as Parquet.

    mlgo replay export known.parquet       every known compile, question by question, for offline learning;
                                           under choices a row for each outcome
    """
    found, choices = stores(args.work / "replay"), caches(args.work / "replay")

    def output(key: str) -> Path:
        return args.output.with_stem(f"{args.output.stem}-{key}") if len(found) + len(choices) > 1 else args.output

    for store in found:
        tables = [compiles_table(*one) for one in _trees_of(store)]
        if not tables:
            continue
        table = pa.concat_tables(tables)
        path = output(store.key.folder)
        write_table(path, table, table.schema, provenance(trees=asdict(store.key)))
        print(f"{path}: {table.num_rows} questions of {len(pc.unique(table['compile']))} compiles")
    for cache in choices:
        assert cache.folder is not None
        path = output(cache.folder.name)
        outcomes, schema = outcomes_table(cache)
        write_table(path, outcomes, schema, provenance(choices=cache.key))
        print(f"{path}: {outcomes.num_rows} outcomes of {len(pc.unique(outcomes['content']))} units")
    if not found and not choices:
        raise ArtifactError("there are no trees yet; train a policy first")


def _merge(args: argparse.Namespace) -> None:
    """Add the response trees of another working copy.

    mlgo replay merge /srv/replay          add the trees of another data/work/replay
    """
    found, choices = stores(args.folder), caches(args.folder)
    if not found and not choices:
        raise ArtifactError(f"{args.folder} holds no response trees of this version; name another data/work/replay")
    for store in found:
        here = ReplayStore(args.work / "replay", store.key)
        modules = results = new = 0
        for sha256, trees in _trees_of(store):
            try:
                new += here.merge(sha256, trees)
            except ReplayMismatch as error:
                raise ReplayMismatch(
                    f"{args.folder} contradicts {args.work}/replay: {error}; try mlgo replay verify"
                ) from error
            modules, results = modules + 1, results + trees.num_leaves
        print(f"{store.key.folder}: {new} of {results} results of {modules} modules were new")
    for cache in choices:
        mine = CompileCache(args.work / "replay", cache.key)
        known = {unit: cache.outcomes(unit) for unit in cache.units()}
        new = sum(mine.add(unit, outcomes) for unit, outcomes in known.items())
        print(f"{cache.name}: {new} of {sum(map(len, known.values()))} outcomes of {len(known)} units were new")


def _trees_of(store: ReplayStore) -> Iterator[tuple[str, ModuleTrees]]:
    for sha256 in store.modules():
        if (trees := store.load(sha256)) is not None:
            yield sha256, trees
