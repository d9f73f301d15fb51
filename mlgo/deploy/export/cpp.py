"""A policy as C++ that needs no TensorFlow: the class that LLVM's release mode asks, and its weights as constants.

Contract: llvm/include/llvm/Analysis/ReleaseModeModelRunner.h looks inputs up as ``feed_`` and the feature, the answer
as ``fetch_`` and the decision; a negative index is an input that the model does not look at. LLVM's build takes header
and object by ``LLVM_OVERRIDE_MODEL_HEADER_<CLASS>`` and ``LLVM_OVERRIDE_MODEL_OBJECT_<CLASS>``.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mlgo import __version__
from mlgo.base.files import content_hash, write_text
from mlgo.base.types import C_TYPES
from mlgo.deploy.export.form import ASK, CompiledForm, Harness, build_harness, model_inputs
from mlgo.errors import PolicyError
from mlgo.host.actions import Binary, Categorical, Scalar
from mlgo.host.tasks.task import Task, get_task
from mlgo.host.toolchain import find_linker
from mlgo.policy.features import CLIP, Normalisation
from mlgo.policy.policy import Policy
from mlgo.policy.tree import Tree


@cache
def text_templates(folder: Path = Path(__file__).parent) -> Environment:
    """Templates in a folder; their filter ``literal`` makes a string of C.

    Lines of statements leave nothing; a name that is not given is an error.
    """
    templates = Environment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters["literal"] = _literal
    return templates


_SELECTOR = re.compile(r"[A-Za-z0-9._-]+")

TemplateWords = dict[str, Any]
"""Values by their names in a template."""

CPP_FLAGS = (
    *("-std=c++17", "-O3", "-g0", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-sanitize=all", "-mcpu=baseline"),
    "-ffp-contract=off",
)
"""Options of an object for LLVM's build: position-independent, as LLVM itself, for any processor of its kind. Sums
are rounded as on x86-64 also where a processor could round a product and a sum at once."""


@dataclass(frozen=True)
class Input:
    """An input of the model."""

    name: str  # feature
    type: str  # of C
    size: int  # numbers
    not_finite: str = ""  # literal in place of what is no finite number; empty where all is taken as it is

    @property
    def variable(self) -> str:
        """Member of the class."""
        return "In_" + self.name

    def value(self, index: str) -> str:
        """Expression for one number; a single one goes to all columns."""
        number = f"static_cast<float>({self.variable}[{index if self.size > 1 else 0}])"
        return f"(isfinite({number}) ? {number} : {self.not_finite})" if self.not_finite else number


def cpp_sources(policy: Policy, trace: pa.Table) -> dict[str, str]:
    """Header and implementation, by file name; the same policy gives the same text."""
    return _render([_words(policy, trace)], get_task(policy.task), f"Policy for {policy.task}")


def selected_sources(policies: Mapping[str, Policy], trace: pa.Table) -> dict[str, str]:
    """One class for several policies, of which the compiler selects one by its name."""
    if odd := [name for name in policies if not _SELECTOR.fullmatch(name)]:
        raise PolicyError(f"{odd[0]!r} cannot select a policy; take letters, digits, '-', '_' and '.'")
    tasks = sorted({policy.task for policy in policies.values()})
    if len(tasks) != 1:
        raise PolicyError(f"a class answers for one task, not for {' and '.join(tasks) or 'none'}")
    if not get_task(tasks[0]).actions.yes_or_no:
        raise PolicyError(f"LLVM selects among policies of the inliner alone; export those of {tasks[0]} one by one")
    words = [
        _words(policy, trace)
        | {"space": f"policy{number}", "name": name, "selector": [f"0x{word:016x}" for word in selector(name)]}
        for number, (name, policy) in enumerate(policies.items())
    ]
    return _render(words, get_task(tasks[0]), f"Policies for {tasks[0]}", [Input("model_selector", "uint64_t", 2)])


def selector(name: str) -> tuple[int, int]:
    """Words of LLVM's input ``model_selector`` that select a policy: the MD5 of its name, little-endian.

    As llvm/include/llvm/Support/MD5.h, the high word of the last eight bytes comes first.
    """
    digest = md5(name.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "little"), int.from_bytes(digest[:8], "little")


def tree_function(policy: Policy, trace: pa.Table) -> str:
    """The function of an exported tree that decides, for readers; takes and raises as `cpp_sources`."""
    return text_templates().get_template("tree.cpp.jinja").render(policy=_words(policy, trace))


def write_sources(folder: Path, sources: Mapping[str, str]) -> None:
    for name, text in sources.items():
        write_text(folder / name, text)


class Cpp(CompiledForm):
    """The form of this module; a decision takes microseconds."""

    name = "cpp"

    def save(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        write_sources(folder, cpp_sources(policy, trace))

    def harness(self, folder: Path, policy: Policy) -> AbstractContextManager[Harness]:
        task = get_task(policy.task)
        compiler = [str(find_linker()), "cc", *CPP_FLAGS]
        return build_harness(task, [*compiler, str(ASK), f"-I{folder}", str(folder / f"{task.model}.cpp")])


def _render(words: Sequence[TemplateWords], task: Task, title: str, more: Sequence[Input] = ()) -> dict[str, str]:
    """Fill the templates with the `_words` of each policy; the class has the inputs of all, and more."""
    inputs = {one.name: one for policy in words for one in policy["inputs"]}
    titles = "; ".join(": ".join(filter(None, (one["name"], one["title"]))) for one in words)
    return {
        f"{task.model}.{kind}": text_templates()
        .get_template(f"model.{kind}.jinja")
        .render(
            name=task.model,
            title=f"{title}: {titles}.",
            origin=f"SHA-256 of model and provenance: {', '.join(one['sha256'] for one in words)}",
            version=__version__,
            decision=task.decision,
            answer=C_TYPES[np.dtype(task.actions.dtype)],
            inputs=[*inputs.values(), *more],
            actions=type(task.actions).__name__.lower(),
            policies=words,
        )
        for kind in ("h", "cpp")
    }


def _words(policy: Policy, trace: pa.Table) -> TemplateWords:
    """Values of one policy for the templates."""
    task, actions, names, model = get_task(policy.task), policy.actions, policy.normalisation.features, policy.model
    repaired = {name: _float(value) for name, value in task.not_finite.items()}
    inputs = {
        spec.name: Input(spec.name, C_TYPES[spec.dtype], spec.num_elements, repaired.get(spec.name, ""))
        for spec in model_inputs(policy, trace)
    }
    words: TemplateWords = {
        "space": "policy",
        "name": "",
        "selector": None,
        "sha256": content_hash([policy.weights.tobytes().hex(), policy.origin, *_rows(policy)]),
        "inputs": list(inputs.values()),
        "features": [inputs[name] for name in names],
        "overrides": _rows(policy),
        "told_apart": [inputs[name] for name in policy.overrides.features] if policy.overrides else [],
    }
    if not isinstance(model, Tree):
        words |= _network_words(policy)
    elif isinstance(actions, Binary):
        title, branches = f"a decision tree of {len(model.leaves)} leaves", list(_branches(model, names))
        words |= {"model": "tree", "title": title, "branches": branches}
    else:
        raise PolicyError(f"a tree becomes C++ where answers are yes or no; {policy.task} has others, take a network")
    if isinstance(actions, Categorical):
        words["mask"] = inputs[actions.mask]
    if isinstance(actions, Scalar):
        feature, least = actions.threshold
        words |= {
            "num_groups": actions.num_groups,
            "group": names.index(actions.group),
            "threshold": names.index(feature) if feature in names else None,
            "least": _float(least),
            "half": _float(actions.high / np.float32(2.0)),
        }
    return words


def _network_words(policy: Policy) -> TemplateWords:
    scaling, network = policy.normalisation, policy.base.network()
    groups = f" in {network.groups} groups" if network.groups > 1 else ""
    assert isinstance(scaling, Normalisation)
    unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
    return {
        "model": "network",
        "title": f"layers of {', '.join(map(str, network.widths))}{groups}",
        "scaling": {"unit": _floats(unit), "centre": _floats(scaling.centre), "scale": _floats(scaling.scale)},
        "clip": CLIP,
        "layers": [_layer(matrix, bias) for matrix, bias in policy.base.layers],
    }


def _rows(policy: Policy) -> list[list[str]]:
    """Overrides as literals of features and answer, in the order in which they are looked for."""
    if not (own := policy.overrides):
        return []
    rows = sorted(np.concatenate([own.questions, own.answers[:, None]], axis=1).tolist())
    return [[str(number) if number > -(2**63) else "INT64_MIN" for number in row] for row in rows]


def _branches(tree: Tree, names: Sequence[str], node: int = 0, indent: str = "  ") -> Iterator[str]:
    """Nested conditions; where one way ends at once, that way comes first, so that the other needs no block."""
    leaves = tree.leaves.tolist()
    if node in leaves:
        yield f"{indent}return {tree.value[node]!s}f; // leaf {leaves.index(node)}"
        return
    then, other, sign = int(tree.left[node]), int(tree.right[node]), "<="
    if other in leaves and then not in leaves:
        then, other, sign = other, then, ">"
    block = then not in leaves
    yield f"{indent}if ({names[tree.feature[node]]} {sign} {int(tree.threshold[node])}){' {' * block}"
    yield from _branches(tree, names, then, indent + "  ")
    if block:
        yield f"{indent}}}"
    yield from _branches(tree, names, other, indent)


def _layer(matrix: np.ndarray, bias: np.ndarray) -> dict[str, object]:
    """A matrix without the zeros at the ends of its rows: joined networks are mostly zeros."""
    rows: list[str] = []
    weights: list[float] = []
    groups = matrix[None] if matrix.ndim == 2 else matrix
    for number, group in enumerate(groups):
        for row in group:
            columns = np.flatnonzero(row)
            first, end = (int(columns[0]), int(columns[-1]) + 1) if columns.size else (0, 0)
            rows.append(f"{{{len(weights)},{number * group.shape[1] + first},{end - first}}}")
            weights += row[first:end].tolist()
    return {
        "num_inputs": len(rows),
        "num_outputs": bias.size,
        "rows": ",".join(rows),
        "weights": _floats(weights or [0.0]),
        "bias": _floats(bias),
    }


def _floats(values: Iterable[Any]) -> str:
    return ",".join(map(_float, values))


def _float(value: Any) -> str:
    """A literal that is exactly this float32."""
    return f"{float(np.float32(value)).hex()}f"


def _literal(text: str) -> str:
    """A string of C; what is no plain text of ASCII is written byte by byte."""
    plain = all(" " <= char <= "~" and char not in '"\\?' for char in text)
    return f'"{text}"' if plain else '"' + "".join(f"\\{byte:03o}" for byte in os.fsencode(text)) + '"'
