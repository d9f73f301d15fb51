"""Results of planning as a picture in SVG: what is busy on clusters of each size."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

PARTS = ("utilisation", "driver", "server", "link")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_WORDS = ("workers", "driver", "file server", "network")
_WIDTH, _LEFT, _RIGHT = 820, 250, 690
_BAR, _GAP, _ROW, _HEAD = 9, 1, 52, 34


def panels(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Results by cores and size of a generation, with a title for each."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        size = f"{row['candidates']:,} candidates \N{MULTIPLICATION SIGN} {row['modules']:,} modules"
        title = f"{row['cores']:,} cores, {size}"
        found.setdefault(title, []).append(row)
    return found


def picture(rows: Sequence[Mapping[str, Any]]) -> str:
    """An SVG: a panel for each cluster and size, a group of bars for each way to schedule.

    Args:
        rows: records of results.
    """
    parts, y = [], 46
    x = _LEFT
    for word, colour in zip(_WORDS, COLOURS, strict=True):
        parts.append(f'<rect x="{x}" y="16" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="26">{word}</text>')
        x += 105
    for title, members in panels(rows).items():
        parts.append(f'<text x="12" y="{y + 18}" font-weight="600">{escape(title)}</text>')
        parts.append(f'<text x="{_WIDTH - 12}" y="{y + 18}" text-anchor="end">generation</text>')
        y += _HEAD
        height = _ROW * len(members)
        for percent in (0, 25, 50, 75, 100):
            at = _LEFT + (_RIGHT - _LEFT) * percent / 100
            parts.append(f'<line x1="{at:g}" y1="{y - 4}" x2="{at:g}" y2="{y + height - 8}" stroke="#c8c8c8"/>')
            parts.append(
                f'<text x="{at:g}" y="{y + height + 6}" text-anchor="middle" fill="#606060">{percent} %</text>'
            )
        for row in members:
            parts.append(f'<text x="{_LEFT - 10}" y="{y + 24}" text-anchor="end">{escape(row["placing"])}</text>')
            for i, (name, colour) in enumerate(zip(PARTS, COLOURS, strict=True)):
                width = (_RIGHT - _LEFT) * min(1.0, row[name])
                top = y + i * (_BAR + _GAP)
                parts.append(f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')
            parts.append(
                f'<text x="{_WIDTH - 12}" y="{y + 24}" text-anchor="end">{duration(row["generation_s"])}</text>'
            )
            y += _ROW
        y += 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" viewBox="0 0 {_WIDTH} {y}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="{_WIDTH}" height="{y}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def duration(seconds: float) -> str:
    """With three significant digits."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"
