"""`mlgo import`: a model that was trained elsewhere as a policy that compiles here."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.base.files import write_atomically
from mlgo.base.names import PolicyName
from mlgo.cli.program import CONFIG, add_command, add_options, configured, say
from mlgo.deploy.import_model import check_importable, compare_answers, convert_apart, policy_of
from mlgo.errors import ConfigError
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import get_task
from mlgo.policy.stored import save_imported


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "import", run)
    parser.add_argument("model", type=Path, help="folder of the SavedModel; its signature is called action")
    parser.add_argument("--task", default="", metavar="NAME", help="what it decides (default: as its output says)")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the policy, called NAME-sSEED"
    )
    add_options(parser, "--json", *CONFIG)


def run(args: argparse.Namespace) -> None:
    """Make a policy of a SavedModel that was trained elsewhere.

    mlgo import models/inline-Oz -o data/policies/google-s0
    mlgo import models/regalloc --task regalloc-evict -o data/policies/evict-s0 --json
    mlgo import models/old-inliner --toolchain /usr/bin/clang-17 -o data/policies/old-s0
    then: mlgo compile data/sample/json/parser.cpp --policy data/policies/google-s0
          mlgo evaluate --policy data/policies/google-s0 --corpus data/corpus --split test
    """
    PolicyName.of(args.output.resolve().name)
    if args.output.exists():
        raise ConfigError(f"{args.output} is there already; remove it, or name another folder")
    if args.task:
        get_task(args.task)
    config, toolchain = configured(args)
    check_importable(args.model)
    converted = convert_apart(args.model, args.task)
    policy, task = policy_of(converted, args.model), get_task(converted.task)
    header = probe_channel(toolchain, task, config.compile)
    policy.respond_to(header)
    found = compare_answers(policy, converted)
    write_atomically(args.output, lambda folder: save_imported(policy, folder), is_folder=True)
    offered = [spec.name for spec in header.features if spec.name not in task.default_features]
    unused = [name for name in offered if name not in policy.features]
    record = {
        "policy": str(args.output),
        "task": task.name,
        "features": len(policy.features),
        "not_looked_at": unused,
        **asdict(found),
    }
    lines = [
        f"{args.output}: a policy of {task.name}",
        f"it looks at {len(policy.features)} of the {len(offered)} features that {toolchain.name} sends",
        *([f"it does not look at {', '.join(unused)}"] if unused else []),
        f"{found.questions - found.differing} of {found.questions} drawn questions are answered as TensorFlow runs the "
        f"model; it gives {found.distinct} different answers",
    ]
    say(args, record, "\n".join(lines))
