"""Try a compiler: compile a source plainly and under a policy, for each task, by the names of `import mlgo` alone.

Prints a JSON object with a record for each task: how many decisions the compiler asked for, what the policy scores and
what the compiler does without it, or why it failed.

Example:
    python scripts/try_compiler.py --toolchain clang-19 --policy data/released/marginal-s0 data/sample/json/parser.cpp
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlgo

_TASKS: dict[str, tuple[dict[str, str], str]] = {
    "inline-size": ({"objective": "text_bytes", "optimization": "-Oz"}, ""),
    "regalloc-evict": ({"objective": "spill_cost", "optimization": "-O2"}, "lightest"),
    "regalloc-priority": ({"objective": "spill_cost", "optimization": "-O2"}, "longest"),
}
"""Settings by task, and the simple rule that answers where no policy has been released."""


def main() -> None:
    """Print what each task does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="configuration")
    parser.add_argument("--toolchain", default="auto", help="auto, or a clang (default: %(default)s)")
    parser.add_argument("--policy", type=Path, required=True, help="folder of a policy for inline-size")
    parser.add_argument("source", type=Path, help="C or C++")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    for name in _TASKS:
        try:
            found[name] = try_task(name, args)
        except mlgo.MlgoError as error:
            found[name] = {"failed": str(error)}
    print(json.dumps(found, indent=2))


def try_task(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Compile the source plainly and under the policy of a task."""
    config = mlgo.load_config(args.config)
    toolchain, task = mlgo.find_toolchain(args.toolchain, config.target), mlgo.get_task(name)
    changed, rule = _TASKS[name]
    settings = config.compile.model_copy(update=changed)
    advisor = task.references.advisors[rule](None) if rule else mlgo.load_policy(args.policy)
    with TemporaryDirectory() as folder:
        front_end = mlgo.FrontEnd(toolchain, settings, Path(folder), task)
        module = front_end.module_of(args.source, Path(folder, "module.bc"))
        plain = mlgo.compile_plain(toolchain, module, settings, task=task)
        advised = mlgo.compile_under_advice(toolchain, task, module, advisor, settings)
    return {
        "compiler": toolchain.name,
        "advisor": rule or args.policy.name,
        "decisions": advised.num_questions,
        "measure": settings.objective,
        "plain": plain.score(settings.objective),
        "advised": advised.score(settings.objective),
    }


if __name__ == "__main__":
    main()
