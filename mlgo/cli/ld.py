"""`mlgo ld` and `mlgo ld++`: programs that are optimized while they are linked, under a policy."""

import argparse
import sys
from typing import Any

from mlgo.base.ships import Ships
from mlgo.cli.cc import LANGUAGES, add_choice_options, become_plain, chosen, log
from mlgo.cli.program import add_command, positive_float
from mlgo.deploy.drivers import make_driver, trained_settings
from mlgo.deploy.linking import LinkCommand, NothingToMerge, link
from mlgo.errors import MlgoError
from mlgo.policy.stored import load_policy

_HELP = """Link {language} in a build, as a whole, under a policy.

mlgo cc --whole -- -Oz -c main.c -o main.o
mlgo cc --whole -- -Oz -c parse.c -o parse.o
{name} -- main.o parse.o -lm -o program
{name} --thin -- main.o parse.o -o program       of what mlgo cc --thin has made
{name} --log links.jsonl --no-guard -- main.o parse.o -o program
"""


def add_parser(commands: Any) -> None:
    for name in ("ld", "ld++"):
        text = _HELP.format(language=LANGUAGES[name].upper(), name=f"mlgo {name}")
        parser = add_command(commands, name, run, text=text)
        add_choice_options(parser)
        parser.add_argument("--thin", action="store_true", help="by ThinLTO, of what mlgo cc --thin has made")
        parser.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)  # of mlgo cc, which it comes from
        parser.add_argument("--no-guard", action="store_true", help="do not link without the policy to compare")
        parser.add_argument(
            "--timeout", type=positive_float, default=1800.0, metavar="S", help="deadline of a step (default: 1800)"
        )
        parser.set_defaults(tool=name)


def run(args: argparse.Namespace) -> None:
    """Link under advice; where that fails, say why once and become the compiler itself."""
    ships = args.ships or Ships.of_environment()
    args.thin, args.arguments = args.thin or ships.form == "thin", [*args.arguments, *ships.link_words]
    toolchain, choice = chosen(args)
    wanted = LinkCommand.read(args.arguments)
    if wanted.changed:
        reason = "changed since the compile (objcopy, strip); linked as it is, without the policy"
        print(f"mlgo {args.tool}: warning: {', '.join(wanted.changed)}: {reason}", file=sys.stderr)
    language = LANGUAGES[args.tool]
    is_left = args.plain or language not in (args.languages or language)
    try:
        wanted.check()
        picked = choice()
        policy = load_policy(picked.policy)
        settings = trained_settings(policy).model_copy(update={"compile_timeout_s": args.timeout})
        driver = (str(make_driver(picked, toolchain)), "run", "--new") if args.thin else ()
        if is_left and args.thin:
            become_plain(args, None, toolchain, choice)
        asked = None if is_left else policy
        result = link(wanted, toolchain, language, asked, settings, driver, ships, guard=not args.no_guard)
    except MlgoError as error:
        # A build links much only to find out what is there.
        is_usual = (args.whole or args.thin) and isinstance(error, NothingToMerge)
        outcome = "plain" if is_usual else "failed"
        log(args, {"output": str(wanted.output), "outcome": outcome, "reason": str(error)})
        become_plain(args, None if is_usual else error, toolchain, choice)
    outcome, reason = ("advised", "") if result.is_advised else ("plain", "it is smaller")
    sizes = {"questions": result.questions, "advised_bytes": result.advised, "plain_bytes": result.plain}
    if is_left:
        outcome, reason = "plain", "--plain" if args.plain else "its language is left to the compiler"
        sizes |= {"advised_bytes": None, "plain_bytes": result.advised}
    log(args, {"output": str(wanted.output), "outcome": outcome, "reason": reason, **sizes})
