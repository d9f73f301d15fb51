"""Filling the HTML templates of this package."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_FOLDER = Path(__file__).parent
_MINUS = "\N{MINUS SIGN}"
_NONE = "\N{EN DASH}"


def render(template: str, *, folder: Path = _FOLDER, **values: Any) -> str:
    """Fill a template of a folder; text is escaped, and every name the template uses must be given."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(gain=format_gain, interval=format_interval, count=format_count, share=format_share)
    environment.filters.update(rank=format_rank, probability=format_probability)
    environment.filters.update(ratio=format_ratio, ratio_interval=format_ratio_interval)
    return environment.get_template(template).render(style=Markup((_FOLDER / "page.css").read_text()), **values)


def format_gain(gain: float | None) -> str:
    """A share as a signed percentage, for example ``+1.25 %``; a dash for None."""
    return _NONE if gain is None else _signed(gain) + "\N{NO-BREAK SPACE}%"


def format_interval(low: float | None, high: float | None) -> str:
    """Two shares as an interval in percent, for example ``-0.50 to +1.25``; a dash for None."""
    return _NONE if low is None or high is None else f"{_signed(low)} to {_signed(high)}"


def format_ratio(ratio: float | None) -> str:
    """A ratio with four decimals; a dash for None."""
    return _NONE if ratio is None else f"{ratio:.4f}"


def format_ratio_interval(low: float | None, high: float | None) -> str:
    """Two ratios as an interval, for example ``0.9876 to 1.0012``; a dash for None."""
    return _NONE if low is None or high is None else f"{low:.4f} to {high:.4f}"


def format_count(number: int) -> str:
    """A whole number with its thousands set apart."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_share(share: float) -> str:
    """A share as an unsigned percentage with one decimal."""
    return f"{100.0 * share:.1f}\N{NO-BREAK SPACE}%"


def format_rank(coefficient: float | None) -> str:
    """A correlation with two decimals; a dash for None."""
    return _NONE if coefficient is None else f"{coefficient:.2f}".replace("-", _MINUS)


def format_probability(probability: float | None) -> str:
    """A p-value with two significant digits, for example ``0.031``; a dash for None, no more than ``<0.0001``."""
    if probability is None:
        return _NONE
    return "<0.0001" if probability < 1e-4 else f"{probability:.2g}"


def _signed(share: float) -> str:
    text = f"{100.0 * share:+.2f}"
    return "0.00" if text in ("-0.00", "+0.00") else text.replace("-", _MINUS)
