"""`mlgo distill`: a decision tree that one can read, in place of a policy's network."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import provenance, read_provenance, read_table
from mlgo.base.files import file_sha256, write_json
from mlgo.base.names import PolicyName
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.cli.options import add_command, add_trace_option, say
from mlgo.corpus.store import load_modules
from mlgo.deploy.export.cpp import Cpp, tree_function
from mlgo.deploy.export.form import PARITY_QUESTIONS
from mlgo.deploy.export.forms import check_cpp
from mlgo.errors import ConfigError, CorpusError
from mlgo.host.actions import Binary
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_stored, model_file, save_policy
from mlgo.research.distillation import Agreement, agreement, distil, taught_questions

_EXAMPLES = """
mlgo distill data/policies/marginal-s0 -o data/policies/tree-s0
mlgo distill data/released/marginal-s0 --leaves 64 -o data/policies/tree64-s0 --json
mlgo distill data/policies/marginal-s0 --corpus other/corpus --trace other/baseline/trace.parquet -o tree-s0
then: mlgo evaluate --policy data/policies/tree-s0 --corpus data/corpus --split validation
"""
_FITTED, _HELD_OUT = "train", "validation"


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = add_command(commands, "distill", "fit a small decision tree to a policy and print it as C++", _EXAMPLES)
    parser.add_argument("policy", type=Path, help="folder of the policy; its answers are yes or no")
    add_trace_option(parser)
    parser.add_argument(
        "--corpus",
        type=Path,
        default=Path("data/corpus"),
        metavar="DIR",
        help=f"says which projects are fitted ({_FITTED}) and which are held out ({_HELD_OUT}) (default: %(default)s)",
    )
    parser.add_argument("--leaves", type=_leaves, default=24, metavar="N", help="at most (default: %(default)s)")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the tree, called NAME-sSEED"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Fit, compare with the teacher on projects held out, write the policy and its C++."""
    PolicyName.of(args.output.resolve().name)
    teacher, trace = load_stored(args.policy, Binary), read_table(args.trace)
    if (task := read_provenance(args.trace).get("task", teacher.task)) != teacher.task:
        raise ConfigError(f"{args.trace} is of task {task!r}, not of {teacher.task!r}; take the trace of such a run")
    fitted, held_out = (_projects(args.corpus, split) for split in (_FITTED, _HELD_OUT))
    origin = provenance(
        algorithm="distill",
        leaves=args.leaves,
        teacher=args.policy.resolve().name,
        teacher_sha256=file_sha256(model_file(args.policy)),
        trace_sha256=file_sha256(args.trace),
        **({"languages": told} if (told := teacher.origin.get("languages")) else {}),
        fitted=sorted(fitted),
    )
    taught = taught_questions(teacher, trace, fitted)
    policy = distil(taught, teacher.task, args.leaves, origin)
    on_fitted, on_held_out = agreement(policy, taught), agreement(policy, taught_questions(teacher, trace, held_out))
    policy = replace(policy, origin={**origin, "equal_held_out": round(on_held_out.equal, 4)})
    asked = trace.filter(pc.is_in(trace["project"], value_set=pa.array(sorted(held_out), pa.string())))
    parity = _write(policy, asked, args.output)
    record = {"features": list(policy.normalisation.features), "fitted": on_fitted, "held_out": on_held_out}
    record = {key: one.record() if isinstance(one, Agreement) else one for key, one in record.items()}
    write_json(args.output / "agreement.json", {**record, "parity": parity})
    text = "\n".join([tree_function(policy, trace), *_sentences(on_fitted, on_held_out, len(held_out))])
    say(args, {"policy": str(args.output), **record, "parity": parity}, text)


def _write(policy: Policy, asked: pa.Table, output: Path) -> dict[str, Any]:
    """Write the policy and its C++, if the compiled class decides as the policy on some recorded questions."""
    rows = asked.take(sample(range(asked.num_rows), PARITY_QUESTIONS, 0, "parity"))
    with scratch_directory() as folder:
        Cpp().write(policy, rows, folder / "cpp")
        parity = check_cpp(folder / "cpp", policy, rows).record()
    save_policy(policy, output)
    Cpp().write(policy, rows, output / "cpp")
    return parity


def _projects(corpus: Path, split: str) -> set[str]:
    """Projects of a split."""
    projects = {module.project for module in load_modules(corpus, splits=[split])}
    if not projects:
        raise CorpusError(
            f"{corpus} has no project in the split {split}; distill needs some to fit and some to compare"
        )
    return projects


def _sentences(fitted: Agreement, held_out: Agreement, num_projects: int) -> list[str]:
    leaves = [
        f"leaf {number:<3} {'yes' if leaf.answer else 'no':<4} {leaf.questions / held_out.questions:7.2%} of the "
        f"questions, {leaf.equal:7.2%} of them as the policy"
        for number, leaf in enumerate(held_out.leaves)
    ]
    return [
        f"decisions as the policy's: {held_out.equal:.2%} of {held_out.questions:,} questions of {num_projects} "
        f"projects held out, {held_out.equal_by_margin:.2%} if each counts by the policy's margin; {fitted.equal:.2%} "
        f"of {fitted.questions:,} questions of those fitted",
        f"the recorded answers, for comparison: {held_out.recorded_equal:.2%} of those held out",
        *leaves,
    ]


def _leaves(text: str) -> int:
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"{text} leaves make no tree; give at least 2")
    return value
