"""A compiler in a few lines: a pure function of the answers, as the real one is."""

import hashlib

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.host.conversation import AnswerPrefix, KnownContext
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.objects.remarks import SpillCosts
from mlgo.pool.response_tree import ModuleLeaf
from mlgo.pool.tree_store import TreeKey
from tests.fakes.scores import scores, sizes

HEADER = Header(
    (TensorSpec("a", np.dtype(np.int64), (1,)), TensorSpec("b", np.dtype(np.int64), (1,))),
    TensorSpec("decision", np.dtype(np.int64), (1,)),
)
KEY = TreeKey("c" * 64, "x86_64-linux-gnu", "inline-size", "-Oz", 4.0)
MODULE = "abcd1234" * 8
WIDTH = HEADER.payload_bytes
MAX_DEPTH = 6


DEDUP_BYTES = (None, 77)


def observe(answers: tuple[int, ...], seed: int) -> np.ndarray | None:
    """The next observation, uint8 [WIDTH], or None when the compile is at its end."""
    digest = hashlib.sha256(repr((answers, seed)).encode()).digest()
    if len(answers) >= MAX_DEPTH or digest[31] < 40:
        return None
    # Few different values, so that equal observations occur at different nodes.
    return np.array([digest[0] % 4, digest[1] % 4], np.int64).view(np.uint8)


def leaf_of(answers: tuple[int, ...], seed: int) -> ModuleLeaf:
    digest = hashlib.sha256(repr(("leaf", answers, seed)).encode()).hexdigest()
    dedup_bytes = DEDUP_BYTES[int(digest[1], 16) % 2]
    return ModuleLeaf(sizes(int(digest[:6], 16), int(digest[6:12], 16), dedup_bytes), digest, digest[0] == "0")


def decide_by(policy: int):
    """A pure policy over the 16 possible observations, one bit each."""

    def decide(rows: np.ndarray) -> np.ndarray:
        values = np.ascontiguousarray(rows).view(np.int64)
        return (policy >> (4 * values[:, 0] + values[:, 1])) & 1

    return decide


def run(policy: int, seed: int) -> tuple[np.ndarray, np.ndarray, ModuleLeaf]:
    """Compile under a policy: observations, answers, result."""
    decide = decide_by(policy)
    observations, answers = [], ()
    while (observation := observe(answers, seed)) is not None:
        observations.append(observation)
        answers = (*answers, int(decide(observation[None])[0]))
    rows = np.array(observations, np.uint8).reshape(-1, WIDTH)
    return rows, np.array(answers, np.int64), leaf_of(answers, seed)


def result(policy: int, seed: int, num_known: int = 0) -> CompileResult:
    """The same as a session returns it."""
    observations, answers, leaf = run(policy, seed)
    return CompileResult(
        leaf.scores,
        leaf.object_sha256,
        0.1,
        leaf.truncated,
        header=HEADER,
        contexts=(("", len(answers)),),
        answers=answers.tobytes(),
        observations=observations[num_known:].tobytes(),
    )


NUM_FUNCTIONS = 4


def functions_result(policy: int, seed: int, path: AnswerPrefix | None = None) -> CompileResult:
    """A compile in code generation: each function asks and costs by itself; known questions are not recorded."""
    runs = [run(policy, 100 * seed + number) for number in range(NUM_FUNCTIONS)]
    checked = [len(one.checks) for one in path.contexts] if path is not None else [0] * NUM_FUNCTIONS
    return CompileResult(
        scores(1, 1),
        "ab" * 32,
        0.1,
        header=HEADER,
        contexts=tuple((f"f{number}", len(answers)) for number, (_, answers, _) in enumerate(runs)),
        answers=b"".join(answers.tobytes() for _, answers, _ in runs),
        observations=b"".join(rows[num:].tobytes() for (rows, _, _), num in zip(runs, checked, strict=True)),
        spills=tuple(
            SpillCosts(f"f{number}", leaf.scores["exec_bytes"] % 50, leaf.scores["text_bytes"] / 7)
            for number, (_, _, leaf) in enumerate(runs)
            if leaf.scores["exec_bytes"] % 3  # the others cost nothing, so the compiler does not name them
        ),
    )


def known(num_known: int) -> AnswerPrefix:
    """So many known questions of a module that is one context."""
    return AnswerPrefix((KnownContext("", (0,) * num_known, bytes(8 * num_known)),))


COMPILERS = pytest.mark.parametrize("compiler", [result, functions_result], ids=["whole modules", "functions"])
