"""`mlgo config`: look at, check and change the configuration."""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

from mlgo.base.config import OF_CHECKOUT, json_schema, load_config, merge, read_yaml
from mlgo.base.files import write_json, write_text
from mlgo.base.sealed import check_corpus
from mlgo.cli.program import CONFIG, add_actions, add_options, read_config
from mlgo.errors import ConfigError

SCHEMA_PATH = Path("workflow/schemas/config.schema.json")
PRESETS = Path("config/presets")
DEFAULT = "default"


def add_parser(commands: Any) -> None:
    add_action = add_actions(commands, "config", "Show, check or change the configuration.", title="actions")
    show = add_action("show", _show)
    show.add_argument("--json", action="store_true", help="print JSON instead of YAML")
    add_options(show, *CONFIG)
    use = add_action("use", _use)
    use.add_argument("preset", nargs="?", help="name in config/presets, or a file")
    use.add_argument("--list", action="store_true", help="list the presets")
    use.add_argument("--config", type=Path, default=OF_CHECKOUT)
    schema = add_action("schema", _schema)
    schema.add_argument("--output", type=Path, default=SCHEMA_PATH)


def _schema(args: argparse.Namespace) -> None:
    """Write the JSON schema.

    mlgo config schema                 write workflow/schemas/config.schema.json anew
    """
    write_json(args.output, json_schema())


def _show(args: argparse.Namespace) -> None:
    """Print the checked configuration.

    mlgo config show                   the configuration, checked
    mlgo config show --preset config/presets/tiny.yaml --json
    """
    values = read_config(args).model_dump()
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
