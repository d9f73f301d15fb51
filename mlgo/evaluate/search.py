"""Local search over single decisions: which other answers would have made a module smaller?

The idea of an autotuner for inlining, one decision at a time, is that of Theodoridis, Grosser and Su (Understanding
and Exploiting Optimal Function Inlining, ASPLOS 2022). Here the decisions are answers to the compiler's questions.

Where compiles tell the sizes of functions, one compile tries many decisions that reach no common function
(`AffectedFunctions`), and each is judged by the functions that it reaches. So a program of thousands of questions is
searched with some hundred compiles.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from mlgo.base.files import hash64
from mlgo.errors import ArtifactError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.actions import Observation
from mlgo.host.log import Header
from mlgo.host.session import CallAttribution
from mlgo.host.tasks.task import Decide, PureAdvisor, Responder
from mlgo.policy.policy import OverridingAdvisor, observation_keys
from mlgo.policy.stored import StoredPolicy
from mlgo.pool.tree_store import ReplayStore

Functions = frozenset[int]
"""Hashes of names, see `Credit.names`."""


class AffectedFunctions:
    """Which functions the decisions of one compile, int64 [num_questions], may change.

    A call of B in A that is inlined, or no longer, changes A; B, which may disappear; every function that A was inlined
    into; and the functions that B calls, which may disappear with it. Decisions that affect no common function do not
    disturb each other, but for what the compiler decides otherwise elsewhere.
    """

    def __init__(self, credit: CallAttribution, answers: np.ndarray) -> None:
        names = credit.names.tolist()
        self.callers = [names[number] for number in credit.callers.tolist()]
        self._callees = [names[number] for number in credit.callees.tolist()]
        self._answers: list[int] = answers.tolist()
        self._near: dict[int, set[int]] = defaultdict(set)  # callers and callees
        self._calls: dict[int, set[int]] = defaultdict(set)
        self._inlined_into: dict[int, set[int]] = defaultdict(set)
        for caller, callee, answer in zip(self.callers, self._callees, self._answers, strict=True):
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
        found = set[int]()
        for number in questions:
            caller, callee = self.callers[number], self._callees[number]
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


@dataclass(frozen=True)
class Labels:
    """What it has saved to turn answers of one compile round."""

    header: Header
    observations: np.ndarray  # uint8 [num_questions, payload_bytes]
    answers: np.ndarray  # int64 [num_questions]
    credit: CallAttribution | None
    flips: Sequence[tuple[Sequence[int], float]]  # questions, and bytes that other answers to them have saved


_Result = TypeVar("_Result")

MODULE_WIDE = ("node_count", "edge_count")
"""Features that count the whole module's functions and calls. One flipped answer changes them in all later questions,
so they are not used to tell questions apart."""

OF_OTHER_CALLS = ("callee_users", "cost_estimate", "last_call_to_static_bonus")
"""Features that change with other calls of the callee."""

_MAX_ALL = 10
"""Questions of which every group is tried. Half of the C modules of the corpus ask no more."""

_MAX_GROUP = 4
_DRAWS = 4  # groups drawn for each one wanted; some have been tried already
_MAX_TOGETHER = 64
"""Flips in one compile. More would change more elsewhere than they reach."""

_ENOUGH, _RIDGE, _MOST_SAVED = 200, 10.0, 100.0
"""Flips from which others are predicted, the penalty of the regression, and bytes that one of them counts at most."""

_MAX_CALLS = 16
"""Calls of a function that are turned round at once. It disappears with the last."""

_MOST_FAILED = 2
"""Unions without success after which a flip counts as one that does not help."""

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


class LearnedPromise:
    """How many bytes a flip may save, by ridge regression on those that were tried; a promise where these are few."""

    def __init__(self, first: Promise) -> None:
        self._first, self._known, self._saved = first, list[np.ndarray](), list[float]()
        self._rows = np.zeros((0, 0))  # of the questions that were asked about last

    def learn(self, saved: Mapping[int, float]) -> None:
        """Take labels of flips, by number of the question that was ranked last."""
        self._known += [self._rows[number] for number in saved]
        self._saved += saved.values()

    def __call__(self, header: Header, observations: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Rank questions as the first promise does, float64 [num]."""
        first = self._first(header, observations, answers)
        numbers = np.column_stack([logarithms(np.column_stack([observations, first])), np.ones(len(first))])
        self._rows = np.hstack([numbers * (answers == 0)[:, None], numbers * (answers != 0)[:, None]])
        if len(self._saved) < _ENOUGH:
            return first
        known = np.array(self._known)
        center, scale = known.mean(0), known.std(0) + 1e-9
        known, saved = (known - center) / scale, np.clip(self._saved, -_MOST_SAVED, _MOST_SAVED)
        weights = np.linalg.solve(known.T @ known + _RIDGE * np.eye(known.shape[1]), known.T @ (saved - saved.mean()))
        return np.asarray((self._rows - center) / scale @ weights)


def ask_trees(store: ReplayStore, module_sha256: str) -> Ask:
    """Questions of compiles of one module, from its response tree."""

    def ask(advisor: OverridingAdvisor) -> tuple[Header, np.ndarray, np.ndarray]:
        if (trees := store.load(module_sha256)) is not None:
            header, tree = trees.header, trees.by_context[0]  # the search is for modules that are decided as a whole
            walk = tree.walk(advisor.decide_for(header))
            if walk.leaf is not None:
                return header, tree.observations_at(walk.nodes), walk.answers
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
    tried: set[int] | None = None,
    take: Callable[[Labels], None] = lambda labels: None,
) -> Search:
    """Look for answers that make one module smaller.

    Begins with the best of the starts, and each function as in the start that answers it best. A round flips some
    answers of the best compile so far, the most promising first: one at a time, or, where compiles tell their
    functions, many that reach no common one. What helped is then tried together, see `_Round`. When every single flip
    has been tried in vain, groups are: all of them where there are few questions, else small random ones. Questions
    that come up after a flip are answered as in `SimilarAdvisor`. A failed compile is passed over.

    Args:
        ask: gives the questions of a compile that has been done.
        objective: size to make smaller, by the names of ``compile.objective``.
        left: how many compiles may still be asked for, after so many.
        flips_per_round: flips tried side by side; their number, not that of the workers, decides the results.
        tried: hashes of flips that were tried in vain by an earlier search, to which those of this one are added.
        take: called with what each round has found out about the compile that it turned round.
    """
    starts = list(starts[: left(0)])
    first = yield starts
    num_compiles, best = len(starts), smallest_of(starts, first, objective)
    flips, is_done = _Flips(ask, promise, rng, set() if tried is None else tried), False
    while best is not None and not is_done and left(num_compiles) > 0:
        trying = _Round(best, objective, flips.turn(best), flips.affected)
        if num_compiles == len(starts) and trying.judge([flips.as_in(one) for one in starts], first):
            num_compiles += yield from trying.together(left(num_compiles))
        while trying.smallest is best and not is_done and (room := left(num_compiles)) > 0:
            trials = flips.choose(min(flips_per_round, max(1, room - _NUM_UNIONS) if best.credit else room))
            num_compiles, is_done = num_compiles + len(trials), not trials
            if trials and (yield from trying.apart(trials)):
                num_compiles += yield from trying.together(left(num_compiles))
        take(flips.learn(trying.labels, best.credit))
        flips.try_again(
            one for one in trying.helpful if not one.answers.items() <= trying.smallest.advisor.answers.items()
        )
        flips.progress, best = flips.progress or trying.smallest is not best, trying.smallest
    return SearchResult(first, best.outcome if best else None, num_compiles)


@dataclass(frozen=True)
class TriedCompile:
    """A compile that ended well, and its size by the objective."""

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
    """Compiles with other answers than the best so far, one after the other, until one is smaller.

    ``labels`` are bytes that each flip has saved, by its questions; ``helpful`` flips are sorted, the best first.
    """

    def __init__(
        self, best: TriedCompile, objective: str, base: OverridingAdvisor, affected: AffectedFunctions | None
    ) -> None:
        self.smallest, self._best, self._objective, self._base, self._affected = best, best, objective, base, affected
        self.helpful, self.labels = list[_Flip](), dict[frozenset[bytes], float]()
        self._known, self._failed = set[frozenset[tuple[bytes, int]]](), Counter[frozenset[bytes]]()

    def apart(self, trials: Sequence[_Trial]) -> _Compiles[bool]:
        """Compile trials; whether they have found flips to try together."""
        return self.judge(trials, (yield from self._compile(trials)))

    def judge(self, trials: Sequence[_Trial], outcomes: Sequence[CompileOutcome]) -> bool:
        """Take compiles of trials; whether they have found flips to try together."""
        found: list[tuple[_Flip, float]] = []
        for trial, outcome in zip(trials, outcomes, strict=True):
            if outcome.result is not None and len(trial) == 1:
                found.append((trial[0], self._best.size - outcome.score(self._objective)))
            elif outcome.result is not None and outcome.result.credit is not None:
                found += zip(trial, self._saved_by(trial, outcome.result.credit), strict=True)
        self.labels |= {frozenset(flip.answers): saved for flip, saved in found}
        helped = [flip for flip, saved in found if saved > 0]
        every = [*self.helpful, *helped]
        self.helpful = sorted(every, key=lambda flip: -self.labels[frozenset(flip.answers)])
        return bool(helped) and len(every) > (max(map(len, trials)) == 1)  # else a trial has shown it

    def together(self, room: int) -> _Compiles[int]:
        """Compile flips that helped together; the number of compiles.

        First in unions that reach no common function; then all that help in that company, and those of the smallest
        alone; the same again for as long as that is smaller; and if nothing is, the better half, the better quarter and
        so on. A flip whose unions fail again and again helps no more: what it costs is elsewhere.
        """
        num_compiles, before, is_first = 0, self.smallest, True
        helpful = self.helpful
        unions = self._fresh(_packed(helpful, _NUM_UNIONS)) or self._fresh([helpful]) or [helpful[::2], helpful[1::2]]
        while unions := self._fresh(unions)[: room - num_compiles]:
            last = self.smallest
            outcomes = yield from self._compile(unions)
            num_compiles += len(unions)
            scores = [outcome.score(self._objective) for outcome in outcomes]
            least = min(range(len(unions)), key=lambda number: (np.isnan(scores[number]), scores[number]))
            kept = [self._kept(union, outcome) for union, outcome in zip(unions, outcomes, strict=True)]
            for union, score in zip(unions, scores if is_first else (), strict=is_first):
                self._failed.update(frozenset(flip.answers) for flip in union if not score < self._best.size)
            if any(kept) and (is_first or self.smallest is not last):
                every = {frozenset(flip.answers): flip for union in kept for flip in union}
                unions = [list(every.values()), kept[least]]
            else:
                unions = [unions[least][: len(unions[least]) // 2]] if self.smallest is before else []
            is_first = False
        self.helpful = [one for one in self.helpful if self._failed[frozenset(one.answers)] < _MOST_FAILED]
        return num_compiles

    def _kept(self, union: _Trial, outcome: CompileOutcome) -> list[_Flip]:
        """Those that help in this company."""
        if outcome.result is None or outcome.result.credit is None:
            return []
        pairs = zip(union, self._saved_by(union, outcome.result.credit), strict=True)
        return [flip for flip, saved in pairs if saved > 0]

    def _fresh(self, unions: Sequence[_Trial]) -> list[_Trial]:
        fresh = {frozenset(_joined(union).items()): union for union in unions if union}
        return [union for answers, union in fresh.items() if answers not in self._known]

    def _compile(self, trials: Sequence[_Trial]) -> _Compiles[list[CompileOutcome]]:
        self._known.update(frozenset(_joined(trial).items()) for trial in trials)
        advisors = [self._base.with_answers(_joined(trial)) for trial in trials]
        outcomes = yield advisors
        found = smallest_of(advisors, outcomes, self._objective)
        if found is not None and found.size < self.smallest.size:
            self.smallest = found
        return outcomes

    def _saved_by(self, flips: _Trial, credit: CallAttribution) -> list[float]:
        """Bytes that each of some flips has saved in a compile of all of them."""
        assert self._best.credit is not None
        assert self._affected is not None
        return self._affected.saved(sizes_of(self._best.credit), sizes_of(credit), [flip.reach for flip in flips])


def smallest_of(
    advisors: Sequence[OverridingAdvisor], outcomes: Sequence[CompileOutcome], objective: str
) -> TriedCompile | None:
    """The first of the smallest compiles; None when all failed."""
    done = [
        TriedCompile(advisor, outcome, outcome.score(objective))
        for advisor, outcome in zip(advisors, outcomes, strict=True)
        if outcome.result is not None
    ]
    return min(done, key=lambda one: one.size, default=None)


class _Flips:
    """Which flips to try next: single ones and the calls of one function while a pass helps, then groups."""

    def __init__(self, ask: Ask, promise: Promise, rng: np.random.Generator, tried: set[int]) -> None:
        self.progress = False
        self.affected: AffectedFunctions | None = None  # by the decisions of the compile that is turned round
        self._ask, self._promise, self._rng = ask, LearnedPromise(promise), rng
        self._tried = tried  # by `_hash_of`
        self._waiting = list[frozenset[bytes]]()  # what helped already, but was not kept
        self._candidates: Sequence[AbstractSet[bytes]] = ()  # the most promising first
        self._turned: Mapping[bytes, int] = {}  # the other answer to each question
        self._reach: Callable[[AbstractSet[bytes]], Functions] = lambda group: frozenset()

    def try_again(self, flips: Iterable[_Flip]) -> None:
        """Try these flips first, as the compile that they helped is not the best any more."""
        self._waiting = [frozenset(flip.answers) for flip in flips]
        self._tried.difference_update(map(_hash_of, self._waiting))

    def learn(self, labels: Mapping[frozenset[bytes], float], credit: CallAttribution | None) -> Labels:
        """Rank single flips by what others have saved, from the next compile on that is turned round."""
        self._promise.learn({self._questions[key][0]: saved for (key, *others), saved in labels.items() if not others})
        flips = [([number for key in sorted(keys) for number in self._questions[key]], labels[keys]) for keys in labels]
        header, payloads, answers, _ = self._asked
        return Labels(header, payloads, answers, credit, flips)

    def choose(self, count: int) -> list[_Trial]:
        """Up to ``count`` trials, with as many flips each as can be judged; none when all drawn have been tried."""
        turned = self._turned
        fresh = self._untried([*(group for group in self._waiting if group <= turned.keys()), *self._candidates])
        if not fresh and self.progress:
            self._tried.clear()
            self.progress = False
            fresh = self._untried(self._candidates)
        if not fresh and len(turned) > 1:
            fresh = self._untried(self._groups(_DRAWS * count))
        flips = (_Flip({key: turned[key] for key in sorted(group)}, self._reach(group)) for group in fresh)
        trials: list[_Trial] = (
            [[flip] for flip in itertools.islice(flips, count)] if self.affected is None else _packed(flips, count)
        )
        self._tried.update(_hash_of(flip.answers) for trial in trials for flip in trial)
        return trials

    def as_in(self, other: OverridingAdvisor) -> _Trial:
        """The compile that is turned round as another advisor answers it: a flip for each function that calls."""
        if self.affected is None:
            return []
        header, payloads, _, keys = self._asked
        answers, callers = other.decide_for(header)(payloads).tolist(), defaultdict[int, dict[bytes, int]](dict)
        for key, answer, caller in zip(keys, answers, self.affected.callers, strict=True):
            if answer == self._turned[key]:
                callers[caller][key] = answer
        return [_Flip(one, self._reach(one.keys())) for one in callers.values()]

    def turn(self, best: TriedCompile) -> OverridingAdvisor:
        """Go on from a compile; an advisor that answers its questions as it was, the base of those with flips."""
        header, payloads, answers = self._ask(best.advisor)
        promise = self._promise(header, header.scalars(payloads.tobytes()), answers).astype(np.float64)
        keys, turned = observation_keys(header, payloads, best.advisor.ignored), dict[bytes, int]()
        for i in np.argsort(-promise, kind="stable").tolist():
            turned.setdefault(keys[i], int(answers[i] == 0))
        self._turned, self._candidates = turned, [{key} for key in turned]
        self._asked = header, payloads, answers, keys
        self._questions = questions = defaultdict[bytes, list[int]](list)
        for number, key in enumerate(keys):
            questions[key].append(number)
        if best.credit is None:
            return best.advisor
        self.affected = affected = AffectedFunctions(best.credit, answers)
        ranked: list[tuple[float, AbstractSet[bytes]]] = [(promise[questions[key][0]], {key}) for key in turned]
        for calls in affected.calls_by_callee():
            group = {keys[number] for number in calls}
            if len(group) > 1 and len(calls) <= _MAX_CALLS:
                ranked.append((float(promise[calls].mean()), group))
        self._candidates = [group for _, group in sorted(ranked, key=lambda one: -one[0])]
        self._reach = lambda group: affected.of(number for key in group for number in questions[key])
        return pinned(best.advisor, header, payloads, answers)

    def _untried(self, groups: Iterable[AbstractSet[bytes]]) -> list[frozenset[bytes]]:
        return list(dict.fromkeys(group for group in map(frozenset, groups) if _hash_of(group) not in self._tried))

    def _groups(self, count: int) -> Iterator[AbstractSet[bytes]]:
        """Groups of questions: of few all, the small ones first; of many ``count``, drawn at random."""
        keys = list(self._turned)
        if len(keys) <= _MAX_ALL:
            sizes = range(2, len(keys) + 1)
            yield from (set(group) for size in sizes for group in itertools.combinations(keys, size))
            return
        for size in self._rng.integers(2, _MAX_GROUP, count, endpoint=True).tolist():
            yield {keys[i] for i in self._rng.choice(len(keys), size, replace=False)}


def _hash_of(questions: Iterable[bytes]) -> int:
    return hash64(b"".join(sorted(questions)))


@dataclass(frozen=True)
class SimilarAdvisor:
    """Says yes where its base does and the most similar of some questions was answered so, by logarithms of features.

    Each alone is misled: what was found is lost where the base alone answers, and inlining goes on and on where the
    most similar question alone does.
    """

    base: PureAdvisor
    features: tuple[str, ...]
    questions: np.ndarray  # float32 [num, num_features], logarithms
    answers: np.ndarray  # int64 [num]

    @classmethod
    def of(cls, base: PureAdvisor, header: Header, payloads: np.ndarray, answers: np.ndarray) -> "SimilarAdvisor":
        """Of questions of one compile: uint8 [num, payload_bytes], int64 [num]."""
        features = tuple(spec.name for spec in header.features if spec.name not in (*MODULE_WIDE, *OF_OTHER_CALLS))
        return cls(base, features, cls._rows(header, payloads, features), answers)

    @staticmethod
    def _rows(header: Header, payloads: np.ndarray, features: Sequence[str]) -> np.ndarray:
        return logarithms(header.numbers(payloads, features).astype(np.float32))

    def decide_for(self, header: Header) -> Decide:
        """Answers for many observations at once."""
        decide = self.base.decide_for(header)

        def decide_too(payloads: np.ndarray) -> np.ndarray:
            answers = np.array(decide(payloads))
            yes = np.flatnonzero(answers)
            rows = self._rows(header, payloads[yes], self.features)
            answers[yes] = self.answers[[int(np.abs(self.questions - row).sum(1).argmin()) for row in rows]]
            return answers

        return decide_too

    def respond_to(self, header: Header) -> Responder:
        """Bind to the compiler's features."""
        decide = self.decide_for(header)
        return lambda payload: decide(np.frombuffer(payload, np.uint8)[None]).tobytes()


def logarithms(numbers: np.ndarray) -> np.ndarray:
    """Logarithms of one more than the absolute values, with the sign, float64 [num, num_features]."""
    return np.sign(numbers) * np.log1p(np.abs(numbers))


def pinned(advisor: OverridingAdvisor, header: Header, payloads: np.ndarray, answers: np.ndarray) -> OverridingAdvisor:
    """An advisor that answers questions of a compile as there, and new ones as `SimilarAdvisor` does.

    Args:
        payloads: uint8 [num, payload_bytes].
        answers: int64 [num].
    """
    known: dict[bytes, int | None] = {}
    for key, answer in zip(observation_keys(header, payloads, advisor.ignored), answers.tolist(), strict=True):
        known[key] = answer if known.get(key, answer) == answer else None
    same = {key: answer for key, answer in {**advisor.answers, **known}.items() if answer is not None}
    base = advisor.base.base if isinstance(advisor.base, SimilarAdvisor) else advisor.base
    return OverridingAdvisor(SimilarAdvisor.of(base, header, payloads, answers), same, advisor.ignored)


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
    """Do many searches side by side, to keep workers busy; results in order, the same for any number of workers."""
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
