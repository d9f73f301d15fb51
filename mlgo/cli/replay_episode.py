"""`mlgo replay episode`: do a logged compile again."""

import argparse
from pathlib import Path
from typing import Any

from mlgo.base.scratch import scratch_directory
from mlgo.cli.compile_module import parse_policy, policy_identity
from mlgo.cli.options import add_command, add_config_options, read_config, say
from mlgo.errors import PolicyError
from mlgo.evaluate.logged import LoggedEpisode, check_compiler, find_logged_bitcode, read_episode, replay_episode
from mlgo.host.tasks.task import Advisor, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.objects.measures import DEFAULT

EXAMPLES = """
mlgo compile lupa/third-party/lua54/lapi.c --policy data/policies/marginal-s0 --log lapi.episode
mlgo replay episode lapi.episode
mlgo replay episode lapi.episode --policy data/policies/marginal-s0 --json
"""
_STATUS = "\n\nexit status: 0 when questions, answers and object file are those of the log, 1 when not"


def add_parser(actions: Any) -> None:
    """Register the action of ``mlgo replay``."""
    parser = add_command(actions, "episode", "do a logged compile again and compare", EXAMPLES + _STATUS)
    parser.add_argument("episode", type=Path, help="file written by mlgo compile --log")
    parser.add_argument("--policy", metavar="P", help="let the logged policy answer again, instead of the record")
    parser.add_argument("-o", "--output", type=Path, metavar="OBJ", help="keep the object file")
    parser.add_argument("--corpus", type=Path, default=Path("data/corpus"), help="where its modules are looked up")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compile, compare and print the verdict."""
    episode = read_episode(args.episode)
    task = get_task(episode.task)
    toolchain = find_toolchain(read_config(args).toolchain, episode.target)
    check_compiler(toolchain, episode)
    advisor = _logged_policy(args.policy, episode, toolchain) if args.policy else None
    with scratch_directory() as folder:
        bitcode = find_logged_bitcode(episode, args.corpus, folder)
        replay = replay_episode(toolchain, episode, bitcode, advisor, args.output)
    record = {
        "verdict": "equal" if replay.equal else "different",
        "difference": replay.difference,
        "module": episode.module,
        "policy": episode.policy,
        "task": task.name,
        "compiler": episode.compiler,
        "questions": episode.result.num_questions,
        "compared": "observations and answers" if episode.result.observations else "answers",
        DEFAULT.name: replay.result and replay.result.scores[DEFAULT.name],
        "object_sha256": replay.result and replay.result.object_sha256,
        f"logged_{DEFAULT.name}": episode.result.scores[DEFAULT.name],
        "logged_object_sha256": episode.result.object_sha256,
    }
    lines = (f"{name:<20} {'-' if value in (None, '') else value}" for name, value in record.items())
    say(args, record, "\n".join(lines))
    return 0 if replay.equal else 1


def _logged_policy(text: str, episode: LoggedEpisode, toolchain: Toolchain) -> Advisor:
    """The advisor that ``--policy`` names, which must be the logged one."""
    advisor = parse_policy(text, get_task(episode.task), toolchain, episode.module)
    name, sha256 = policy_identity(text)
    if sha256 != episode.policy_sha256 or (not sha256 and name != episode.policy):
        weights = " with other weights" if sha256 and name == episode.policy else ""
        raise PolicyError(f"the episode was logged under policy {episode.policy}{weights}, not {text}")
    return advisor
