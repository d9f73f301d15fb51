"""Names of projects, policies and languages, as folders, tables and JSON hold them."""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from mlgo.errors import ArtifactError

_POLICY = re.compile(r"(?P<learner>.+)-s(?P<seed>\d+)")


class ProjectName(NamedTuple):
    """A project of a corpus; its text is ``<recipe>`` or ``<recipe>@<form>``, such as ``zlib`` or ``zlib@whole``."""

    recipe: str  # name of its recipe, without `.yaml`
    form: str  # what its modules are, by the names of `Ships.form`; empty for that setting itself

    @classmethod
    def of(cls, text: str) -> "ProjectName":
        """Read such a text."""
        recipe, _, form = text.partition("@")
        return cls(recipe, form)


class PolicyName(NamedTuple):
    """A policy by what trained it; its text is ``<learner>-s<seed>``, such as ``es-s0``."""

    learner: str  # what trained it; in a sweep the name of the point
    seed: int

    def __str__(self) -> str:
        return f"{self.learner}-s{self.seed}"

    @classmethod
    def find(cls, text: str) -> "PolicyName | None":
        """Read such a text; None if it names no policy, for example ``never`` or ``es-mean``."""
        match = _POLICY.fullmatch(text)
        return cls(match["learner"], int(match["seed"])) if match else None

    @classmethod
    def of(cls, text: str) -> "PolicyName":
        """Read the name of a policy's folder."""
        found = cls.find(text)
        if found is None:
            raise ArtifactError(f"{text!r} names no policy; its folder must be called <learner>-s<seed>, like es-s0")
        return found


def train_set_of(learner: str) -> str:
    """The train set of a policy of a generalisation run, whose learner is called ``<compiler>-<train set>``."""
    compiler, _, train_set = learner.rpartition("-")
    if not compiler or not train_set:
        raise ArtifactError(f"{learner!r} names no training of a generalisation run, like main-both")
    return train_set


Language = Literal["c++", "c", "rust"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
"""All of them, in the order that tables have."""

OF_CLANG: tuple[Language, ...] = ("c++", "c")
"""Those that clang compiles; bitcode of the others comes from compilers of their own."""


def language_together(languages: Iterable[str]) -> Language:
    """Language of what is linked of modules in several: Rust before C++, C++ before C."""
    found = set(languages)
    return next((one for one in ("rust", "c++") if one in found), "c")


LANGUAGE_TITLES: dict[str, str] = {"c++": "C++", "c": "C", "rust": "Rust"}
"""How reports name them."""
