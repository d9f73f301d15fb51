"""SavedModels as others make them, and what TensorFlow answers by them; imported by what `in_tensorflow` runs alone.

Shapes, types and names are of LLVM's test models (scalars, rows of 33) and of google/ml-compiler-opt (a batch of one).
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
from tensorflow.python.trackable.resource import CapturableResource  # noqa: E402

FED_IN_TRAINING = {"discount": tf.float32, "reward": tf.float32, "step_type": tf.int32}
CHEAP = 20  # the model `cheap` inlines what costs less


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


def _ones(length: int = 1, dtype: Any = tf.int64, output: str = "inlining_decision") -> Callable[[Any], dict[str, Any]]:
    return lambda x: {output: tf.ones([length], dtype)}


class Writing(CapturableResource):
    """A part of a model that writes a file when the model is loaded."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = str(file)

    def _create_resource(self) -> Any:
        return tf.raw_ops.AnonymousHashTable(key_dtype=tf.int64, value_dtype=tf.int64)

    def _initialize(self) -> int:
        if not tf.executing_eagerly():
            tf.raw_ops.WriteFile(filename=self._file, contents="")
        return 1


def build(name: str, folder: Path, names: Sequence[str]) -> None:
    """Write a model; some are to be refused."""
    cost, yes = specs(["cost_estimate"], (1,)), _ones()

    def determinant(x: dict[str, Any]) -> dict[str, Any]:
        return {
            "inlining_decision": tf.cast(tf.linalg.det(tf.eye(2) * tf.cast(x["cost_estimate"], tf.float32)), tf.int64)
        }

    def reading(x: dict[str, Any]) -> dict[str, Any]:
        return {"inlining_decision": tf.ones([1], tf.int64) + tf.strings.to_number(tf.io.read_file("/n"), tf.int64)}

    makers: dict[str, Callable[[], Model]] = {"first": first, "lightest": lightest, "longest": longest}
    makers |= {
        "cheap": lambda: cheap(names),
        "always": lambda: always(names),
        "learned": lambda: learned(names),
        "unknown-feature": lambda: Model(yes, specs(["cost_estimate", "loop_depth"], (1,))),
        "float-feature": lambda: Model(yes, specs(["cost_estimate"], (1,), tf.float32)),
        "wide-feature": lambda: Model(yes, specs(["cost_estimate"], (2,))),
        "drawing": lambda: Model(
            lambda x: {"inlining_decision": tf.cast(tf.random.uniform([1], seed=1) > 0.5, tf.int64)}, cost
        ),
        "no-decision": lambda: Model(_ones(output="chosen"), cost),
        "two-decisions": lambda: Model(lambda x: yes(x) | _ones(1, tf.float32, "priority")(x), cost),
        "small-decision": lambda: Model(_ones(1, tf.int32), cost),
        "wide-decision": lambda: Model(_ones(2), cost),
        "no-features": lambda: Model(yes, specs([], (1,))),
        "no-mask": lambda: Model(_ones(output="index_to_evict"), specs(["is_free"], (33,))),
        "text": lambda: Model(yes, specs(["cost_estimate"], (1,), tf.string)),
        "no-shape": lambda: Model(yes, [tf.TensorSpec(None, tf.int64, name="cost_estimate")]),
        "operator": lambda: Model(determinant, cost),
        "no-variables": lambda: always(["cost_estimate"]),
        "writing": lambda: Model(yes, cost, part=Writing(folder / "canary")),
        "reading": lambda: Model(reading, cost),
    }
    model = makers.get(name, lambda: Model(yes, cost))()
    model.save(folder, "serving_default" if name == "other-key" else "action")
    graph = folder / "saved_model.pb"
    if name == "other-tag":
        saved = read_saved_model(folder)
        saved.meta_graphs[0].meta_info_def.tags[:] = ["train"]
        graph.write_bytes(saved.SerializeToString())
    elif name == "damaged":
        graph.write_bytes(graph.read_bytes()[:100])
    elif name == "no-variables":
        for path in (folder / "variables").iterdir():
            path.unlink()


def answers(folder: Path, questions: dict[str, np.ndarray], decision: str) -> np.ndarray:
    """What TensorFlow makes of questions, by feature [num, ...], one at a time; all else is 0."""
    action = tf.saved_model.load(str(folder)).signatures["action"]
    found = []
    for step in range(len(next(iter(questions.values())))):
        fed = {}
        for name, spec in action.structured_input_signature[1].items():
            shape = [length or 1 for length in spec.shape]
            asked = questions[name][step].reshape(shape) if name in questions else np.zeros(shape)
            fed[name] = tf.constant(asked, spec.dtype)
        found.append(action(**fed)[decision].numpy().item())
    return np.array(found)


def convert(model: str, task: str, output: str) -> None:
    """As the program of mlgo does."""
    Path(output).mkdir()
    sys.argv = ["convert", model, task, output]
    import_model.main()


def convert_models(root: str, names: str, *features: str) -> None:
    """Models by name and, in their folders ``out``, what becomes of them."""
    for name in names.split():
        build(name, Path(root, name), features)
        convert(f"{root}/{name}", "", f"{root}/{name}/out")


def convert_export(root: str, policy: str) -> None:
    """A policy's own SavedModel."""
    folder = Path(root)
    SavedModel().write(load_policy(Path(policy)), pickle.loads((folder / "trace").read_bytes()), folder / "model")
    convert(f"{root}/model", "", f"{root}/out")


def save_answers(folder: str, asked: str, decision: str) -> None:
    """Answers to questions of a file, beside it."""
    np.save(Path(asked).with_suffix(".npy"), answers(Path(folder), dict(np.load(asked)), decision))
