"""Local search over single decisions: which other answers would have made a module smaller?

The idea of an autotuner for inlining, one decision at a time, is that of Theodoridis, Grosser and Su (Understanding
and Exploiting Optimal Function Inlining, ASPLOS 2022). Here the decisions are answers to the compiler's questions.

Where compiles tell the sizes of functions, one compile tries many decisions that reach no common function
(`AffectedFunctions`), and each is judged by the functions that it reaches. So a program of thousands of questions is
searched with some hundred compiles.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from mlgo.errors import ArtifactError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.actions import Observation
from mlgo.host.log import Header
from mlgo.host.session import CallAttribution
from mlgo.policy.policy import OverridingAdvisor, observation_keys
from mlgo.policy.stored import StoredPolicy
from mlgo.pool.tree_store import ReplayStore

Functions = frozenset[int]
"""Hashes of names, see `Credit.names`."""


class AffectedFunctions:
    """Which functions the decisions of one compile may change.

    A call of B in A that is inlined, or no longer, changes A; B, which may disappear; every function that A was inlined
    into; and the functions that B calls, which may disappear with it. Decisions that affect no common function do not
    disturb each other, but for what the compiler decides otherwise elsewhere.

    Args:
        answers: int64 [num_questions].
    """

    def __init__(self, credit: CallAttribution, answers: np.ndarray) -> None:
        names = credit.names.tolist()
        self._callers = [names[number] for number in credit.callers.tolist()]
        self._callees = [names[number] for number in credit.callees.tolist()]
        self._answers: list[int] = answers.tolist()
        self._near: dict[int, set[int]] = defaultdict(set)  # callers and callees
        self._inlined_into: dict[int, set[int]] = defaultdict(set)
        self._calls: dict[int, set[int]] = defaultdict(set)
        for caller, callee, answer in zip(self._callers, self._callees, self._answers, strict=True):
            self._calls[caller].add(callee)
            self._near[caller].add(callee)
            self._near[callee].add(caller)
            if answer:
                self._inlined_into[callee].add(caller)

    def calls_by_callee(self) -> list[list[int]]:
        """Questions about calls of the same function that were answered alike, in the order of the first."""
        found = defaultdict[tuple[int, int], list[int]](list)
        for number, call in enumerate(zip(self._callees, self._answers, strict=True)):
            found[call].append(number)
        return list(found.values())

    def of(self, questions: Iterable[int]) -> Functions:
        """Functions that the answers to some questions may change."""
        found: set[int] = set()
        for number in questions:
            caller, callee = self._callers[number], self._callees[number]
            around, left = {caller}, [caller]  # and all that it was inlined into, directly or not
            while left:
                fresh = self._inlined_into[left.pop()] - around
                around |= fresh
                left += fresh
            found |= {callee} | self._calls[callee] | around
        return frozenset(found)

    def saved(
        self, before: Mapping[int, float], after: Mapping[int, float], reached: Sequence[Functions]
    ) -> list[float]:
        """Bytes that each of some flips has saved in one compile, by what they reach; see `sizes_of`.

        What several reach is shared by them. So is what none reaches, by those that reach a caller or callee of it:
        what is decided about a function after it has changed, changes others. One that is gone has lost all.
        """
        owners, found = defaultdict[int, list[int]](list), [0.0] * len(reached)
        for number, functions in enumerate(reached):
            for one in functions:
                owners[one].append(number)
        for one in sorted(before.keys() | after.keys()):
            change = before.get(one, 0.0) - after.get(one, 0.0)
            if change:
                own = owners.get(one) or sorted({n for near in self._near[one] for n in owners.get(near, ())})
                for number in own:
                    found[number] += change / len(own)
        return found


def sizes_of(credit: CallAttribution) -> dict[int, float]:
    """Bytes of each function that the object has."""
    pairs = zip(credit.names.tolist(), credit.sizes.tolist(), strict=True)
    return {name: size for name, size in pairs if size >= 0}


Promise = Callable[[Header, np.ndarray, np.ndarray], np.ndarray]
"""How promising it is to turn each answer round: ``(header, observations int64 [num, num_features], answers int64
[num]) -> float64 [num]``, greater is tried earlier. May be a prediction of the bytes saved."""

Ask = Callable[[OverridingAdvisor], tuple[Header, np.ndarray, np.ndarray]]
"""Questions of a compile that is known: header, observations uint8 [num, payload_bytes], answers int64 [num]."""

Search = Generator[list[OverridingAdvisor], list[CompileOutcome], "SearchResult"]
"""Yields advisors to compile the module with, is sent their outcomes, and returns what it has found."""

_Result = TypeVar("_Result")

MODULE_WIDE = ("node_count", "edge_count")
"""Features that count the whole module's functions and calls. One flipped answer changes them in all later questions,
so they are not used to tell questions apart."""

_MAX_GROUP = 4
_DRAWS = 4  # groups drawn for each one wanted; some have been tried already
_MAX_TOGETHER = 64
"""Flips in one compile. More would change more elsewhere than they reach."""

_MAX_CALLS = 16
"""Calls of a function that are turned round at once. It disappears with the last."""

_NUM_UNIONS = 3
"""Compiles of a round that are kept for what helped together."""


@dataclass(frozen=True)
class SearchResult:
    """What a search has found."""

    start: list[CompileOutcome]  # outcome of each start, in their order; without those that the budget did not allow
    best: CompileOutcome | None  # outcome of the smallest compile; None when no start compiled
    num_compiles: int  # compiles asked for, whether done or found in the trees


def doubt_of(policy: StoredPolicy) -> Promise:
    """Flip first what the policy is least sure of: answers that it would not give, then logits close to 0."""

    def promise(header: Header, observations: np.ndarray, answers: np.ndarray) -> np.ndarray:
        columns = [header.index(name) for name in policy.features]
        logits = policy.logits(Observation(observations[:, columns])).astype(np.float64)
        return np.where(answers != 0, -logits, logits)

    return promise


def ask_trees(store: ReplayStore, module_sha256: str) -> Ask:
    """Questions of compiles of one module, from its response tree."""

    def ask(advisor: OverridingAdvisor) -> tuple[Header, np.ndarray, np.ndarray]:
        if (trees := store.load(module_sha256)) is not None:
            header, tree = trees.header, trees.by_context[0]  # the search is for modules that are decided as a whole
            walk = tree.walk(advisor.decide_for(header))
            if walk.leaf is not None:
                return header, tree.observations[walk.nodes], walk.answers
        raise ArtifactError(f"the tree of module {module_sha256[:16]} was pruned during the search; run it again")

    return ask


def search(
    starts: Sequence[OverridingAdvisor],
    ask: Ask,
    promise: Promise,
    objective: str,
    left: Callable[[int], int],
    flips_per_round: int,
    rng: np.random.Generator,
) -> Search:
    """Look for answers that make one module smaller.

    Begins with the best of the starts. A round flips some answers of the best compile so far, the most promising
    first: one at a time, or, where compiles tell their functions, many that reach no common one. What helped is then
    tried together, see `_Round`. When every single flip has been tried in vain, small random groups are flipped. What
    answers the questions that come up after a flip is said in `OverridingAdvisor`. A failed compile is passed over.

    Args:
        ask: gives the questions of a compile that has been done.
        objective: size to make smaller, by the names of ``compile.objective``.
        left: how many compiles may still be asked for, after so many.
        flips_per_round: flips tried side by side; their number, not that of the workers, decides the results.
    """
    starts = list(starts[: left(0)])
    first = yield starts
    num_compiles, best, flips = len(starts), _smallest(starts, first, objective), _Flips(ask, promise, rng)
    while best is not None and (room := left(num_compiles)) > 0:
        trials = flips.choose(best, min(flips_per_round, max(1, room - _NUM_UNIONS) if best.credit else room))
        if not trials:
            break
        trying = _Round(best, objective, best.advisor.with_answers(flips.known), flips.affected)
        helpful = yield from trying.apart(trials)
        num_compiles += len(trials)
        if len(helpful) > (max(map(len, trials)) == 1):  # else a trial has shown it
            num_compiles += yield from trying.together(helpful, left(num_compiles))
        if trying.smallest is not best:
            best, flips.progress = trying.smallest, True
            flips.try_again(one for one in helpful if not one.answers.items() <= best.advisor.answers.items())
    return SearchResult(first, best.outcome if best else None, num_compiles)


@dataclass(frozen=True)
class _Compile:
    advisor: OverridingAdvisor
    outcome: CompileOutcome
    size: float

    @property
    def credit(self) -> CallAttribution | None:
        return self.outcome.result.credit if self.outcome.result else None


@dataclass(frozen=True)
class _Flip:
    """Other answers than before, by key of the observation, and the functions that these may change."""

    answers: Mapping[bytes, int]
    reach: Functions = frozenset()


_Trial = Sequence[_Flip]  # flips that one compile tries
_Compiles = Generator[list[OverridingAdvisor], list[CompileOutcome], _Result]


def _joined(flips: Iterable[_Flip]) -> dict[bytes, int]:
    return {key: answer for flip in flips for key, answer in flip.answers.items()}


class _Round:
    """Compiles with other answers than the best so far, one after the other.

    Attributes:
        smallest: the first of the smallest compiles, the best before among them.
    """

    def __init__(
        self, best: _Compile, objective: str, base: OverridingAdvisor, affected: AffectedFunctions | None
    ) -> None:
        self.smallest, self._best, self._objective, self._base, self._affected = best, best, objective, base, affected
        self._known = list[dict[bytes, int]]()

    def apart(self, trials: Sequence[_Trial]) -> _Compiles[list[_Flip]]:
        """Compile trials; their flips that made the module, or its functions, smaller, the most helpful first."""
        found: list[tuple[float, _Flip]] = []
        for trial, outcome in zip(trials, (yield from self._compile(trials)), strict=True):
            if len(trial) == 1:
                found.append((self._best.size - outcome.score(self._objective), trial[0]))  # NaN is not smaller
            elif outcome.result is not None and outcome.result.credit is not None:
                found += zip(self._saved(outcome.result.credit, trial), trial, strict=True)
        helped = [pair for pair in found if pair[0] > 0]
        return [flip for _, flip in sorted(helped, key=lambda pair: -pair[0])]

    def together(self, helpful: _Trial, room: int) -> _Compiles[int]:
        """Compile flips that helped together; the number of compiles.

        All, and those that reach no common function; of the smaller, those that help in that company, too, for as long
        as that is smaller; and if nothing is, the better half, the better quarter and so on.
        """
        num_compiles, before, unions = 0, self.smallest, [helpful, _disjoint(helpful)]
        while unions := self._fresh(unions)[: room - num_compiles]:
            last = self.smallest
            outcomes = yield from self._compile(unions)
            num_compiles += len(unions)
            scores = [outcome.score(self._objective) for outcome in outcomes]
            least = min(range(len(unions)), key=lambda number: (np.isnan(scores[number]), scores[number]))
            result, union = outcomes[least].result, unions[least]
            if result is not None and result.credit is not None and (self.smallest is not last or num_compiles <= 2):
                pairs = zip(union, self._saved(result.credit, union), strict=True)
                unions = [[flip for flip, saved in pairs if saved > 0]]
            else:
                unions = [union[: len(union) // 2]] if self.smallest is before else []
        return num_compiles

    def _fresh(self, unions: Sequence[_Trial]) -> list[_Trial]:
        fresh = {frozenset(_joined(union).items()): union for union in unions}
        return [union for union in fresh.values() if union and _joined(union) not in self._known]

    def _compile(self, trials: Sequence[_Trial]) -> _Compiles[list[CompileOutcome]]:
        self._known += map(_joined, trials)
        advisors = [self._base.with_answers(_joined(trial)) for trial in trials]
        outcomes = yield advisors
        found = _smallest(advisors, outcomes, self._objective)
        if found is not None and found.size < self.smallest.size:
            self.smallest = found
        return outcomes

    def _saved(self, credit: CallAttribution, flips: _Trial) -> list[float]:
        """Bytes that each of some flips has saved in a compile of all of them."""
        assert self._best.credit is not None
        assert self._affected is not None
        return self._affected.saved(sizes_of(self._best.credit), sizes_of(credit), [flip.reach for flip in flips])


def _disjoint(flips: Iterable[_Flip]) -> list[_Flip]:
    """Flips, the first first, that reach no common function."""
    found, reached = list[_Flip](), set[int]()
    for flip in flips:
        if reached.isdisjoint(flip.reach):
            found.append(flip)
            reached |= flip.reach
    return found


def _smallest(
    advisors: Sequence[OverridingAdvisor], outcomes: Sequence[CompileOutcome], objective: str
) -> _Compile | None:
    """The first of the smallest compiles; None when all failed."""
    done = [
        _Compile(advisor, outcome, outcome.score(objective))
        for advisor, outcome in zip(advisors, outcomes, strict=True)
        if outcome.result is not None
    ]
    return min(done, key=lambda one: one.size, default=None)


class _Flips:
    """Which flips of a compile to try next.

    Single ones and the calls of one function, in passes for as long as a pass helps, then random groups.
    """

    def __init__(self, ask: Ask, promise: Promise, rng: np.random.Generator) -> None:
        self.progress, self.known = False, dict[bytes, int]()
        self.affected: AffectedFunctions | None = None  # by the decisions of the compile that is turned round
        self._ask, self._promise, self._rng = ask, promise, rng
        self._tried: set[frozenset[bytes]] = set()
        self._waiting = list[frozenset[bytes]]()  # what helped already, but was not kept

    def try_again(self, flips: Iterable[_Flip]) -> None:
        """Try these flips first, as the compile that they helped is not the best any more."""
        self._waiting = [frozenset(flip.answers) for flip in flips]
        self._tried.difference_update(self._waiting)

    def choose(self, best: _Compile, count: int) -> list[_Trial]:
        """Up to ``count`` trials, with as many flips each as can be judged; none when all drawn have been tried."""
        candidates, answers, reach = self._turned_round(best)
        waiting = [group for group in self._waiting if group <= answers.keys()]
        fresh = self._untried([*waiting, *candidates])
        if not fresh and self.progress:
            self._tried.clear()
            self.progress = False
            fresh = self._untried(candidates)
        if not fresh and len(answers) > 1:
            fresh = self._untried(self._random_group(list(answers)) for _ in range(_DRAWS * count))
        flips = (_Flip({key: answers[key] for key in sorted(group)}, reach(group)) for group in fresh)
        trials: list[_Trial] = (
            [[flip] for flip in itertools.islice(flips, count)] if best.credit is None else _packed(flips, count)
        )
        self._tried.update(frozenset(flip.answers) for trial in trials for flip in trial)
        return trials

    def _turned_round(
        self, best: _Compile
    ) -> tuple[Sequence[AbstractSet[bytes]], dict[bytes, int], Callable[[AbstractSet[bytes]], Functions]]:
        """What to turn round, the most promising first; the other answer to each question; and what some reach."""
        header, payloads, answers = self._ask(best.advisor)
        promise = self._promise(header, header.scalars(payloads.tobytes()), answers).astype(np.float64)
        keys = observation_keys(header, payloads, best.advisor.ignored)
        turned: dict[bytes, int] = {}
        order = np.argsort(-promise, kind="stable").tolist()
        for i in order:
            turned.setdefault(keys[i], int(answers[i] == 0))
        if best.credit is None:
            return [{key} for key in turned], turned, lambda group: frozenset()
        self.known = dict(zip(keys, answers.tolist(), strict=True))
        self.affected = affected = AffectedFunctions(best.credit, answers)
        questions = defaultdict[bytes, list[int]](list)
        for number, key in enumerate(keys):
            questions[key].append(number)
        ranked: list[tuple[float, AbstractSet[bytes]]] = [(promise[questions[key][0]], {key}) for key in turned]
        for calls in affected.calls_by_callee():
            group = {keys[number] for number in calls}
            if len(group) > 1 and len(calls) <= _MAX_CALLS:
                ranked.append((float(promise[calls].mean()), group))
        candidates = [group for _, group in sorted(ranked, key=lambda one: -one[0])]
        return candidates, turned, lambda group: affected.of(number for key in group for number in questions[key])

    def _untried(self, groups: Iterable[AbstractSet[bytes]]) -> list[frozenset[bytes]]:
        return list(dict.fromkeys(group for group in map(frozenset, groups) if group not in self._tried))

    def _random_group(self, keys: list[bytes]) -> set[bytes]:
        size = min(len(keys), int(self._rng.integers(2, _MAX_GROUP, endpoint=True)))
        return {keys[i] for i in self._rng.choice(len(keys), size, replace=False)}


def _packed(flips: Iterable[_Flip], count: int) -> list[_Trial]:
    """Trials of flips that reach no common function, each flip in the first that has room for it."""
    trials: list[list[_Flip]] = [[] for _ in range(count)]
    reached: list[set[int]] = [set() for _ in range(count)]
    for flip in flips:
        for trial, functions in zip(trials, reached, strict=True):
            if len(trial) < _MAX_TOGETHER and functions.isdisjoint(flip.reach):
                trial.append(flip)
                functions |= flip.reach
                break
        else:
            if all(len(trial) == _MAX_TOGETHER for trial in trials):
                break
    return list(filter(None, trials))


def run_searches(
    host: CompileHost, searches: Sequence[Search], job: Callable[[int, OverridingAdvisor], CompileJob], label: str = ""
) -> list[SearchResult]:
    """Do many searches side by side, so that the workers always have enough to do.

    Args:
        job: one compile, by number of the search.

    Returns:
        Their results, in order; the same for any number of workers.
    """
    wanted = {number: next(one) for number, one in enumerate(searches)}
    results: dict[int, SearchResult] = {}
    with tqdm(total=len(searches), desc=label, unit="module", disable=None if label else True) as progress:
        while wanted:
            jobs = [job(number, advisor) for number, advisors in wanted.items() for advisor in advisors]
            outcomes = iter(host.compile_all(jobs))
            for number, advisors in list(wanted.items()):
                try:
                    wanted[number] = searches[number].send(list(itertools.islice(outcomes, len(advisors))))
                except StopIteration as end:
                    results[number] = end.value
                    del wanted[number]
                    progress.update()
    return [results[number] for number in sorted(results)]
