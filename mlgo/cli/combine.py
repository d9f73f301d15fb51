"""`mlgo combine`: several policies in one C++ class, of which an option of the compiler selects one."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.base.files import write_record
from mlgo.base.output import check_output
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import add_command, add_options, say
from mlgo.deploy.drivers import policy_folder
from mlgo.deploy.export.cpp import Cpp, selected_sources, selector, write_sources
from mlgo.deploy.export.form import PARITY_QUESTIONS, asked_features, check_form, draw_questions, read_questions
from mlgo.errors import ConfigError
from mlgo.host.actions import Binary, check_features
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "combine", run)
    parser.add_argument("policies", nargs="+", type=_named, metavar="NAME=DIR", help="name and folder of a policy")
    add_options(parser, "--trace")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the class")
    add_options(parser, "--json")


def run(args: argparse.Namespace) -> None:
    """Several policies as one C++ class, selected by name.

    mlgo combine size=data/released/marginal-s0 quick=data/policies/tree-s0 -o data/export/both
    then, in a clang that the class was built into: clang -mllvm -ml-inliner-model-selector=quick
    """
    policies: dict[str, Policy] = {}
    for name, folder in args.policies:
        if name in policies:
            raise ConfigError(f"{name} names two policies; give each a name of its own")
        policies[name] = load_policy(policy_folder(str(folder)), Binary)
    rows = draw_questions(read_questions(args.trace, next(iter(policies.values()))), PARITY_QUESTIONS, 0)
    for policy in policies.values():
        check_features(asked_features(policy), rows.column_names, "the trace")
    sources = selected_sources(policies, rows)
    check_output(args.output, (*sources, "parity.json"), "parity.json")
    with scratch_directory() as folder:
        write_sources(folder, sources)
        found = {
            name: check_form(Cpp(), folder, policy, rows, selector=selector(name)) for name, policy in policies.items()
        }
    write_sources(args.output, sources)
    parity = {name: asdict(one) for name, one in found.items()}
    write_record(args.output / "parity.json", parity)
    lines = [f"{name}: decides as the policy on {one.questions:,} recorded questions" for name, one in found.items()]
    say(args, {"output": str(args.output), "parity": parity}, "\n".join([*lines, f"written to {args.output}"]))


def _named(text: str) -> tuple[str, Path]:
    name, separator, folder = text.partition("=")
    if not (name and separator and folder):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=DIR")
    return name, Path(folder)
