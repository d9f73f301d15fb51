"""The response trees of one module: one for each context, which is decided independently of the others.

For inlining a module is one context. In register allocation each function is: what is asked in it, and what it costs,
depends on the answers given in it alone. The compiler visits the contexts of a module always in the same order.
"""

import itertools
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mlgo.errors import ReplayMismatch
from mlgo.host.conversation import AnswerPrefix, KnownContext
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import Decide
from mlgo.objects.measures import MEASURES, SIZES, scores_of
from mlgo.objects.remarks import SpillCosts
from mlgo.pool.response_tree import AnyLeaf, Branch, Descent, FunctionLeaf, ModuleLeaf, ResponseTree, Walk

WHOLE_MODULE = ("",)
"""Contexts of a module that is decided as a whole."""

_ROWS = 512
"""Nodes of all trees that are decided at once, about."""


class Visit(NamedTuple):
    """What a compile shows of one context."""

    context: str
    observations: np.ndarray  # uint8 [num_questions - num_checked, payload_bytes]
    answers: np.ndarray  # int64 [num_questions]
    leaf: AnyLeaf
    num_checked: int  # first questions that the session has compared with known ones; they have no observations here


class Growth(NamedTuple):
    """What a compile adds to one tree."""

    tree: int
    branch: Branch


class ModuleTrees:
    """Trees of all contexts of a module, and the header of the questions in them."""

    def __init__(self, header: Header, contexts: Sequence[str]) -> None:
        assert header.advice is not None
        self.header, self.contexts, self._answer_dtype = header, tuple(contexts), header.advice.dtype
        self.by_context = [ResponseTree(header.payload_bytes) for _ in self.contexts]

    @property
    def whole(self) -> ResponseTree | None:
        """The tree of a module that is decided as a whole; None where its functions are, one by one."""
        return self.by_context[0] if self.contexts == WHOLE_MODULE else None

    @property
    def num_nodes(self) -> int:
        return sum(tree.num_nodes for tree in self.by_context)

    @property
    def num_leaves(self) -> int:
        """Known results, of the module or of its functions."""
        return sum(len(tree.leaves) for tree in self.by_context)

    @property
    def num_bytes(self) -> int:
        """Memory that the nodes take."""
        return sum(tree.num_bytes for tree in self.by_context)

    def walk(self, decide: Decide) -> list[Walk]:
        """Follow a policy down all trees, side by side, so that it decides many nodes at once."""
        if len(self.by_context) == 1:
            return [self.by_context[0].walk(decide)]
        descents = [Descent(tree) for tree in self.by_context]
        waiting = deque(one for one in descents if len(one.questions))
        while waiting:
            several: list[Descent] = []
            ends = [0]
            while waiting and ends[-1] < _ROWS:
                several.append(waiting.popleft())
                ends.append(ends[-1] + len(several[-1].questions))
            answers = decide(np.concatenate([one.questions for one in several]))
            for descent, own in zip(several, np.split(answers, ends[1:-1]), strict=True):
                descent.go_on(own)
            waiting += [one for one in several if len(one.questions)]
        return [one.walk() for one in descents]

    def path_of(self, walks: Sequence[Walk]) -> AnswerPrefix:
        """What a compile will ask that goes the same ways, one in each tree."""
        contexts = []
        for context, tree, walk in zip(self.contexts, self.by_context, walks, strict=True):
            checks = tuple(map(zlib.crc32, tree.observations_at(walk.nodes)))
            answers = walk.answers.astype(self._answer_dtype).tobytes()
            contexts.append(KnownContext(context, checks, answers, is_whole=walk.leaf is not None))
        return AnswerPrefix(tuple(contexts))

    def result_of(self, walks: Sequence[Walk], record: bool = False) -> CompileResult | None:
        """What a compile comes to that goes these ways, one in each tree; None where a tree ends before it does.

        Of a module that is decided as a whole, that is all that the compiler would give. Where functions are, it is
        what they cost and how much is asked: sizes are not known, and there is no object.
        """
        leaves, num_questions = [walk.leaf for walk in walks], sum(len(walk.nodes) for walk in walks)
        if isinstance(leaves[0], ModuleLeaf):
            (tree,), (walk,), leaf = self.by_context, walks, leaves[0]
            return CompileResult(
                scores_of(leaf.scores),
                leaf.object_sha256,
                0.0,
                leaf.truncated,
                header=self.header,
                contexts=((WHOLE_MODULE[0], num_questions),),
                answers=walk.answers.astype(self._answer_dtype).tobytes(),
                observations=tree.observations_at(walk.nodes).tobytes() if record else b"",
            )
        functions = [leaf for leaf in leaves if isinstance(leaf, FunctionLeaf)]
        if len(functions) < len(leaves):
            return None
        spills = tuple(costs for leaf in functions for costs in leaf.spills)
        costs = {name: measure.of_functions(spills) for name, measure in MEASURES.items() if measure.is_by_function}
        contexts = (("", num_questions),)
        return CompileResult(scores_of(costs), "", 0.0, header=self.header, contexts=contexts, spills=spills)

    def visits(self) -> Iterator[tuple[int, Visit]]:
        """What all known compiles show, each with the number of its tree."""
        for place, (context, tree) in enumerate(zip(self.contexts, self.by_context, strict=True)):
            for walk in tree.compiles():
                assert walk.leaf is not None
                yield place, Visit(context, tree.observations_at(walk.nodes), walk.answers, walk.leaf, 0)

    def take_in(self, visits: Iterable[tuple[int, Visit]], *, grow: bool = True) -> list[Growth]:
        """Compare visits, each with the number of its tree, with the trees; returns what is new, in order.

        With ``grow`` it is added.
        """
        taken = []
        for place, visit in visits:
            try:
                branch = self.by_context[place].branch_of(*visit[1:])
            except ReplayMismatch as error:
                raise ReplayMismatch(f"{visit.context}: {error}" if visit.context else str(error)) from error
            if branch is not None and grow:
                taken.append(Growth(place, branch))
                self.add(taken[-1:])
        return taken

    def add(self, growth: Iterable[Growth]) -> None:
        """Add what `take_in` gave for this state of the trees; raises as `ResponseTree.add`."""
        for place, branch in growth:
            self.by_context[place].add(branch)


def check_order(found: Sequence[str], known: Sequence[str]) -> None:
    """See that the compiler visits the contexts that it visited before."""
    for place, (one, other) in enumerate(itertools.zip_longest(found, known)):
        if one != other:
            raise ReplayMismatch(f"context {place} is {one!r}, before it was {other!r}")


def visits_of(result: CompileResult, known: AnswerPrefix | None) -> list[Visit] | None:
    """Take a recorded compile apart.

    None where that cannot be done: a context that is left and visited again, or costs of something that is no context
    or in another order than theirs.
    """
    questions = result.questions()
    answers, observations = questions.answers.astype(np.int64), questions.observations
    if result.spills is None:
        num_known = known.num_questions if known is not None else 0
        leaf = ModuleLeaf({name: result.scores[name] for name in SIZES}, result.object_sha256, result.truncated)
        return [Visit(WHOLE_MODULE[0], observations, answers, leaf, num_known)]
    names = [name for name, _ in result.visits()]
    checked = [len(one.checks) for one in known.contexts] if known is not None else [0] * len(names)
    costs: dict[str, list[SpillCosts]] = {name: [] for name in names}
    for one in result.spills:
        if one.function in costs:
            costs[one.function].append(one)
    if len(costs) < len(names) or [one for some in costs.values() for one in some] != list(result.spills):
        return None
    visits, asked, recorded = [], 0, 0
    for (name, count), num_checked in zip(result.visits(), checked, strict=True):
        num_new = count - num_checked
        seen, given = observations[recorded : recorded + num_new], answers[asked : asked + count]
        visits.append(Visit(name, seen, given, FunctionLeaf(tuple(costs[name])), num_checked))
        asked, recorded = asked + count, recorded + num_new
    return visits
