"""SavedModels as others make them, written by TensorFlow in a process of its own; and what TensorFlow answers by them.

Shapes, types and names are those of LLVM's test models (scalars and rows of 33) and of google/ml-compiler-opt (a batch
of one). Imported by programs that `in_tensorflow` runs, never by the tests' own process.
"""

import pickle
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.deploy import import_model
from mlgo.deploy.export.tensorflow_forms import SavedModel, read_saved_model
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy

tf = import_tensorflow()

FED_IN_TRAINING = {"discount": tf.float32, "reward": tf.float32, "step_type": tf.int32}
CHEAP = 20
"""The model `cheap` inlines what costs less."""


class Model(tf.Module):
    """A rule from features by name to outputs by name."""

    def __init__(self, rule: Callable[[dict[str, Any]], dict[str, Any]], specs: Sequence[Any], **kept: Any) -> None:
        super().__init__()
        self.kept = kept
        names = [spec.name for spec in specs]
        function = tf.function(lambda *tensors: rule(dict(zip(names, tensors, strict=True))))
        self.signature = function.get_concrete_function(*specs)

    def save(self, folder: Path, key: str = "action") -> None:
        tf.saved_model.save(self, str(folder), signatures={key: self.signature})


def specs(names: Sequence[str], shape: tuple, dtype: Any = tf.int64, default: bool = False) -> list[Any]:
    """Features, and behind them what only training feeds."""
    found = [tf.TensorSpec(shape, dtype, name=name) for name in names]
    scalar = shape if shape in ((), (1,)) else shape[:-1]
    found += [tf.TensorSpec(scalar, kind, name=name) for name, kind in FED_IN_TRAINING.items()]
    return found + ([tf.TensorSpec(scalar, tf.int64, name="inlining_default")] if default else [])


def cheap(names: Sequence[str]) -> Model:
    """By hand: yes where `cost_estimate` is below 20. What only training feeds is looked at, and must be 0."""

    def rule(x: dict[str, Any]) -> dict[str, Any]:
        unfed = tf.cast(x["discount"] + x["reward"], tf.int64) + tf.cast(x["step_type"], tf.int64)
        return {"inlining_decision": tf.cast(x["cost_estimate"] + unfed + x["inlining_default"] < CHEAP, tf.int64)}

    return Model(rule, specs(names, (), default=True))


def always(names: Sequence[str]) -> Model:
    """As LLVM's own test model: a variable that is 1."""
    one = tf.Variable(1, dtype=tf.int64)
    return Model(lambda x: {"inlining_decision": one.read_value()}, specs(names, (), default=True), one=one)


def learned(names: Sequence[str]) -> Model:
    """As trained by ml-compiler-opt: shares of buckets with root and square, two layers, the larger of two logits."""
    rng, edges = np.random.default_rng(0), [-100, -30, -5, 0, 1, 2, 5, 10, 20, 50, 200, 1000]
    widths = (3 * len(names), 16, 2)
    layers = [
        (tf.Variable(rng.normal(size=size), dtype=tf.float32), tf.Variable(rng.normal(size=size[1]), dtype=tf.float32))
        for size in pairwise(widths)
    ]

    def rule(x: dict[str, Any]) -> dict[str, Any]:
        buckets = [tf.raw_ops.Bucketize(input=tf.cast(x[name], tf.float32), boundaries=edges) for name in names]
        shares = tf.cast(tf.stack(buckets, axis=-1), tf.float32) / len(edges)
        values = tf.concat([shares, tf.sqrt(shares), shares * shares], axis=-1)
        (first, bias), (last, last_bias) = layers
        logits = tf.nn.relu(values @ first + bias) @ last + last_bias
        return {"inlining_decision": tf.argmax(logits, axis=-1), "CategoricalProjectionNetwork_logits": logits}

    return Model(rule, specs(names, (1,)), layers=layers)


def first() -> Model:
    """As LLVM's own test model: the first register that may be freed."""
    return Model(
        lambda x: {"index_to_evict": tf.argmax(tf.cast(x["mask"], tf.int32), axis=-1)},
        specs(["mask", "is_free"], (33,)),
    )


def lightest() -> Model:
    """The legal column of the least density, in a batch of one."""
    density = tf.TensorSpec((1, 33), tf.float32, name="use_def_density")

    def rule(x: dict[str, Any]) -> dict[str, Any]:
        weights = tf.where(x["mask"] != 0, x["use_def_density"], tf.float32.max)
        return {"index_to_evict": tf.argmin(weights, axis=-1)}

    return Model(rule, [*specs(["mask"], (1, 33)), density])


def longest() -> Model:
    """As LLVM's own test model, the length of the live range; for any number of questions at a time."""
    return Model(lambda x: {"priority": tf.cast(x["li_size"], tf.float32)}, specs(["li_size", "stage"], (None,)))


def build(name: str, folder: Path, names: Sequence[str]) -> None:
    """Write a model that can be converted."""
    cost, yes = specs(["cost_estimate"], (1,)), _rule(inlining_decision=tf.ones([1], tf.int64))
    makers: dict[str, Callable[[], Model]] = {"first": first, "lightest": lightest, "longest": longest}
    makers |= {
        "cheap": lambda: cheap(names),
        "always": lambda: always(names),
        "learned": lambda: learned(names),
        "unknown-feature": lambda: Model(yes, specs(["cost_estimate", "loop_depth"], (1,))),
        "float-feature": lambda: Model(yes, specs(["cost_estimate"], (1,), tf.float32)),
        "wide-feature": lambda: Model(yes, specs(["cost_estimate"], (2,))),
        "drawing": lambda: Model(
            lambda x: {"inlining_decision": tf.cast(tf.random.uniform([1], seed=1) > 0.5, tf.int64)},
            cost,
        ),
    }
    makers[name]().save(folder)


def answers(folder: Path, questions: dict[str, np.ndarray], decision: str) -> np.ndarray:
    """What TensorFlow makes of questions, by feature [num, ...], one at a time; all else is 0."""
    action = tf.saved_model.load(str(folder)).signatures["action"]
    inputs = action.structured_input_signature[1]
    found = []
    for step in range(len(next(iter(questions.values())))):
        shapes = {name: [length or 1 for length in spec.shape] for name, spec in inputs.items()}
        fed = {
            name: tf.constant(questions[name][step].reshape(shapes[name]), spec.dtype)
            if name in questions
            else tf.zeros(shapes[name], spec.dtype)
            for name, spec in inputs.items()
        }
        found.append(action(**fed)[decision].numpy().item())
    return np.array(found)


def convert(*arguments: str) -> None:
    """As the program of mlgo does."""
    sys.argv = ["convert", *arguments]
    import_model.main()


def convert_bad(root: str, *names: str) -> None:
    """Models that are to be refused, with what becomes of them."""
    for name in names:
        build_bad(name, Path(root, name))
        Path(root, f"{name}.out").mkdir()
        convert(f"{root}/{name}", "", f"{root}/{name}.out")


def convert_good(name: str, root: str, *features: str) -> None:
    """A model and, in its folder ``out``, what it is converted to."""
    folder = Path(root, name)
    build(name, folder, features)
    (folder / "out").mkdir()
    import_model.convert(folder, "", folder / "out")


def convert_export(root: str, policy: str) -> None:
    """A policy's own SavedModel."""
    folder = Path(root)
    SavedModel().write(load_policy(Path(policy)), pickle.loads((folder / "trace").read_bytes()), folder / "model")
    (folder / "out").mkdir()
    import_model.convert(folder / "model", "", folder / "out")


def save_answers(folder: str, asked: str, decision: str) -> None:
    """Answers to questions of a file, beside it."""
    np.save(Path(asked).with_suffix(".npy"), answers(Path(folder), dict(np.load(asked)), decision))


def _rule(**outputs: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda x: {name: tf.identity(value) for name, value in outputs.items()}


def build_bad(name: str, folder: Path) -> None:
    """Write a model that is to be refused."""
    cost = specs(["cost_estimate"], (1,))
    yes = _rule(inlining_decision=tf.ones([1], tf.int64))
    no_shape = [tf.TensorSpec(None, tf.int64, name="cost_estimate")]
    models: dict[str, Callable[[], Model]] = {
        "no-decision": lambda: Model(_rule(chosen=tf.ones([1], tf.int64)), cost),
        "two-decisions": lambda: Model(
            _rule(inlining_decision=tf.ones([1], tf.int64), priority=tf.ones([1], tf.float32)), cost
        ),
        "small-decision": lambda: Model(_rule(inlining_decision=tf.ones([1], tf.int32)), cost),
        "wide-decision": lambda: Model(_rule(inlining_decision=tf.ones([2], tf.int64)), cost),
        "no-features": lambda: Model(yes, specs([], (1,))),
        "no-mask": lambda: Model(_rule(index_to_evict=tf.ones([1], tf.int64)), specs(["is_free"], (33,))),
        "text": lambda: Model(yes, specs(["cost_estimate"], (1,), tf.string)),
        "no-shape": lambda: Model(yes, no_shape),
        "operator": lambda: Model(
            lambda x: {
                "inlining_decision": tf.cast(
                    tf.linalg.det(tf.eye(2) * tf.cast(x["cost_estimate"], tf.float32)) > 0, tf.int64
                )
            },
            cost,
        ),
        "other-key": lambda: Model(yes, cost),
        "other-tag": lambda: Model(yes, cost),
        "damaged": lambda: Model(yes, cost),
        "no-variables": lambda: always(["cost_estimate"]),
    }
    models[name]().save(folder, "serving_default" if name == "other-key" else "action")
    graph = folder / "saved_model.pb"
    if name == "other-tag":
        model = read_saved_model(folder)
        model.meta_graphs[0].meta_info_def.tags[:] = ["train"]
        graph.write_bytes(model.SerializeToString())
    elif name == "damaged":
        graph.write_bytes(graph.read_bytes()[:100])
    elif name == "no-variables":
        for path in (folder / "variables").iterdir():
            path.unlink()
