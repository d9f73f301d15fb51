"""Build programs in Rust as people ship them, without and under a policy: how large they are, and how long it takes.

Programs are recipes of crates. Files are stripped. Each program is run in all forms on the same input, and must print
the same; with --tests, so do its own tests. Seconds are of processors, tests not included. What was built before by the
same rustc, under the same policy, is not built again.

Example:
    python scripts/rust_builds.py --output rust-builds --policy data/released/marginal-s0 config/corpora/crates/bkt.yaml
    python scripts/rust_builds.py --output rust-builds --policy P --form z --form z,policy config/corpora/crates/*.yaml
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import content_hash, content_sha256, joined, read_json, write_json
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import positive, run_program
from mlgo.compare.inference import DEFAULT, Comparison, compare_scores
from mlgo.corpus.capture.crates import CrateBuild
from mlgo.corpus.recipe import Recipe, load_recipe
from mlgo.deploy.drivers import DriverChoice, make_driver
from mlgo.errors import ConfigError, CorpusError, ToolchainError
from mlgo.evaluate.sealed_log import log_evaluation, log_if_sealed
from mlgo.host.toolchain import ask_version, find_toolchain, print_of
from mlgo.objects.elf import read_sections, text_size
from mlgo.policy.stored import load_policy, model_sha256
from mlgo.report.pages import PLAIN, Table, count_column, gain_column, text_column

_MLGO = Path(sys.executable).with_name("mlgo")
_PROFILE = "CARGO_PROFILE_RELEASE_"
_POLICY = "policy"
_UNITS = "z,16"  # units of each crate, as cargo has them: no policy is asked
_FORMS: Mapping[str, Mapping[str, str]] = {
    _UNITS: {"CODEGEN_UNITS": "16", "LTO": "false"},
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
    "diffutils": ["diff", "Cargo.toml", "README.md"],
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
    parser.add_argument("--tests", action="store_true", help="run the tests of each program, too")
    parser.add_argument("--reason", default="", metavar="TEXT", help="to look at the sealed test set; its log keeps it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("recipes", nargs="+", type=Path, metavar="RECIPE")
    args = parser.parse_args()
    recipes = {path: load_recipe(path) for path in args.recipes}
    if strange := [path for path, recipe in recipes.items() if recipe.crate is None]:
        raise ConfigError(f"{strange[0]} is no recipe of a crate")
    if len({recipe.name for recipe in recipes.values()}) < len(recipes):
        raise ConfigError("two recipes have the same name")
    forms = args.form or forms
    tools = {"rustc": ask_version(["rustc", "--verbose"]), "policy": model_sha256(args.policy)}
    make_driver(DriverChoice.of(str(args.policy), ""), find_toolchain("auto", f"{platform.machine()}-linux-gnu"))
    of_policy = [form for form in forms if _POLICY in form]
    looked_at = [
        recipe for recipe in recipes.values() if any(known(recipe, form, tools, args) is None for form in of_policy)
    ]
    for recipe in looked_at:
        with scratch_directory() as folder:
            CrateBuild.of(recipe, shared_folder(), folder).check()
    contents = {recipe.name: str(recipe.sha256) for recipe in looked_at}
    looks = log_if_sealed(load_policy(args.policy), args.policy, "cargo", contents, args.reason)
    rows: dict[str, dict[str, Any]] = {}
    for recipe in recipes.values():
        rows[recipe.name] = {}
        for form in forms:
            made_from = {"made_from": _made_from(recipe, form, tools)}
            row = known(recipe, form, tools, args) or build(recipe, form, args) | made_from
            rows[recipe.name][form] = row
            if "failed" in row:  # not kept: it may be of this machine
                print(f"{recipe.name}, {form}: {row['failed']}", file=sys.stderr, flush=True)
            else:
                if "untested" in row:
                    print(f"{recipe.name}, {form}: not tested: {row['untested']}", file=sys.stderr, flush=True)
                write_json(_place(recipe, form, args), row)
    per_program, together = tables(rows)
    for look in looks:
        log_evaluation(replace(look, headline=headline(rows)))
    print(json.dumps(rows, indent=2) if args.json else f"{per_program.markdown()}\n\n{together.markdown()}")


def _place(recipe: Recipe, form: str, args: argparse.Namespace) -> Path:
    return joined(args.output, f"{recipe.name}.{form}.json")


def _made_from(recipe: Recipe, form: str, tools: Mapping[str, str]) -> str:
    used = {name: tool for name, tool in tools.items() if name != "policy" or _POLICY in form}
    return content_hash([recipe.model_dump(), form, used])


def known(recipe: Recipe, form: str, tools: Mapping[str, str], args: argparse.Namespace) -> dict[str, Any] | None:
    """What an earlier run has kept of a program in a form, of the same sources, tools and policy."""
    path = _place(recipe, form, args)
    row = dict(read_json(path)) if path.exists() else {}
    complete = "tests" in row or not args.tests
    return row if row.get("made_from") == _made_from(recipe, form, tools) and complete else None


def build(recipe: Recipe, form: str, args: argparse.Namespace) -> dict[str, Any]:
    """Build a program in a form; what came out, or why nothing did."""
    assert recipe.crate is not None
    parts = form.split(",")
    profile = _FORMS[form.removesuffix(f",{_POLICY}")]
    crate = recipe.crate.model_copy(update={"panic": "unwind", "opt_level": "z"})
    with scratch_directory() as folder:
        one = CrateBuild.of(recipe.model_copy(update={"crate": crate}), shared_folder(), folder)
        environment = one.environment(args.jobs) | {f"{_PROFILE}STRIP": "true"}
        environment |= {f"{_PROFILE}{name}": value for name, value in profile.items()}
        if "folded" in parts:
            environment["CARGO_ENCODED_RUSTFLAGS"] += "".join(f"\x1f-Clink-arg={word}" for word in _folding())
        log, cargo = folder / "crates.jsonl", ["cargo"]
        if _POLICY in parts:
            cargo = [str(_MLGO), "cargo", f"--policy={args.policy.absolute()}", f"--log={log}"]
        try:
            one.check()
            before = _processor_seconds()
            installed = one.install(environment, cargo)
        except CorpusError as error:
            return {"failed": str(error)}
        seconds = _processor_seconds() - before
        if _POLICY in parts and not (advised := _advised(log)):
            return {"failed": "no crate was compiled under the policy"}
        files = sorted((installed / "bin").iterdir())
        sources = one.sources_of(one.name, one.version)
        return {
            "stripped": sum(path.stat().st_size for path in files),
            "code": sum(text_size(read_sections(path.read_bytes())) for path in files),
            "seconds": round(seconds, 1),
            "printed": content_sha256([_printed(path, sources) for path in files]),
            **({"advised": advised} if _POLICY in parts else {}),
            **(_tested(one, environment, cargo) if args.tests else {}),
        }


def _tested(one: CrateBuild, environment: Mapping[str, str], cargo: Sequence[str]) -> dict[str, Any]:
    """How many tests a program has, and a hash of what became of them; why, where they could not be run."""
    try:
        results = one.test(environment, cargo)
    except CorpusError as error:
        return {"tests": 0, "untested": str(error)}
    return {"tests": len(results), "tested": content_sha256(results)} if results else {"tests": 0}


def _advised(log: Path) -> int:
    """How many crates were compiled under the policy."""
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(json.loads(line)["outcome"] == "advised" for line in lines)


def _folding() -> list[str]:
    """Words for the linker that rustc brings, to fold identical code."""
    sysroot = Path(print_of(["rustc", "--print", "sysroot"]).strip())
    tools = sorted(sysroot.glob("lib/rustlib/*/bin/gcc-ld"))
    if not tools:
        raise ToolchainError(f"{sysroot} has no linker that folds identical code; leave these forms out (--form)")
    return [f"-B{tools[0]}", "-fuse-ld=lld", "-Wl,--icf=all"]


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


Rows = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""What `build` returns, by program and form."""


def _values(rows: Rows, form: str, key: str) -> np.ndarray:
    return np.array([row.get(form, {}).get(key, np.nan) for row in rows.values()], np.float64)


def saved(rows: Rows, form: str) -> Comparison:
    """Stripped bytes in a form, compared with the smaller one of levels s and z, program by program."""
    smaller = np.fmin(_values(rows, "s", "stripped"), _values(rows, "z", "stripped"))
    return compare_scores(_values(rows, form, "stripped"), smaller, list(rows), DEFAULT, list(rows))


def headline(rows: Rows) -> str:
    """What the policy saves at level z, in words."""
    found = saved(rows, f"z,{_POLICY}")
    return f"{PLAIN.gain(found.geomean)} of the smaller of s and z, stripped, {found.num_compared} programs"


def tables(rows: Rows) -> tuple[Table, Table]:
    """Stripped bytes of each program; and what forms save of the smaller one of levels s and z."""
    forms = list(dict.fromkeys(form for row in rows.values() for form in row))

    def cell(form: str) -> Callable[[str], float | None]:
        return lambda program: rows[program].get(form, {}).get("stripped")

    together = []
    for form in forms:
        slower = compare_scores(
            _values(rows, form, "seconds"), _values(rows, "z", "seconds"), list(rows), DEFAULT, list(rows)
        )
        alike = [
            sum(one == row.get("z", {}).get(key) for row in rows.values() if (one := row.get(form, {}).get(key)))
            for key in ("printed", "tested")
        ]
        together.append((form, saved(rows, form), slower, *alike))
    return (
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
                count_column("test the same as z", lambda row: row[4]),
            ],
            together,
        ),
    )


if __name__ == "__main__":
    run_program(main)
