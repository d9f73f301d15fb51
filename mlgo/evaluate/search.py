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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
        self._inlined_into: dict[int, set[int]] = defaultdict(set)
        self._calls: dict[int, set[int]] = defaultdict(set)
        for caller, callee, answer in zip(self._callers, self._callees, answers.tolist(), strict=True):
            self._calls[caller].add(callee)
            if answer:
                self._inlined_into[callee].add(caller)

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


def sizes_of(credit: CallAttribution) -> dict[int, float]:
    """Bytes of each function that the object has."""
    pairs = zip(credit.names.tolist(), credit.sizes.tolist(), strict=True)
    return {name: size for name, size in pairs if size >= 0}


def saved(before: Mapping[int, float], after: Mapping[int, float], functions: Functions) -> float:
    """Bytes that functions have lost from one compile to another, see `sizes_of`; one that is gone has lost all."""
    return sum(before.get(one, 0.0) - after.get(one, 0.0) for one in sorted(functions))


Promise = Callable[[Header, np.ndarray, np.ndarray], np.ndarray]
"""How promising it is to turn each answer round: ``(header, observations int64 [num, num_features], answers int64
[num]) -> float64 [num]``, greater is tried earlier. May be a prediction of the bytes saved."""

Ask = Callable[[OverridingAdvisor], tuple[Header, np.ndarray, np.ndarray]]
"""Questions of a compile that is known: header, observations uint8 [num, payload_bytes], answers int64 [num]."""

Search = Generator[list[OverridingAdvisor], list[CompileOutcome], "SearchResult"]
"""Yields advisors to compile the module with, is sent their outcomes, and returns what it has found."""

MODULE_WIDE = ("node_count", "edge_count")
"""Features that count the whole module's functions and calls. One flipped answer changes them in all later questions,
so they are not used to tell questions apart."""

_MAX_GROUP = 4
_DRAWS = 4  # groups drawn for each one wanted; some have been tried already
_MAX_TOGETHER = 64
"""Flips in one compile. More would change more elsewhere than they reach."""


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
    budget: int,
    flips_per_round: int,
    rng: np.random.Generator,
) -> Search:
    """Look for answers that make one module smaller.

    Begins with the best of the starts. A round flips some answers of the best compile so far, the most promising
    first: one at a time, or, where compiles tell their functions, many that reach no common one. Of those that helped,
    all, the better half, the better quarter and so on are then tried together. When every single flip has been tried in
    vain, small random groups are flipped. What answers the questions that come up after a flip is said in
    `OverridingAdvisor`. A failed compile is passed over.

    Args:
        ask: gives the questions of a compile that has been done.
        objective: size to make smaller, by the names of ``compile.objective``.
        budget: compiles at most, the starts included.
        flips_per_round: flips tried side by side; their number, not that of the workers, decides the results.
    """
    starts = list(starts[:budget])
    first = yield starts
    num_compiles, best, flips = len(starts), _smallest(starts, first, objective), _Flips(ask, promise, rng)
    while best is not None and num_compiles < budget:
        trials = flips.choose(best, min(flips_per_round, budget - num_compiles))
        if not trials:
            break
        base = best.advisor.with_answers(flips.known)
        advisors = [base.with_answers(_joined(trial)) for trial in trials]
        outcomes = yield advisors
        num_compiles += len(trials)
        helpful = _helpful(best, trials, outcomes, objective)
        alone = max(map(len, trials)) == 1
        counts = [len(helpful) >> halved for halved in range(len(helpful).bit_length())]  # all, the better half ...
        unions = [_joined(helpful[:count]) for count in counts if count > alone]
        together = [base.with_answers(union) for union in unions[: budget - num_compiles]]
        if together:
            advisors, outcomes = advisors + together, outcomes + (yield together)
            num_compiles += len(together)
        found = _smallest(advisors, outcomes, objective)
        if found is not None and found.size < best.size:
            best, flips.progress = found, True
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


def _joined(flips: Iterable[_Flip]) -> dict[bytes, int]:
    return {key: answer for flip in flips for key, answer in flip.answers.items()}


def _helpful(
    best: _Compile, trials: Sequence[_Trial], outcomes: Sequence[CompileOutcome], objective: str
) -> list[_Flip]:
    """The flips that made the module smaller, or their functions; what saved most comes first."""
    found: list[tuple[float, _Flip]] = []
    before = sizes_of(best.credit) if best.credit else {}
    for trial, outcome in zip(trials, outcomes, strict=True):
        if len(trial) == 1:
            found.append((best.size - outcome.score(objective), trial[0]))  # NaN is not smaller
        elif outcome.result is not None and outcome.result.credit is not None:
            after = sizes_of(outcome.result.credit)
            found += [(saved(before, after, flip.reach), flip) for flip in trial]
    helped = [pair for pair in found if pair[0] > 0]
    return [flip for _, flip in sorted(helped, key=lambda pair: -pair[0])]


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
    """Which flips of a compile to try next: single ones, in passes for as long as a pass helps, then random groups."""

    def __init__(self, ask: Ask, promise: Promise, rng: np.random.Generator) -> None:
        self.progress, self.known = False, dict[bytes, int]()
        self._ask, self._promise, self._rng = ask, promise, rng
        self._tried: set[frozenset[bytes]] = set()

    def choose(self, best: _Compile, count: int) -> list[_Trial]:
        """Up to ``count`` trials, with as many flips each as can be judged; none when all drawn have been tried."""
        answers, reach = self._turned_round(best)
        fresh = self._untried({key} for key in answers)
        if not fresh and self.progress:
            self._tried.clear()
            self.progress = False
            fresh = self._untried({key} for key in answers)
        if not fresh and len(answers) > 1:
            fresh = self._untried(self._random_group(list(answers)) for _ in range(_DRAWS * count))
        flips = (_Flip({key: answers[key] for key in sorted(group)}, reach(group)) for group in fresh)
        trials: list[_Trial] = (
            [[flip] for flip in itertools.islice(flips, count)] if best.credit is None else _packed(flips, count)
        )
        self._tried.update(frozenset(flip.answers) for trial in trials for flip in trial)
        return trials

    def _turned_round(self, best: _Compile) -> tuple[dict[bytes, int], Callable[[AbstractSet[bytes]], Functions]]:
        """The other answer to each question of a compile, the most promising first; and what some of them reach."""
        header, payloads, answers = self._ask(best.advisor)
        promise = self._promise(header, header.scalars(payloads.tobytes()), answers)
        keys = observation_keys(header, payloads, best.advisor.ignored)
        turned: dict[bytes, int] = {}
        for i in np.argsort(-promise.astype(np.float64), kind="stable"):
            turned.setdefault(keys[i], int(answers[i] == 0))
        if best.credit is None:
            return turned, lambda group: frozenset()
        self.known = dict(zip(keys, answers.tolist(), strict=True))
        reach, questions = AffectedFunctions(best.credit, answers), defaultdict[bytes, list[int]](list)
        for number, key in enumerate(keys):
            questions[key].append(number)
        return turned, lambda group: reach.of(number for key in group for number in questions[key])

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
    return list(filter(None, trials))


def run_searches(
    host: CompileHost,
    searches: Sequence[Search],
    job: Callable[[int, OverridingAdvisor], CompileJob],
    label: str = "",
    judge: Callable[[int, Sequence[OverridingAdvisor], list[CompileOutcome]], list[CompileOutcome]] | None = None,
    num_threads: int = 1,
    after_round: Callable[[], bool] = lambda: True,
) -> list[SearchResult]:
    """Do many searches side by side, so that the workers always have enough to do.

    Args:
        job: one compile, by number of the search.
        judge: scores the outcomes of a search's round, by its number and advisors; by default they are scored already.
        num_threads: rounds that are judged at a time.
        after_round: called when all searches have done a round; a false result ends them.

    Returns:
        Their results, in order, of those that ended; the same for any number of workers.
    """
    wanted = {number: next(one) for number, one in enumerate(searches)}
    results: dict[int, SearchResult] = {}
    bar = tqdm(total=len(searches), desc=label, unit="module", disable=None if label else True)
    with bar as progress, ThreadPoolExecutor(num_threads) as pool:
        while wanted:
            jobs = [job(number, advisor) for number, advisors in wanted.items() for advisor in advisors]
            outcomes = iter(host.compile_all(jobs))
            rounds = [list(itertools.islice(outcomes, len(advisors))) for advisors in wanted.values()]
            judged = list(pool.map(judge, wanted, wanted.values(), rounds)) if judge else rounds
            for number, found in zip(list(wanted), judged, strict=True):
                try:
                    wanted[number] = searches[number].send(found)
                except StopIteration as end:
                    results[number] = end.value
                    del wanted[number]
                    progress.update()
            if not after_round():
                break
    return [results[number] for number in sorted(results)]
