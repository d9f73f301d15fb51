"""`mlgo corpus`: what is in a corpus, and whether it is true."""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlgo.capture.verify import Recompiler
from mlgo.cli.options import add_command, add_config_options, examples_of, positive, read_config, say
from mlgo.compiler.toolchain import find_toolchain
from mlgo.core.artifacts import OBJECTS_OF_BUILD, PROJECT, VERIFIED, provenance, read_table, table_rows, write_rows
from mlgo.core.errors import CorpusError
from mlgo.core.scratch import scratch_directory
from mlgo.core.work import shared_folder
from mlgo.corpus.store import CAPTURED_NAME, OBJECTS_NAME, VERIFIED_NAME
from mlgo.execution.cores import usable_cores

_EXAMPLES = {
    "verify": """
        mlgo corpus verify --project captured/zlib
        mlgo corpus verify --project captured/zlib --least 0.95 --json
        """
}


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = add_command(commands, "corpus", "check what was captured", examples_of(_EXAMPLES))
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    verify = add_command(
        actions,
        "verify",
        "compile a captured project's modules as its build did, and compare with the build's own objects",
        _EXAMPLES["verify"],
    )
    verify.add_argument("--project", type=Path, required=True, metavar="DIR", help="what mlgo capture has written")
    verify.add_argument("--least", type=float, default=0.0, metavar="SHARE", help="fail if less is reproduced")
    verify.add_argument(
        "--jobs", type=positive, default=usable_cores(), help="compiles at a time (default: %(default)s)"
    )
    verify.add_argument("--json", action="store_true", help="print JSON")
    add_config_options(verify)
    verify.set_defaults(run=run_verify)


def run_verify(args: argparse.Namespace) -> int:
    """Compile, compare, write the table, print what was reproduced; 1 if that is less than it must be."""
    config = read_config(args)
    toolchain = find_toolchain(config.toolchain, config.target)
    modules = {
        row["module"]
        for row in table_rows(args.project / CAPTURED_NAME, PROJECT, ["module", "skip_reason"])
        if not row["skip_reason"]
    }
    objects = read_table(args.project / OBJECTS_NAME, OBJECTS_OF_BUILD).to_pylist()
    chosen = [row for row in objects if row["module"] in modules]
    if not chosen:
        raise CorpusError(f"{args.project} holds no module; every source of the project was left out")
    with scratch_directory() as folder, tqdm(total=len(chosen), desc="compiled", disable=None) as bar:
        cache = shared_folder(Path("data/work")) / "zig-cache"
        recompiler = Recompiler(toolchain, config.compile.compile_timeout_s, cache, folder, args.jobs)
        rows = list(recompiler.verify(chosen, bar.update))
    origin = provenance(compiler=toolchain.name, compiler_sha256=toolchain.sha256)
    write_rows(args.project / VERIFIED_NAME, rows, VERIFIED, origin)
    summary = summary_of(rows)
    say(args, summary, _text(summary, rows))
    return int(summary["reproduced"] < args.least * summary["modules"])


def summary_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many modules were reproduced, and how many were not for each kind of reason."""
    compared = [row for row in rows if row["recompiled_bytes"] is not None]
    return {
        "modules": len(rows),
        "reproduced": sum(not row["reason"] for row in rows),
        "same_contents": sum(row["same_contents"] for row in rows),
        "reasons": dict(Counter(row["reason"] for row in rows if row["reason"]).most_common()),
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
    return "\n".join(lines)
