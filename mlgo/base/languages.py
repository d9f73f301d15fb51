"""Languages that modules are written in."""

from typing import Literal, get_args

Language = Literal["c++", "c"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
"""All of them, in the order that tables have."""

LANGUAGE_TITLES: dict[str, str] = {"c++": "C++", "c": "C"}
"""How reports name them."""
