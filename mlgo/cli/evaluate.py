"""`mlgo evaluate`: a finished policy on a project of one's own."""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

from mlgo.cli.options import add_command, add_config_options, positive, read_config, say
from mlgo.compiler.linked import LinkedFile
from mlgo.compiler.toolchain import find_linker, find_toolchain
from mlgo.core.artifacts import (
    PROGRAMS_OF_PROJECT,
    RESULTS,
    SHIPPED_SIZES,
    provenance,
    read_table,
    write_rows,
)
from mlgo.core.files import file_sha256
from mlgo.core.names import PolicyName
from mlgo.core.scratch import scratch_directory
from mlgo.core.work import shared_folder
from mlgo.corpus.store import CAPTURED_NAME, PROGRAMS_NAME, unpack_project
from mlgo.execution.cores import usable_cores
from mlgo.policy.stored import load_policy
from mlgo.problems.llvm.task import HEURISTIC
from mlgo.rollout import CompileHost
from mlgo.rollout.linking import Linking
from mlgo.rollout.shipped import evaluate_project

_EXAMPLES = """
mlgo evaluate --policy data/policies/marginal-s0 --project captured/zlib
mlgo evaluate --policy data/policies/marginal-s0 --project captured/zlib --json
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = add_command(commands, "evaluate", "compile and link a captured project under a policy", _EXAMPLES)
    parser.add_argument("--policy", type=Path, required=True, metavar="DIR", help="folder of the policy")
    parser.add_argument("--project", type=Path, required=True, metavar="DIR", help="what mlgo capture has written")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="for the tables (default: evaluation/ in the project)"
    )
    parser.add_argument("--workers", type=positive, default=usable_cores(), help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Evaluate, write both tables, print sizes."""
    config = read_config(args)
    toolchain, policy = find_toolchain(config.toolchain, config.target), load_policy(args.policy)
    name = PolicyName.of(args.policy.resolve().name)
    modules, bitcode = unpack_project(args.project / CAPTURED_NAME, shared_folder(Path("data/work")) / "bitcode")
    files = [
        LinkedFile.of_row(row) for row in read_table(args.project / PROGRAMS_NAME, PROGRAMS_OF_PROJECT).to_pylist()
    ]
    linking = Linking(find_linker(), config.compile.compile_timeout_s, args.workers)
    with (
        scratch_directory() as folder,
        CompileHost(toolchain, policy.task, config.compile, args.workers, workers=config.workers) as host,
    ):
        found = evaluate_project(
            host, policy, name, modules, bitcode, files, linking, folder, config.evaluate.max_failed_share
        )
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=config.compile.model_dump(),
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        project_sha256=file_sha256(args.project / CAPTURED_NAME),
        linker_sha256=file_sha256(linking.linker),
    )
    output = (args.output or args.project / "evaluation") / str(name)
    write_rows(output / "results.parquet", found.results, RESULTS, origin)
    write_rows(output / "shipped.parquet", found.sizes, SHIPPED_SIZES, origin)
    say(args, {"modules": len(modules), "shipped": found.sizes}, _table(found.sizes, str(name), len(modules), output))


def _table(rows: list[dict[str, Any]], policy: str, num_modules: int, output: Path) -> str:
    """Linked sizes under both, one line for each file."""
    pairs: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        if not row["folded"]:
            pairs[row["program"]][row["contender"]] = row
    lines = [f"{num_modules} modules, {len(pairs)} linked files; bytes under the heuristic and under {policy}"]
    for program, both in pairs.items():
        plain, advised = both[HEURISTIC], both[policy]
        if plain["failure"] or advised["failure"]:
            lines.append(f"{program}: not measured, {plain['message'] or advised['message']}")
            continue
        gains = [
            f"{part} {_gain(plain[part], advised[part])}" for part in ("text", "read_only", "unwind", "compressed")
        ]
        lines.append(
            f"{program}: {plain['total']:,} to {advised['total']:,}, {_gain(plain['total'], advised['total'])} "
            f"({', '.join(gains)})"
        )
    return "\n".join([*lines, f"tables: {output}"])


def _gain(before: int, after: int) -> str:
    return f"{100.0 * (after - before) / before:+.2f} %" if before else "-"
