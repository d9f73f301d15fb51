"""Rows of text as a table, for a terminal or for Markdown."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """For a terminal: columns aligned; all rows have as many cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """For Markdown; the first row is the head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])
