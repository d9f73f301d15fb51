"""`mlgo config` and `mlgo init`: look at, check and change the configuration, and write a pipeline that has its own."""

import argparse
import json
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

import mlgo
from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table
from mlgo.base.config import OF_CHECKOUT, json_schema, load_config, merge, read_yaml
from mlgo.base.files import read_input, shown, source_hash, write_json, write_text
from mlgo.base.sealed import check_corpus
from mlgo.cli.program import CONFIG, add_actions, add_command, add_options, read_config
from mlgo.corpus.recipe import Recipe
from mlgo.corpus.store import CAPTURED_NAME, PROGRAMS_NAME
from mlgo.errors import ArtifactError, ConfigError

SCHEMA_PATH = Path("workflow/schemas/config.schema.json")
PRESETS = Path("config/presets")
DEFAULT = "default"
TEMPLATES = Path(mlgo.__file__).parent / "workflow/own"
"""What `mlgo init` writes; ``stages.yaml`` becomes ``dvc.yaml``."""
_RESULTS = ("settings.json", "corpus", "baseline", "policies", "evaluation", "export", "report")
_DECIDING = ("ziglang", "numpy", "pyarrow", "tensorflow", "keras")
"""Packages another version of which may give other results."""


def add_parser(commands: Any) -> None:
    add_action = add_actions(commands, "config", "Show, check or change the configuration.", title="actions")
    show = add_action("show", _show)
    show.add_argument("--json", action="store_true", help="print JSON instead of YAML")
    show.add_argument("--output", type=Path, metavar="FILE", help="write JSON, with versions of packages, for DVC")
    add_options(show, *CONFIG)
    use = add_action("use", _use)
    use.add_argument("preset", nargs="?", help="name in config/presets, or a file")
    use.add_argument("--list", action="store_true", help="list the presets")
    use.add_argument("--config", type=Path, default=OF_CHECKOUT)
    schema = add_action("schema", _schema)
    schema.add_argument("--output", type=Path, default=SCHEMA_PATH)
    init = add_command(commands, "init", _init)
    init.add_argument("folder", nargs="?", type=Path, default=Path(), help="of your repository (default: here)")
    for option, text in (("--project", "captured projects to train on"), ("--validation", "others, to choose by")):
        init.add_argument(option, nargs="+", type=Path, default=[], metavar="DIR", help=text)


def _schema(args: argparse.Namespace) -> None:
    """Write the JSON schema.

    mlgo config schema                 write workflow/schemas/config.schema.json anew
    """
    if args.output == SCHEMA_PATH and not SCHEMA_PATH.parent.is_dir():
        raise ConfigError(f"there is no {SCHEMA_PATH.parent}; run this in a checkout, or name the file with --output")
    write_json(args.output, json_schema())


def _show(args: argparse.Namespace) -> None:
    """Print the checked configuration.

    mlgo config show                   the configuration, checked
    mlgo config show --preset config/presets/tiny.yaml --json
    """
    values = read_config(args).model_dump()
    if args.output:
        found = {one.name: one.version for one in distributions() if one.name in _DECIDING}
        code = f"{mlgo.__version__} {source_hash()}"
        write_json(args.output, {**values, "installed": {"mlgo": code, **dict(sorted(found.items()))}})
        return
    print(json.dumps(values, indent=2) if args.json else yaml.safe_dump(values, sort_keys=False), end="")


def _use(args: argparse.Namespace) -> None:
    """Write a preset into the configuration.

    mlgo config use tiny               lay preset tiny over config/config.yaml, for dvc
    mlgo config use default            the configuration of before the first preset again
    mlgo config use --list             presets there are
    """
    presets = {path.stem: path for path in sorted(PRESETS.glob("*.yaml"), key=lambda path: path.stem)}
    if args.list:
        print("\n".join([DEFAULT, *presets]))
        return
    if args.preset is None:
        raise ConfigError("name a preset; mlgo config use --list shows them")
    if not args.config.is_file():
        raise ConfigError(f"there is no {args.config}; run this in a checkout, or name the file with --config")
    saved = args.config.with_name(f"{DEFAULT}.yaml")  # the configuration as it was before any preset
    default = saved if saved.exists() else args.config
    if args.preset != DEFAULT:
        preset = presets.get(args.preset, Path(args.preset))
        check_corpus(load_config(default, preset))  # refuses what does not fit before anything is written
        values = merge(read_yaml(default), read_yaml(preset))
        write_text(saved, default.read_text())
        write_text(args.config, yaml.safe_dump(values, sort_keys=False, width=120))
    elif saved.exists():
        write_text(args.config, saved.read_text())
        saved.unlink()
    print(f"{args.config} now holds preset {Path(args.preset).stem}")


def _init(args: argparse.Namespace) -> None:
    """Write a pipeline that trains on captured projects into a repository of your own.

    mlgo init --project captured/app                           a quarter of its modules is held out
    mlgo init --project captured/app captured/lib --validation captured/tools
    """
    if not args.project:
        raise ConfigError("name what to train on: mlgo capture -o captured/app -- make, then --project captured/app")
    root, held_out = args.folder.resolve(), [] if args.validation else [0]
    train = [_recipe(root, one, [1, 2, 3] if held_out else None) for one in args.project]
    validation = [_recipe(root, one, held_out or None) for one in args.validation or args.project]
    recipes = {one["name"]: one for one in (*train, *validation)}
    if len(recipes) < len(train + validation):
        raise ConfigError(f"two of the projects would have one name, of {', '.join(recipes)}; rename a folder")
    folders = [*dict.fromkeys(one["captured"] for one in recipes.values())]
    tables = [f"{one}/{name}" for one in folders for name in (CAPTURED_NAME, PROGRAMS_NAME)]
    parts = {"TRAIN": [one["name"] for one in train], "VALIDATION": [one["name"] for one in validation]}
    texts = {path.name.replace("stages", "dvc"): read_input(path).decode() for path in sorted(TEMPLATES.iterdir())}
    for part, words in {**parts, "PROJECTS": ["mlgo-projects", *tables]}.items():
        listed = json.dumps(words, ensure_ascii=False).replace("${", "\\\\${")  # DVC fills in what has no backslash
        texts = {name: text.replace(f"[{part}]", listed) for name, text in texts.items()}
    files = {f"mlgo-projects/{name}.yaml": yaml.safe_dump(one, allow_unicode=True) for name, one in recipes.items()}
    files = {**texts, **files, "mlgo-projects/requirements.txt": f"mlgo[train,pipeline]=={mlgo.__version__}\n"}
    _write_new(root, files)
    needed = [] if find_spec("snakemake") and find_spec("dvc") else [["pip", "install", "mlgo[train,pipeline]"]]
    above = [root, *root.parents]
    new = [[tool, "init"] for tool in ("git", "dvc") if not any((up / f".{tool}").exists() for up in above)]
    commands = [*needed, ["cd", str(root)], *new, ["dvc", "add", *folders], ["dvc", "repro"]]
    print("\n    ".join([f"wrote {', '.join(files)}; next:", *(shown(shlex.join(one)) for one in commands)]))


def _recipe(root: Path, project: Path, quarters: list[int] | None) -> dict[str, Any]:
    """Recipe of a captured project, or of quarters of its modules; its name may be a word of command lines."""
    try:
        rows = read_table(project / CAPTURED_NAME, PROJECT, ["module", "skip_reason"]).to_pylist()
        read_table(project / PROGRAMS_NAME, PROGRAMS_OF_PROJECT, ["program"])
    except ArtifactError as error:
        again = shlex.join(["mlgo", "capture", "-o", str(project), "--", "make"])
        raise ConfigError(f"{project} is no captured project of this version ({error}); {again} makes one") from error
    if not project.resolve().is_relative_to(root):
        raise ConfigError(f"{project} lies outside of {root}; capture it there")
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", project.resolve().name).strip("-.+") or "project"
    recipe: dict[str, Any] = {"name": name, "license": "", "captured": str(project.resolve().relative_to(root))}
    if quarters:
        recipe |= {"name": f"{name}-held-out" if quarters == [0] else name, "quarters": quarters}
    if not any(Recipe(**recipe).takes(row["module"]) for row in rows if not row["skip_reason"]):
        raise ConfigError(f"{project} has too few modules to hold some out; name another project with --validation")
    return recipe


def _write_new(root: Path, files: Mapping[str, str]) -> None:
    """Write new files into a folder in which no pipeline is: all of them, or none."""
    for name in (*files, "snakefile", "workflow/Snakefile", *(f"data/{one}" for one in _RESULTS)):
        if os.path.lexists(root / name):
            raise ConfigError(f"{root / name} is there already; nothing was written: move it, or name another folder")
    made: list[Path] = []
    try:
        for path in map(root.joinpath, files):
            path.parent.mkdir(exist_ok=True)
            with path.open("xb") as file:
                made.append(path)
                file.write(files[str(path.relative_to(root))].encode())
        made.clear()
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}; nothing was written") from error
    finally:
        for path in made:
            path.unlink()
        with suppress(OSError):
            (root / "mlgo-projects").rmdir()
