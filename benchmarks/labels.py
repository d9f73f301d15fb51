"""Do labels of some programs say which decisions of others to turn round?

Programs that `mlgo tune` has searched are left out, some at a time. Extremely randomized trees are fitted to labels of
the others, each member to its own draw of programs. What a member predicts is what a flip saves, in bytes, at most
`_MOST_BYTES` either way. A flip is chosen if the mean of the members exceeds so many of their standard deviations.
Only flips of what the policy answers itself count.

Example:
    mlgo tune data/corpus/projects/annoy.parquet -o tuned/annoy --budget 32 --ships whole,sections=yes,folding=all
    python -m benchmarks.labels tuned/* --programs 8 16 32
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import add_policy_option, benchmark_parser, print_record, run_benchmark
from mlgo.base.artifacts import label_schema, read_provenance, read_table
from mlgo.base.sealed import load_sealed
from mlgo.base.seeding import generator
from mlgo.cli.program import add_options, positive
from mlgo.cli.tune import LABELS
from mlgo.errors import ArtifactError
from mlgo.evaluate.search import MODULE_WIDE, logarithms
from mlgo.host.actions import Binary, Observation
from mlgo.host.tasks.task import get_task
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy

_FOLDS, _MEMBERS = 6, 8
_CAUTIONS = (0.0, 1.0, 2.0)
_MOST_BYTES = 60.0
_LOGIT = -3  # column of the policy's logit, which knows of the whole module
_SAME = {"compiler_sha256": "compilers", "compile": "ways to compile or to ship", "base_sha256": "policies"}
_FEW = 20
"""Labels below which a program is left out."""


def main() -> None:
    """Fit, choose, and print what was chosen."""
    parser = benchmark_parser("benchmarks.labels", __doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="what mlgo tune has written")
    parser.add_argument("--programs", type=positive, nargs="+", default=[], metavar="N", help="also fit to N programs")
    add_policy_option(parser, "that the searches began with")
    add_options(parser, "--json")
    args = parser.parse_args()
    print_record(learn(args.folders, load_policy(args.policy, Binary), args.programs), as_json=args.json)


def learn(folders: Sequence[Path], policy: Policy, counts: Sequence[int]) -> dict[str, Any]:
    """What is said of programs that were left out."""
    from scipy.stats import spearmanr

    sealed, parts, first = load_sealed(), list[dict[str, Any]](), read_provenance(folders[0] / LABELS)
    for folder in folders:
        origin = read_provenance(folder / LABELS)
        if sealed.holds(origin["project"]):
            raise ArtifactError(f"{folder} is of a sealed program, from which nothing is learned")
        for name, what in _SAME.items():
            if origin[name] != first[name]:
                raise ArtifactError(f"{folder} and {folders[0]} are of different {what}")
        labels = list(_labels(folder, policy))
        if len(labels) >= _FEW:
            inputs, saved, own = map(np.array, zip(*labels, strict=True))
            parts.append({"bytes": origin["base"], "inputs": inputs, "saved": saved, "own": own})
    if len(parts) < _FOLDS:
        raise ArtifactError(f"{len(parts)} programs with {_FEW} labels; at least {_FOLDS} are needed")
    every = np.concatenate([part["saved"] for part in parts])
    found: dict[str, Any] = {"programs": len(parts), "labels": len(every)} | _equal_questions(parts)
    best = [100.0 * part["saved"][part["own"] & (part["saved"] > 0)].sum() / part["bytes"] for part in parts]
    found |= {"helpful_share": round(float((every > 0).mean()), 3), "all_helpful_percent": round(np.mean(best), 3)}
    for count in [*counts, len(parts)]:
        scores = [np.zeros((_MEMBERS, len(part["saved"]))) for part in parts]
        order = generator(0, "benchmark", "labels").permutation(len(parts))
        for fold in np.array_split(order, _FOLDS):
            others = [number for number in order.tolist() if number not in fold][:count]
            for member in range(_MEMBERS):
                model = _fitted([parts[number] for number in others], member)
                for number in fold:
                    scores[number][member] = model.predict(parts[number]["inputs"])
        means = np.concatenate([one.mean(0) for one in scores])
        name = f"of_{min(count, len(parts) - len(parts) // _FOLDS)}"
        found[f"{name}_rank_correlation"] = round(float(spearmanr(means, every).statistic), 3)
        for caution in _CAUTIONS:
            chosen = [one.mean(0) > caution * one.std(0) for one in scores]
            chosen = [one & part["own"] for one, part in zip(chosen, parts, strict=True)]
            of_each = [part["saved"][one] for one, part in zip(chosen, parts, strict=True)]
            percent = [100.0 * some.sum() / part["bytes"] for some, part in zip(of_each, parts, strict=True)]
            of_all = np.concatenate(of_each)
            found[f"{name}_caution_{caution:g}"] = {
                "flips": len(of_all),
                "helpful_share": round(float((of_all > 0).mean()), 2) if len(of_all) else None,
                "mean_percent": round(float(np.mean(percent)), 3),
                "worst_percent": round(min(percent), 3),
            }
    return found


def _labels(folder: Path, policy: Policy) -> Iterator[tuple[np.ndarray, float, bool]]:
    """Inputs, bytes saved, and whether the policy answers so itself, of each flip."""
    table = read_table(folder / LABELS)
    features = [name for name in table.column_names if name not in label_schema([]).names]
    rows = np.column_stack([table[name].to_numpy() for name in features]).astype(np.float64)
    logits = np.asarray(policy.logits(Observation(rows[:, [features.index(name) for name in policy.features]])))
    left_out = (*MODULE_WIDE, *get_task(policy.task).default_features)
    inputs = logarithms(rows[:, [number for number, name in enumerate(features) if name not in left_out]])
    flips = defaultdict[tuple[int, int], list[int]](list)
    for number, flip in enumerate(zip(table["round"].to_pylist(), table["flip"].to_pylist(), strict=True)):
        flips[flip].append(number)
    answers, saved = table["answer"].to_numpy(), table["saved"].to_numpy()
    for members in flips.values():
        answer, logit = int(answers[members[0]]), float(logits[members].mean())
        row = np.append(inputs[members].mean(0), [np.clip(logit, -20.0, 20.0), answer, len(members)])
        yield row, float(saved[members[0]]), (logit > 0) == (answer == 1)


def _fitted(parts: Sequence[dict[str, Any]], member: int) -> Any:
    """Trees fitted to two thirds of some programs, each of which weighs as its labels' share of its bytes."""
    from sklearn.ensemble import ExtraTreesRegressor

    drawn = generator(member, "benchmark", "members").permutation(len(parts))[: max(2, 2 * len(parts) // 3)]
    some = [parts[number] for number in drawn.tolist()]
    weights = np.concatenate([np.full(len(part["saved"]), min(20_000.0 / part["bytes"], 5.0)) for part in some])
    saved = np.clip(np.concatenate([part["saved"] for part in some]), -_MOST_BYTES, _MOST_BYTES)
    model = ExtraTreesRegressor(100, min_samples_leaf=3, max_features=0.5, random_state=member)
    return model.fit(np.concatenate([part["inputs"] for part in some]), saved, weights)


def _equal_questions(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far bytes saved differ where all that is known of two flips of different programs is equal."""
    groups = defaultdict[bytes, dict[int, float]](dict)
    for number, part in enumerate(parts):
        for row, saved in zip(part["inputs"], np.clip(part["saved"], -_MOST_BYTES, _MOST_BYTES), strict=True):
            groups[np.delete(row, _LOGIT).tobytes()].setdefault(number, saved)
    several = [np.array(list(one.values())) for one in groups.values() if len(one) > 1]
    every = np.clip(np.concatenate([part["saved"] for part in parts]), -_MOST_BYTES, _MOST_BYTES)
    spread = round(float(np.mean([one.var(ddof=1) for one in several]) / every.var()), 3) if several else None
    return {"equal_groups": len(several), "variance_within_equal": spread}


if __name__ == "__main__":
    run_benchmark("benchmarks.labels")
