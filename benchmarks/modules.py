"""Modules of the corpus that benchmarks compile."""

from pathlib import Path

from mlgo.core.errors import CorpusError
from mlgo.core.seeding import sample
from mlgo.corpus.store import unpack_bitcode
from mlgo.rollout.scored import ScoredModule, load_scored_modules

_MOST_QUESTIONS = 3000
_FEWEST_QUESTIONS = 20


def modules_of(data: Path, language: str, count: int, seed: int) -> list[ScoredModule]:
    """Training modules of a language that ask something and are not huge."""
    scored = load_scored_modules(data / "corpus", data / "baseline", "train")
    fitting = [
        one
        for one in scored
        if one.module.language == language and _FEWEST_QUESTIONS <= one.num_questions <= _MOST_QUESTIONS
    ]
    return sample(fitting, count, seed, "bench", "host", language)


def smallest_modules(data: Path, count: int) -> list[ScoredModule]:
    """The training modules that ask least, though enough for a conversation.

    Raises:
        CorpusError: there are none.
    """
    scored = load_scored_modules(data / "corpus", data / "baseline", "train")
    asking = sorted(
        (one for one in scored if one.num_questions >= _FEWEST_QUESTIONS), key=lambda one: one.num_questions
    )
    if not asking:
        raise CorpusError("no training module asks 20 questions; build the default corpus")
    return asking[:count]


def bitcode_of(data: Path, modules: list[ScoredModule]) -> dict[str, Path]:
    """Bitcode file by module key."""
    return unpack_bitcode(data / "corpus", [one.module for one in modules], data / "work" / "bitcode")
