"""`mlgo compile` and `mlgo replay episode`: one module under one policy, and the same again from its log."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.config import Config
from mlgo.base.files import file_sha256, read_input
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import CONFIG, add_command, add_options, read_config, say
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.deploy.drivers import policy_folder
from mlgo.errors import ConfigError, CorpusError, PolicyError
from mlgo.evaluate import logged
from mlgo.host.frontend import FrontEnd
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import Advisor, ConstantAdvisor, EchoAdvisor, Setting, Task, get_task, settings_for_policy
from mlgo.host.toolchain import Toolchain, find_toolchain
from mlgo.objects.measures import DEFAULT, get_measure
from mlgo.policy.stored import load_stored, model_sha256


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "compile", run)
    parser.add_argument("module", help="bitcode (.bc, .ll), a C or C++ source, or PROJECT/PATH of the corpus")
    parser.add_argument("--task", metavar="NAME", help="decision problem (default: the configuration's)")
    parser.add_argument(
        "--policy",
        default="default",
        metavar="P",
        help="default, never, always, random:SEED, a policy's folder, or its name; for register eviction lightest, "
        "first, random:SEED, or a folder; for register priority longest, equal, random:SEED, or a folder",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OBJ", help="keep the object file")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log the compile, for mlgo replay episode")
    parser.add_argument(
        "--log-format",
        choices=["episode", "llvm"],
        help="llvm: questions, answers and the reward as LLVM's own training logs have them (default: episode)",
    )
    parser.add_argument("--log-observations", action="store_true", help="log the questions, too, not only the answers")
    parser.add_argument("--corpus", type=Path, default=Path("data/corpus"), help="where PROJECT/PATH is looked up")
    add_options(parser, "--json", *CONFIG)


def run(args: argparse.Namespace) -> None:
    """Compile one module under a policy and print its sizes.

    mlgo compile data/sample/json/parser.cpp
    mlgo compile data/sample/json/parser.cpp --policy never --json
    mlgo compile data/sample/matrix/lu.cpp --preset config/presets/regalloc.yaml --policy lightest
    mlgo compile lupa/third-party/lua54/lapi.c --policy data/policies/marginal-s0 -o lapi.o
    mlgo compile data/sample/json/parser.cpp --log parser.episode       then: mlgo replay episode parser.episode
    mlgo compile data/sample/json/parser.cpp --log parser.log --log-format llvm
    """
    for option, given in (("--log-observations", args.log_observations), ("--log-format", args.log_format)):
        if given and not args.log:
            raise ConfigError(f"{option} says what --log FILE holds; give that option, too")
    config = read_config(args)
    task, toolchain = get_task(args.task or config.task), find_toolchain(config.toolchain, config.target)
    advisor = parse_policy(args.policy, task, toolchain, args.module)
    settings = settings_for_policy(getattr(advisor, "features", ()), task, config.compile)
    with_heuristic = args.policy == "default"
    with scratch_directory() as folder:
        bitcode = find_bitcode(args.module, args.corpus, config, task, toolchain, folder)
        result = compile_under_advice(
            toolchain,
            task,
            bitcode,
            advisor,
            settings,
            with_heuristic_feature=with_heuristic,
            record=args.log_observations or args.log_format == "llvm",
            object_path=args.output,
        )
        if args.log and args.log_format == "llvm":
            logged.write_training_log(args.log, result, get_measure(config.compile.objective))
        elif args.log:
            policy, policy_sha256 = policy_identity(args.policy)
            episode = logged.LoggedEpisode(
                module=args.module,
                bitcode_sha256=file_sha256(bitcode),
                bitcode=read_input(bitcode) if Path(args.module).is_file() else None,
                task=task.name,
                policy=policy,
                policy_sha256=policy_sha256,
                compiler=toolchain.name,
                compiler_sha256=toolchain.sha256,
                target=toolchain.target,
                settings=settings,
                with_heuristic_feature=with_heuristic,
                result=result,
            )
            logged.write_episode(args.log, episode)
    record: dict[str, Any] = {
        "module": args.module,
        "policy": args.policy,
        "compiler": toolchain.name,
        **{name: score for name, score in result.scores.items() if score is not None},
        "questions": result.num_questions,
    }
    if task.in_code_generation:
        record["repaired_answers"] = result.num_repaired_answers
    else:
        inlined = int(np.count_nonzero(np.frombuffer(result.answers, np.int64)))
        record |= {"inlined": inlined, "truncated": result.truncated}
    record["seconds"] = round(result.seconds, 4)
    say(args, record, "\n".join(f"{name:<10} {value}" for name, value in record.items()))


def parse_policy(text: str, task: Task, toolchain: Toolchain, stream: str) -> Advisor:
    """Turn the value of ``--policy`` into an advisor."""
    word, _, seed = text.partition(":")
    if word == "random" and not (seed.isascii() and seed.isdigit()):
        raise ConfigError("--policy random needs a seed, for example random:1")
    known = _words(task, toolchain, int(seed) if word == "random" else 0, stream)
    if (word if word == "random" else text) in known:
        return known[word]
    if not (folder := policy_folder(text)).is_dir():
        words = ", ".join(f"{name}:SEED" if name == "random" else name for name in known)
        raise ConfigError(f"--policy {text}: neither {words} nor a policy's folder or name")
    policy = load_stored(folder)
    if policy.task != task.name:
        raise PolicyError(f"{text} was trained for task {policy.task}, not {task.name}")
    return policy


def _words(task: Task, toolchain: Toolchain, seed: int, stream: str) -> dict[str, Advisor]:
    """Advisors that have a name of their own."""
    setting = Setting(seed, stream, 0.5, toolchain.quirks.default_slot)
    if task.default is None:
        return {name: make(setting) for name, make in task.references.advisors.items()}
    return {
        "default": EchoAdvisor(toolchain.quirks.default_slot),
        "never": ConstantAdvisor(0),
        "always": ConstantAdvisor(1),
        "random": task.references.advisors["random"](setting),
    }


def policy_identity(text: str) -> tuple[str, str]:
    """What a policy is logged as: the word, or the folder's name; and the hash of its weights, empty without."""
    folder = policy_folder(text)
    if text in ("default", "never", "always") or not folder.is_dir():
        return text, ""
    return folder.resolve().name, model_sha256(folder)


def find_bitcode(module: str, corpus: Path, config: Config, task: Task, toolchain: Toolchain, folder: Path) -> Path:
    """Find or make the bitcode that the user means."""
    path = Path(module)
    if path.is_file():
        return FrontEnd(toolchain, config.compile, folder, task).module_of(path, folder / "module.bc")
    if (corpus / "modules.parquet").exists():
        for candidate in load_modules(corpus):
            if candidate.key == module:
                return unpack_bitcode(corpus, [candidate], folder)[module]
    raise CorpusError(f"{module} is neither a file nor PROJECT/PATH of a module in {corpus}")


_STATUS = "\n\n  exit status: 0 when questions, answers and object file are those of the log, 1 when not"


def add_episode_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``mlgo replay episode``."""
    parser.epilog = f"{parser.epilog}{_STATUS}"
    parser.add_argument("episode", type=Path, help="file written by mlgo compile --log")
    parser.add_argument("--policy", metavar="P", help="let the logged policy answer again, instead of the record")
    parser.add_argument("-o", "--output", type=Path, metavar="OBJ", help="keep the object file")
    parser.add_argument("--corpus", type=Path, default=Path("data/corpus"), help="where its modules are looked up")
    add_options(parser, "--json", *CONFIG)


def run_episode(args: argparse.Namespace) -> int:
    """Do a logged compile again and compare.

    mlgo compile lupa/third-party/lua54/lapi.c --policy data/policies/marginal-s0 --log lapi.episode
    mlgo replay episode lapi.episode
    mlgo replay episode lapi.episode --policy data/policies/marginal-s0 --json
    """
    episode = logged.read_episode(args.episode)
    task = get_task(episode.task)
    toolchain = find_toolchain(read_config(args).toolchain, episode.target)
    logged.check_compiler(toolchain, episode)
    advisor = None
    if args.policy:  # which must be the logged one
        advisor = parse_policy(args.policy, task, toolchain, episode.module)
        name, sha256 = policy_identity(args.policy)
        if sha256 != episode.policy_sha256 or (not sha256 and name != episode.policy):
            weights = " with other weights" if sha256 and name == episode.policy else ""
            raise PolicyError(f"the episode was logged under policy {episode.policy}{weights}, not {args.policy}")
    with scratch_directory() as folder:
        bitcode = logged.find_logged_bitcode(episode, args.corpus, folder)
        difference, result = logged.replay_episode(toolchain, episode, bitcode, advisor, args.output)
    record = {
        "verdict": "different" if difference else "equal",
        "difference": difference,
        "module": episode.module,
        "policy": episode.policy,
        "task": task.name,
        "compiler": episode.compiler,
        "questions": episode.result.num_questions,
        "compared": "observations and answers" if episode.result.observations else "answers",
        DEFAULT.name: result and result.scores[DEFAULT.name],
        "object_sha256": result and result.object_sha256,
        f"logged_{DEFAULT.name}": episode.result.scores[DEFAULT.name],
        "logged_object_sha256": episode.result.object_sha256,
    }
    lines = (f"{name:<20} {'-' if value in (None, '') else value}" for name, value in record.items())
    say(args, record, "\n".join(lines))
    return 1 if difference else 0
