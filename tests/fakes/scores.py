"""Scores of compiles that never were."""

from mlgo.objects.measures import Scores, scores_of


def scores(executable: int, text: int, shared: int | None = None, spills: float | None = None) -> Scores:
    """What a compile came to, by measure; the order is that of the columns."""
    return scores_of({"exec_bytes": executable, "text_bytes": text, "dedup_bytes": shared, "spill_cost": spills})


def sizes(executable: int, text: int, shared: int | None = None) -> Scores:
    """What a tree keeps of a compile."""
    return {name: score for name, score in scores(executable, text, shared).items() if name != "spill_cost"}
