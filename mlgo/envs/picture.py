"""An episode as a picture: what was answered, and what it brought so far, over the number of the question."""

from typing import Any

import numpy as np

from mlgo.base.packages import require

WIDTH, HEIGHT = 640, 480
_LEFT, _RIGHT = 72, 624
_PANELS = ((40, 232), (264, 456))
_WHITE, _FRAME, _TEXT = (255, 255, 255), (200, 200, 200), (60, 60, 60)
_BAND, _LINE = (168, 203, 230), (23, 92, 145)


def draw_episode(
    title: str, answers: np.ndarray, rewards: np.ndarray, words: tuple[str, str] = ("answer", "question")
) -> np.ndarray:
    """Draw an episode so far, uint8 [480, 640, 3].

    Answers are shown by the mean of those that share a column of pixels, and the range they span; so a picture costs
    the same for ten questions and for a hundred thousand.

    Args:
        title: its last 70 characters are shown.
        answers: float64 [num_answers], as rewards are.
        rewards: of each answer.
        words: what is drawn above the rewards, and over what.
    """
    require("a picture of an episode", "render")
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH, HEIGHT), _WHITE)
    draw = ImageDraw.Draw(image)
    draw.text((_LEFT, 6), f"{title[-70:]}, {len(answers)} {words[0]}s", _TEXT)
    panels = ((words[0], answers), ("reward so far", np.cumsum(rewards)))
    for (label, values), (top, bottom) in zip(panels, _PANELS, strict=True):
        _draw_panel(draw, label, top, bottom, values)
    draw.text((_LEFT, HEIGHT - 18), "0", _TEXT)
    draw.text((_RIGHT, HEIGHT - 18), str(max(0, len(answers) - 1)), _TEXT, anchor="ra")
    draw.text(((_LEFT + _RIGHT) // 2, HEIGHT - 18), words[1], _TEXT, anchor="ma")
    return np.asarray(image).copy()


def _draw_panel(draw: Any, label: str, top: int, bottom: int, values: np.ndarray) -> None:
    low, high = _range(values)
    draw.rectangle((_LEFT, top, _RIGHT, bottom), outline=_FRAME)
    draw.text((_LEFT, top - 14), label, _TEXT)
    for value, y in ((high, top), (low, bottom)):
        draw.text((_LEFT - 6, y), f"{value:.4g}", _TEXT, anchor="rm")
    if not len(values):
        return
    least, mean, most = in_columns(values, _RIGHT - _LEFT - 3)
    x = _LEFT + 2 + np.round(np.linspace(0, _RIGHT - _LEFT - 4, len(mean))).astype(int)

    def y_of(column: np.ndarray) -> np.ndarray:
        return np.round(bottom - 2 - (column - low) / (high - low) * (bottom - top - 4)).astype(int)

    for place, *ends in zip(x.tolist(), y_of(least).tolist(), y_of(most).tolist(), strict=True):
        draw.line((place, ends[0], place, ends[1]), _BAND)
    points = list(zip(x.tolist(), y_of(mean).tolist(), strict=True))
    draw.line(points if len(points) > 1 else points * 2, _LINE)
    if len(points) == 1:
        draw.ellipse((points[0][0] - 2, points[0][1] - 2, points[0][0] + 2, points[0][1] + 2), _LINE)


def in_columns(values: np.ndarray, most_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least, mean and greatest of the values, float64 [num_values], in each column.

    All three are float64 [min(num_values, most_columns)]; there must be at least one value.
    """
    edges = np.linspace(0, len(values), min(len(values), most_columns) + 1).astype(np.int64)
    starts, counts = edges[:-1], np.diff(edges)
    mean = np.add.reduceat(values, starts) / counts
    return np.minimum.reduceat(values, starts), mean, np.maximum.reduceat(values, starts)


def _range(values: np.ndarray) -> tuple[float, float]:
    """What the axis spans: 0 and all values, and never nothing."""
    low, high = min(0.0, values.min(initial=0.0)), max(0.0, values.max(initial=0.0))
    return (float(low), float(high)) if high > low else (float(low), float(low) + 1.0)
