"""Build programs in Rust as people ship them, without and under a policy: how large they are, and how long it takes.

Programs are recipes of crates. Files are stripped. Each program is run in all forms on the same input, and must print
the same. Seconds are of processors. What was built before is not built again.

Example:
    python scripts/rust_builds.py --output rust-builds --policy data/released/marginal-s0 config/corpora/crates/bkt.yaml
    python scripts/rust_builds.py --output rust-builds --policy P --form z --form z,policy config/corpora/crates/*.yaml
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import content_sha256, read_json, write_json
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import positive, run_program
from mlgo.compare.inference import DEFAULT, compare_scores
from mlgo.corpus.capture.crates import CrateBuild
from mlgo.corpus.recipe import Recipe, load_recipe
from mlgo.errors import ConfigError, CorpusError
from mlgo.evaluate.sealed_log import log_if_sealed
from mlgo.host.toolchain import print_of
from mlgo.objects.elf import read_sections, text_size
from mlgo.policy.stored import load_policy
from mlgo.report.pages import Table, count_column, gain_column, text_column

_MLGO = Path(sys.executable).with_name("mlgo")
_PROFILE = "CARGO_PROFILE_RELEASE_"
_POLICY = "policy"
_UNITS = "z,16"  # units of each crate, as cargo has them: no policy is asked
_FORMS: Mapping[str, Mapping[str, str]] = {
    _UNITS: {"CODEGEN_UNITS": "16"},
    "s": {"OPT_LEVEL": "s"},
    "z": {},
    "z,abort": {"PANIC": "abort"},
    "z,fat": {"LTO": "fat"},
    "z,folded": {},
    "z,fat,abort,folded": {"LTO": "fat", "PANIC": "abort"},
}
"""Variables of cargo's profile, beyond ``opt-level = "z"``, unwinding and one unit; each also with a policy."""


_CHECKS: Mapping[str, Sequence[str]] = {
    "bat": ["--plain", "--color=always", "src/lib.rs"],
    "cbindgen": ["src/lib.rs"],
    "comrak": ["README.md"],
    "diffutils": ["diff", "Cargo.toml", "Cargo.toml.orig"],
    "eza": ["--recurse", "--oneline", "src"],
    "hexyl": ["Cargo.toml"],
    "tokei": ["src"],
}
"""Arguments of a program that is run in the folder of its sources; others are asked for their help."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = [name for form in _FORMS for name in (form, f"{form},{_POLICY}") if name != f"{_UNITS},{_POLICY}"]
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="for results, a file a program")
    parser.add_argument("--policy", type=Path, required=True, metavar="DIR", help="folder of the policy")
    parser.add_argument("--form", choices=forms, action="append", metavar="F", help=f"of {'; '.join(forms)}; all")
    parser.add_argument("--jobs", type=positive, default=2, help="jobs of a build (default: %(default)s)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="to look at the sealed test set; its log keeps it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("recipes", nargs="+", type=Path, metavar="RECIPE")
    args = parser.parse_args()
    recipes = [load_recipe(path) for path in args.recipes]
    if strange := [path for path, recipe in zip(args.recipes, recipes, strict=True) if recipe.crate is None]:
        raise ConfigError(f"{strange[0]} is no recipe of a crate")
    contents = {recipe.name: str(recipe.sha256) for recipe in recipes}
    log_if_sealed(load_policy(args.policy), args.policy, "cargo", contents, args.reason)
    rows = {}
    for recipe in recipes:
        rows[recipe.name] = row = {}
        for form in args.form or forms:
            path = args.output / f"{recipe.name}.{form}.json"
            if not path.exists():
                write_json(path, build(recipe, form, args))
                print(f"{recipe.name}, {form}: done", file=sys.stderr, flush=True)
            row[form] = read_json(path)
    print(json.dumps(rows, indent=2) if args.json else "\n\n".join(one.markdown() for one in tables(rows)))


def build(recipe: Recipe, form: str, args: argparse.Namespace) -> dict[str, Any]:
    """Build a program in a form; what came out, or why nothing did."""
    assert recipe.crate is not None
    parts = form.split(",")
    under_policy = _POLICY in parts
    profile = _FORMS[form.removesuffix(f",{_POLICY}")]
    vendored = Path(recipe.crate.sources or shared_folder() / "crates").absolute()
    crate = recipe.crate.model_copy(update={"panic": "unwind", "opt_level": "z"})
    with scratch_directory() as folder:
        one = CrateBuild(recipe.name, str(recipe.version), crate, vendored, folder)
        environment = one.environment(args.jobs) | {f"{_PROFILE}STRIP": "true"}
        environment |= {f"{_PROFILE}{name}": value for name, value in profile.items()}
        if "folded" in parts:
            environment["CARGO_ENCODED_RUSTFLAGS"] += "".join(f"\x1f-Clink-arg={word}" for word in _folding())
        cargo = [str(_MLGO), "cargo", f"--policy={args.policy.absolute()}"] if under_policy else ["cargo"]
        before = _processor_seconds()
        try:
            installed = one.install(environment, cargo)
        except CorpusError as error:
            return {"failed": str(error)}
        seconds = _processor_seconds() - before
        files = sorted((installed / "bin").iterdir())
        return {
            "stripped": sum(path.stat().st_size for path in files),
            "code": sum(text_size(read_sections(path.read_bytes())) for path in files),
            "seconds": round(seconds, 1),
            "printed": content_sha256([_printed(path, vendored / f"{recipe.name}-{recipe.version}") for path in files]),
        }


def _folding() -> list[str]:
    """Words for the linker that rustc brings, to fold identical code."""
    sysroot = Path(print_of(["rustc", "--print", "sysroot"]).strip())
    (tools,) = sysroot.glob("lib/rustlib/*/bin/gcc-ld")
    return [f"-B{tools}", "-fuse-ld=lld", "-Wl,--icf=all"]


def _processor_seconds() -> float:
    """What ended children of this process have used."""
    return sum(os.times()[2:4])


def _printed(program: Path, sources: Path) -> str:
    """Exit status and output of a program."""
    command = [str(program), *_CHECKS.get(program.name, ["--help"])]
    try:
        run = subprocess.run(
            command, cwd=sources, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "no end"
    return f"{run.returncode} {run.stdout.decode(errors='replace')}"


def tables(rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Table]:
    """Stripped bytes of each program; and what forms save together of the smaller one of levels s and z."""
    forms = list(dict.fromkeys(form for row in rows.values() for form in row))

    def values(form: str, key: str) -> np.ndarray:
        return np.array([row.get(form, {}).get(key, np.nan) for row in rows.values()], np.float64)

    def cell(form: str) -> Callable[[str], float | None]:
        return lambda program: rows[program].get(form, {}).get("stripped")

    both = np.minimum(values("s", "stripped"), values("z", "stripped"))
    together = []
    for form in forms:
        saved = compare_scores(values(form, "stripped"), both, list(rows), DEFAULT, list(rows))
        slower = compare_scores(values(form, "seconds"), values("z", "seconds"), list(rows), DEFAULT, list(rows))
        same = sum(row.get(form, {}).get("printed") == row.get("z", {}).get("printed") for row in rows.values())
        together.append((form, saved, slower, same))
    return [
        Table([text_column("program", str), *(count_column(form, cell(form)) for form in forms)], list(rows)),
        Table(
            [
                text_column("form", lambda row: row[0]),
                count_column("programs", lambda row: row[1].num_compared),
                gain_column("saved, per program", lambda row: row[1].geomean),
                gain_column("saved, in total", lambda row: row[1].total),
                count_column("over 0.5 % larger", lambda row: row[1].much_larger),
                gain_column("seconds saved of z", lambda row: row[2].geomean),
                count_column("print the same as z", lambda row: row[3]),
            ],
            together,
        ),
    ]


if __name__ == "__main__":
    run_program(main)
