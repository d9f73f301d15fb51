"""The response tree of one context: of a module, or of one function of a module.

A compile is a pure function of (compiler, module, flags, answers), and the next observation is a function of the
answers so far. So all compiles of a module form a tree: observations at its nodes, answers on its edges, results at
its leaves. Where each function is decided by itself, its questions and costs are a function of the answers given in it,
and all compiles form a tree for each function.

Nodes are stored in the order in which compiles brought them. The nodes that one compile added follow each other, a
run, so most edges lead from a node to the next one; only where a later compile branched off is an edge written down.
Observations may stay packed until a walk comes by: a walk sees few runs, and unpacked they take thirty times the
memory.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mlgo.errors import ReplayMismatch
from mlgo.host.tasks.task import Decide
from mlgo.objects.measures import MEASURES, Scores, known_score
from mlgo.objects.remarks import SpillCosts

_BLOCK = 256
_BLOCK_BYTES = 1 << 17
"""Nodes are decided in blocks of so many, and of so many bytes: fewer large ones, because each takes longer to decide,
in vain after the first answer that differs."""
_ROOT = -1
_BEGINNING = (_ROOT, 0)
_NONE = np.zeros(0, np.int64)
_MOST_UNPACKED = 16
"""Runs whose observations stay unpacked in a process, the last ones that walks have seen."""


@dataclass(frozen=True)
class ModuleLeaf:
    """What a finished compile gave, where the module is one context."""

    scores: Scores = field(hash=False)
    object_sha256: str
    truncated: bool

    def score(self, measure: str) -> float:
        """What it came to by one measure; `ValueError` where it is not known."""
        return known_score(self.scores, measure)


class FunctionLeaf(NamedTuple):
    """What one function cost, where each is a context; nothing for a function without any spills."""

    spills: tuple[SpillCosts, ...]

    def score(self, measure: str) -> float:
        """What it came to by a measure of functions."""
        return MEASURES[measure].of_functions(self.spills)


AnyLeaf = ModuleLeaf | FunctionLeaf


@dataclass(frozen=True)
class Walk:
    """How far the tree answers for a policy."""

    nodes: np.ndarray  # int64 [num_known], nodes visited, from the root
    answers: np.ndarray  # int64 [num_known], the policy's answers there
    leaf: AnyLeaf | None  # what the compile would give; None when the tree ends before the compile does


@dataclass(frozen=True, eq=False)
class PackedObservations:
    """Observations uint8 [num_new, payload_bytes] that are unpacked when they are asked for."""

    packed: bytes
    unpack: Callable[[bytes], np.ndarray]

    @property
    def nbytes(self) -> int:
        """Memory that they take as long as nobody asks."""
        return len(self.packed)


@dataclass(frozen=True)
class Branch:
    """What one compile adds to a tree."""

    node: int  # node from which it leaves the known part; -1 for the root
    answer: int  # answer given there; 0 at the root
    observations: np.ndarray | PackedObservations  # uint8 [num_new, payload_bytes]
    answers: np.ndarray  # int64 [num_new]
    leaf: AnyLeaf


class ResponseTree:
    """Observations, answers and results of all known compiles of one context.

    Attributes:
        num_bytes: memory that the nodes take.
        leaves: results, by the node and the answer after which nothing more was asked; -1 and 0 where nothing was.
    """

    def __init__(self, payload_bytes: int) -> None:
        self.payload_bytes = payload_bytes
        self.num_nodes = self.num_bytes = 0
        self.leaves: dict[tuple[int, int], AnyLeaf] = {}
        self._block = min(_BLOCK, max(1, _BLOCK_BYTES // payload_bytes))
        self._runs: list[Branch] = []  # each with the answers that lead from one of its nodes to the next
        self._starts: list[int] = []  # first nodes of the runs, ascending
        self._branches: dict[tuple[int, int], int] = {}  # (node, answer) -> first node of another run

    def observations_at(self, nodes: np.ndarray) -> np.ndarray:
        """Observations of a path, uint8 [num, payload_bytes]; nodes int64 [num], ascending, as on every way down."""
        if not len(nodes):
            return np.zeros((0, self.payload_bytes), np.uint8)
        runs = np.searchsorted(self._starts, nodes, side="right") - 1
        cuts = [0, *(np.flatnonzero(np.diff(runs)) + 1), len(nodes)]
        return np.concatenate(
            [
                self._observations(int(runs[begin]))[nodes[begin:end] - self._starts[runs[begin]]]
                for begin, end in pairwise(cuts)
            ]
        )

    def _observations(self, number: int) -> np.ndarray:
        """Observations of a run."""
        found = self._runs[number].observations
        return _unpacked(found) if isinstance(found, PackedObservations) else found

    def _run_of(self, node: int) -> tuple[int, int, int]:
        """Number, first node and end of the run in which a node stands."""
        number = bisect_right(self._starts, node) - 1
        end = self._starts[number + 1] if number + 1 < len(self._starts) else self.num_nodes
        return number, self._starts[number], end

    def walk(self, decide: Decide) -> Walk:
        """Follow a policy from the root as far as the tree is known."""
        descent = Descent(self)
        while len(descent.questions):
            descent.go_on(decide(descent.questions))
        return descent.walk()

    def beginning(self) -> int | AnyLeaf | None:
        """The first node; the result where nothing is asked; None when nothing is known."""
        return self.following(*_BEGINNING)

    def following(self, node: int, answer: int) -> int | AnyLeaf | None:
        """The node that an answer leads to; the result where nothing more is asked; None when that is not known."""
        if node != _ROOT:
            number, first, end = self._run_of(node)
            if node + 1 < end and self._runs[number].answers[node - first] == answer:
                return node + 1
        return self._branches.get((node, answer), self.leaves.get((node, answer)))

    def branch_of(
        self, observations: np.ndarray, answers: np.ndarray, leaf: AnyLeaf, num_checked: int = 0
    ) -> Branch | None:
        """What a whole compile adds; None when all of it is known, or when this tree lacks what it builds upon.

        The latter: the tree that answered in advance has been pruned meanwhile and another process has begun a new
        one. The first observations are lost with it.

        Args:
            observations: uint8 [num_questions - num_checked, payload_bytes].
            answers: int64 [num_questions].
            leaf: its result.
            num_checked: first questions that the session has compared with this tree; they have no observations here.
        """
        descent = Descent(self)
        while len(descent.questions):
            descent.go_on(answers[descent.num_answers :])
        known = descent.walk()
        num_known = len(known.nodes)
        if num_known < num_checked:
            return None
        agree = (self.observations_at(known.nodes[num_checked:]) == observations[: num_known - num_checked]).all(axis=1)
        if not agree.all():
            position = num_checked + int(np.argmin(agree))
            raise ReplayMismatch(f"question {position} is not the one at node {known.nodes[position]}")
        if known.leaf is not None and (num_known != len(answers) or known.leaf != leaf):
            raise ReplayMismatch(f"{num_known} known answers led to another result")
        if known.leaf is not None:
            return None
        node, answer = (int(known.nodes[-1]), int(answers[num_known - 1])) if num_known else _BEGINNING
        if num_known == len(answers) and isinstance(self.following(node, answer), int):
            raise ReplayMismatch(f"the compile ended after {num_known} answers, the tree goes on")
        return Branch(node, answer, observations[num_known - num_checked :], answers[num_known:], leaf)

    def add(self, branch: Branch) -> None:
        """Add what `branch_of` returned for this state of the tree; `ValueError` where it was made for another one."""
        edge = branch.node, branch.answer
        if not (0 <= branch.node < self.num_nodes or edge == _BEGINNING) or self.following(*edge) is not None:
            raise ValueError(f"a branch at node {branch.node} with answer {branch.answer}, where none can be")
        first, end = self.num_nodes, self.num_nodes + len(branch.answers)
        if first == end:
            self.leaves[edge] = branch.leaf
            return
        self.leaves[end - 1, int(branch.answers[-1])] = branch.leaf
        self._starts.append(first)
        self._runs.append(branch)
        self.num_bytes += branch.observations.nbytes + branch.answers.nbytes
        self._branches[edge] = first
        self.num_nodes = end

    def compiles(self) -> Iterator[Walk]:
        """All known compiles: their nodes from the root, their answers, their result."""
        for (node, answer), leaf in self.leaves.items():
            nodes, answers = [_NONE], [_NONE]
            while node != _ROOT:
                number, first, _ = self._run_of(node)
                run = self._runs[number]
                nodes.append(np.arange(first, node + 1))
                answers.append(np.append(run.answers[: node - first], answer))
                node, answer = run.node, run.answer
            yield Walk(np.concatenate(nodes[::-1]), np.concatenate(answers[::-1]), leaf)

    def run_from(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Observations and answers of a node and those that follow it, as many as are decided at once.

        uint8 [num, payload_bytes] and int64 [num].
        """
        number, first, end = self._run_of(node)
        here = slice(node - first, min(node + self._block, end) - first)
        return self._observations(number)[here], self._runs[number].answers[here]


class Descent:
    """One compile's way down a tree, from the root.

    Attributes:
        num_answers: given so far.
        questions: where answers are wanted next, uint8 [num, payload_bytes]; none where the tree ends.
    """

    def __init__(self, tree: ResponseTree) -> None:
        self._tree, self._nodes, self._answers, self.num_answers = tree, [_NONE], [_NONE], 0
        self._reach(tree.beginning())

    def _reach(self, place: int | AnyLeaf | None) -> None:
        self._place = place
        self.questions, self._usual = self._tree.observations_at(_NONE), _NONE
        if isinstance(place, int):
            self.questions, self._usual = self._tree.run_from(place)

    def go_on(self, answers: np.ndarray) -> None:
        """Answer the questions, int64 [num], up to the first answer that leads elsewhere; without any this is the end.

        Answers beyond those wanted are passed over.
        """
        assert isinstance(self._place, int)
        answers = answers[: len(self._usual)]
        differing = np.flatnonzero(answers != self._usual[: len(answers)])
        num = int(differing[0]) + 1 if differing.size else len(answers)
        end = self._place + num
        self._nodes.append(np.arange(self._place, end))
        self._answers.append(answers[:num])
        self.num_answers += num
        self._reach(self._tree.following(end - 1, int(answers[num - 1])) if num else None)

    def walk(self) -> Walk:
        """How far it came."""
        leaf = None if isinstance(self._place, int) else self._place
        return Walk(np.concatenate(self._nodes), np.concatenate(self._answers), leaf)


@lru_cache(_MOST_UNPACKED)
def _unpacked(observations: PackedObservations) -> np.ndarray:
    return observations.unpack(observations.packed)
