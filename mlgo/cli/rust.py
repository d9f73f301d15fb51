"""`mlgo cargo` and `mlgo rustc`: Rust, compiled under a policy by the rustc that is there."""

import argparse
import json
import os
import shutil
import sys
import sysconfig
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlgo.base.files import read_input
from mlgo.base.scratch import scratch_directory
from mlgo.cli import cc
from mlgo.cli.program import add_command
from mlgo.errors import ToolchainError
from mlgo.host.process import run_for_user

_HELP = {
    "cargo": """Run cargo; what it compiles for size is compiled under a policy.

mlgo cargo build --release
mlgo cargo --policy $PWD/data/policies/marginal-s0 build --release
mlgo cargo --plain build --release      one unit a crate, without the policy, to compare with
mlgo cargo --log crates.jsonl build --release
RUSTC_WRAPPER=mlgo-rustc CARGO_CACHE_RUSTC_INFO=0 cargo build --release       the same
""",
    "rustc": """Compile a crate under a policy.

mlgo rustc -- rustc -C opt-level=z --crate-type bin main.rs
mlgo rustc --log crates.jsonl -- rustc +nightly -C opt-level=z main.rs
""",
}
WRAPPER = "mlgo-rustc"
"""The program that cargo starts instead of rustc; the environment has its options."""

OTHER_LEVEL = "it compiles at another level than the policy was trained for"
"""What a driver says of a crate that is not compiled for size."""


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "rustc", cc.run, text=_HELP["rustc"])
    cc.add_policy_options(parser, "a rustc, and what it takes")
    parser.set_defaults(tool="rustc", compiler="", languages=None, ships=None, whole=False, thin=False, cold=False)
    parser = add_command(commands, "cargo", run, text=_HELP["cargo"])
    cc.add_policy_options(parser, "what cargo takes", nargs=argparse.REMAINDER, metavar="ARGUMENT")


def run(args: argparse.Namespace) -> int:
    """Run cargo with the wrapper, then say how many crates were compiled under the policy, and why others were not."""
    if shutil.which("cargo") is None:
        raise ToolchainError("cargo is not installed here, or PATH does not name its folder")
    if os.environ.get("RUSTC_WRAPPER"):
        raise ToolchainError("RUSTC_WRAPPER is set, and cargo takes one wrapper: unset it; sccache knows of no policy")
    with scratch_directory() as folder:
        log = Path(args.log or folder / "crates.jsonl").absolute()
        start = log.stat().st_size if log.exists() else 0
        status = run_for_user(["cargo", *args.arguments], {**os.environ, **variables(args, log)})
        said = read_input(log)[start:].decode(errors="replace") if log.exists() else ""
    if said:
        print(f"mlgo cargo: {summary([json.loads(line) for line in said.splitlines()])}", file=sys.stderr)
    return status


def variables(args: argparse.Namespace, log: Path) -> dict[str, str]:
    """The environment in which cargo calls the wrapper, and asks it each time which policy it has."""
    policy = args.policy or os.environ.get("MLGO_POLICY") or ""
    found = {"RUSTC_WRAPPER": str(wrapper()), "CARGO_CACHE_RUSTC_INFO": "0", "MLGO_LOG": str(log)}
    if policy:  # cargo starts the wrapper in the folder of each crate
        found["MLGO_POLICY"] = str(Path(policy).absolute()) if Path(policy).is_dir() else policy
    chosen = {"MLGO_PLAIN": args.plain, "MLGO_ANY_LEVEL": args.any_level}
    return found | {name: "1" for name, is_chosen in chosen.items() if is_chosen}


def wrapper() -> Path:
    """The installed program that cargo starts; ToolchainError if this installation has none."""
    for folder in (Path(sysconfig.get_path("scripts")), Path(__file__).parents[2] / "bin"):
        if (folder / WRAPPER).exists():
            return folder / WRAPPER
    raise ToolchainError(f"{WRAPPER} is missing beside this Python; install the package again")


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """How many crates were compiled under the policy, and why others were not."""
    advised = [record for record in records if record["outcome"] == "advised"]
    parts = [f"{len(advised)} crates under the policy, {sum(record['questions'] for record in advised):,} questions"]
    others = Counter(record["reason"] for record in records if record["outcome"] != "advised")
    parts += [f"{count} not: {reason}" for reason, count in others.most_common()]
    if not advised and OTHER_LEVEL in others and "--plain" not in others:
        parts.append('set opt-level = "z" in [profile.release], or give --any-level')
    return "; ".join(parts)
