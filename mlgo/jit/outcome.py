"""What a compile of a method gives: the line of metrics that a Checked .NET JIT prints, and what is kept of it.

One line, here folded::

    ; Total bytes of code D, prolog size D, PerfScore F, instruction count D, allocated bytes for code D,
      num cse D num cand D<heuristic> spmi index D (MethodHash=hhhhhhhh) for method NAME (TIER)

    <heuristic> of the hook:  [ featureNames a,b,...] *( features #N,D,...) [ seq D,...]
    <heuristic> of others:     NAME seq D,... [words]

Sources: src/coreclr/jit/codegencommon.cpp and, for the part of the heuristic, src/coreclr/jit/optcse.cpp of
dotnet/runtime. The two kinds of ``seq`` differ: the hook repeats what it was told, counted from 0; all others count
from 1 and end with a 0 that means *stop*. Where the JIT repeats its optimization, their lists follow each other, each
with its 0, and ``num cand`` counts the candidates of the last. Where there is nothing to decide, without candidates or
without the phase (Tier0, MinOpts), a blank is all that follows ``seq``. A blank may follow the line, or a list in it.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlgo.errors import MetricsError

Decisions = tuple[int, ...]
"""Positions of the candidates to eliminate, from 0, in the order in which the JIT is to do so; empty for none."""

VIABLE = "viable"
"""Feature that tells whether the JIT would perform a candidate."""

BASELINES: tuple[Decisions | None, ...] = ((), None)
"""Without elimination, and under the built-in heuristic."""


@dataclass(frozen=True)
class Candidates:
    """Common subexpressions that could be eliminated in a method."""

    names: tuple[str, ...]  # of the features
    values: np.ndarray  # int64 [num_candidates, num_features], as the JIT reports them
    viable: np.ndarray  # bool [num_candidates], false where the JIT would refuse

    def __len__(self) -> int:
        return len(self.viable)

    @property
    def num_viable(self) -> int:
        return int(self.viable.sum())


@dataclass(frozen=True)
class CompiledUnit:
    """A method as it was compiled."""

    score: float  # PerfScore; what is to be small
    code_bytes: int  # size of the code
    requested: Decisions  # positions that were asked for, or that the heuristic chose
    num_performed: int  # eliminations done; fewer than requested where the JIT refused some
    candidates: Candidates  # as of this compile


@dataclass(frozen=True)
class Failed:
    """Why a compile gave no metrics.

    Attributes:
        kind: as stored in ``failure`` columns. ``jit_error`` (the JIT rejected the method, or failed on it; it would
            again), ``missing_data`` (these decisions made the JIT ask for what was not recorded; it would again),
            ``no_metrics`` (success without a line of metrics: a recorded exception, or a Release JIT),
            ``protocol_error`` (the reply cannot be read, is for another request, or there are two), ``crashed`` (the
            process ended instead of finishing its reply), ``timeout`` (no whole reply within the deadline),
            ``unknown_method`` (the process ended with exit code 255, or by SIGSEGV beyond the last method: the
            collection has no such method, or cannot be read), ``quarantined`` (nothing was sent: this method has ended
            too many processes before), ``no_score`` (a PerfScore of 0, with which nothing can be compared), or
            ``worker`` (the worker died).
        message: what happened.
        returncode: exit status of a process that ended, negative for a signal.
        stderr: last few kilobytes of its stderr.
    """

    kind: str
    message: str
    returncode: int | None = None
    stderr: str = ""


Outcome = CompiledUnit | Failed
Outcomes = dict[Decisions | None, Outcome]
"""What is known of a method, by its decisions; None leaves them to the built-in heuristic."""


MARKER = ";"
"""How a line of metrics begins, and no other line of SuperPMI."""

_INT = "-?[0-9]{1,20}"
_LINE = re.compile(
    f"; Total bytes of code ({_INT}), prolog size {_INT}, PerfScore (-?[0-9]{{1,300}}[.][0-9]{{1,20}}), "
    f"instruction count {_INT}, allocated bytes for code {_INT}, num cse ([0-9]{{1,9}}) num cand ([0-9]{{1,9}})"
    r"( .*?)? spmi index ([0-9]{1,10}) \(MethodHash=[0-9a-f]{8}\) for method .+ \([^()]+\)"
)
_LIST = re.compile(r"-?[0-9]{1,20}(,-?[0-9]{1,20})*")
_RECORD = re.compile(r"#[0-9]{1,9}(,-?[0-9]{1,20})+")
_NAMES = re.compile(r"[^\s,]+(,[^\s,]+)*")
_HOOK_WORDS = ("featureNames", "features", "seq", "methodFeatureNames")


@dataclass(frozen=True)
class MethodMetrics:
    """What one compile of a method gave.

    Attributes:
        index: number of the method in the collection, from 1.
        code_bytes: size of the code.
        perf_score: static estimate of cost, weighted by block frequency; lower is better, no unit.
        num_cse: how many common subexpressions were eliminated; the JIT skips those of `requested` that are not viable
            or do not exist.
        num_candidates: how many were found, viable or not.
        heuristic: name of the heuristic that decided; None for the hook, and where there was nothing to decide.
        requested: positions of candidates, from 0, in the order in which the decider named them; may hold some that
            were skipped. Where a heuristic decided several times, its last choices, which belong to the candidates.
        feature_names: what the values of candidates are; empty when not known, or without candidates.
        candidates: features of each, in the order of the JIT's table; only the hook prints them.
    """

    index: int
    code_bytes: int
    perf_score: float
    num_cse: int
    num_candidates: int
    heuristic: str | None = None
    requested: tuple[int, ...] = ()
    feature_names: tuple[str, ...] = ()
    candidates: tuple[tuple[int, ...], ...] = ()

    def compiled(self, decisions: Decisions | None) -> CompiledUnit:
        """As the outcome of these decisions."""
        names, shape = self.feature_names, (len(self.candidates), len(self.feature_names))
        values = np.array(self.candidates, np.int64).reshape(shape)
        viable = values[:, names.index(VIABLE)] != 0 if VIABLE in names else np.zeros(len(values), bool)
        requested = self.requested if decisions is None else decisions
        candidates = Candidates(names, values, viable)
        return CompiledUnit(self.perf_score, self.code_bytes, requested, self.num_cse, candidates)


def parse_metrics(line: str, known_names: Sequence[str] = ()) -> MethodMetrics:
    """Read a line of metrics.

    Args:
        line: text without its end of line.
        known_names: names of features that an earlier line of the same process gave, for lines without names.
    """
    match = _LINE.fullmatch(line.removesuffix(" "))
    if match is None:
        raise MetricsError(f"not a line of metrics: {line[:120]!r}")
    code_bytes, score, num_cse, num_candidates, decider, index = match.groups()
    metrics = MethodMetrics(int(index), int(code_bytes), float(score), int(num_cse), int(num_candidates))
    words = (decider or "").split(" ")[1:]  # after a blank, an empty word is an empty list
    if words and words[0] not in _HOOK_WORDS and not words[0].startswith("method,"):
        heuristic, requested = _parse_decider(words)
        return replace(metrics, heuristic=heuristic, requested=requested)
    names, rows, requested = _parse_hook(words)
    if not rows:
        return replace(metrics, requested=requested)
    names = names or tuple(known_names)
    _check_table(names, rows, metrics.num_candidates)
    return replace(metrics, requested=requested, feature_names=names, candidates=rows)


def _parse_decider(words: list[str]) -> tuple[str, tuple[int, ...]]:
    """Name and choices of any heuristic but the hook; words after its list, such as likelihoods, are left out."""
    if "seq" not in words:
        return " ".join(words), ()
    place = words.index("seq")
    numbers = _parse_list(words[place + 1 : place + 2])
    if min(numbers, default=0) < 0 or (0 in numbers and numbers[-1] != 0):
        raise MetricsError(f"a heuristic's choices are {words[place + 1][:80]!r}: they count from 1, 0 ends them")
    last: list[int] = []
    for before, number in itertools.pairwise((1, *numbers)):
        if before == 0:
            last.clear()
        if number:
            last.append(number - 1)
    return " ".join(words[:place]), tuple(last)


def _parse_hook(words: list[str]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Names of features, candidates and what was asked for; words of later builds of the JIT are left out."""
    names: tuple[str, ...] = ()
    candidates: list[tuple[int, ...]] = []
    requested: tuple[int, ...] = ()
    following = iter(words)
    for word in following:
        follower = next(following, "nothing") if word in _HOOK_WORDS else ""
        if word == "featureNames":
            if not _NAMES.fullmatch(follower):
                raise MetricsError(f"names of features are {follower[:80]!r}")
            names = tuple(follower.split(","))
        elif word == "features":
            if not _RECORD.fullmatch(follower):
                raise MetricsError(f"features of a candidate are {follower[:80]!r}")
            candidates.append(tuple(int(value) for value in follower.split(",")[1:]))
        elif word == "seq":
            requested = _parse_list([follower])
    return names, tuple(candidates), requested


def _parse_list(words: list[str]) -> tuple[int, ...]:
    if words == [""]:
        return ()
    if not words or not _LIST.fullmatch(words[0]):
        raise MetricsError(f"a list of decisions is {words[0][:80] if words else ''!r}")
    return tuple(int(number) for number in words[0].split(","))


def _check_table(names: tuple[str, ...], candidates: tuple[tuple[int, ...], ...], num_candidates: int) -> None:
    if len(candidates) != num_candidates:
        raise MetricsError(f"features of {len(candidates)} candidates where there are {num_candidates}")
    if len(set(names)) != len(names):
        raise MetricsError("a feature is named twice")
    widths = {len(candidate) for candidate in candidates} | ({len(names)} if names else set())
    if len(widths) > 1:
        raise MetricsError(f"candidates have {sorted(widths)} features: a row is short, or names do not belong to it")
