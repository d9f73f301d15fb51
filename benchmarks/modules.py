"""Modules of the corpus that benchmarks compile."""

from pathlib import Path

from mlgo.corpus.store import unpack_bitcode
from mlgo.errors import CorpusError
from mlgo.evaluate.baseline import ScoredModule, load_scored_modules

FEWEST_QUESTIONS = 20
"""What a module asks at least, so that there is a conversation."""


def smallest_modules(data: Path, count: int) -> list[ScoredModule]:
    """The training modules that ask least, of those that ask `FEWEST_QUESTIONS`.

    Raises:
        CorpusError: there are none.
    """
    scored = load_scored_modules(data / "corpus", data / "baseline", "train")
    asking = sorted((one for one in scored if one.num_questions >= FEWEST_QUESTIONS), key=lambda one: one.num_questions)
    if not asking:
        raise CorpusError(f"no training module asks {FEWEST_QUESTIONS} questions; build the default corpus")
    return asking[:count]


def bitcode_of(data: Path, modules: list[ScoredModule]) -> dict[str, Path]:
    """Bitcode file by module key."""
    return unpack_bitcode(data / "corpus", [one.module for one in modules], data / "work" / "bitcode")
