"""Sealed test sets: projects that nothing is trained on, chosen on or tuned on (docs/sealed.md).

``config/sealed.yaml`` lists those of the main one, ``config/sealed-rust.yaml`` programs in Rust. The folder of the same
name holds their recipes. A project is known by the name that the package index gives it, in any spelling, and by the
hash of its source distribution.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from mlgo.base.config import Config, Section, parse_section, read_yaml, unique
from mlgo.base.names import Language, ProjectName
from mlgo.base.packages import canonical_name
from mlgo.errors import ConfigError

SEALED = Path("config/sealed.yaml")
"""The list of the main set, in a working copy."""


def sealed_sets() -> dict[str, Path]:
    """Lists of all sets of a working copy, by name; results of a set lie in the folder of its name in ``data``."""
    found = sorted(SEALED.parent.glob(f"{SEALED.stem}*{SEALED.suffix}"))
    return {path.stem: path for path in found if re.fullmatch(rf"{SEALED.stem}(-\w+)?", path.stem)}


_WHEEL = "wheel/*.whl"
"""What a captured project's folder keeps of a wheel; the file's name begins with that of the project."""


class SealedProject(Section):
    """One project of the set."""

    name: str = Field(min_length=1)
    """Of its recipe, without ``.yaml``."""
    language: Language
    """What most of its instructions are written in."""
    domain: str
    """What it is for, in a word or two."""
    holds: str
    """The libraries whose sources it has."""


class SealedSet(Section):
    """The projects, and how they were chosen."""

    date: str
    """When the criteria were written down."""
    criteria: list[str]
    """What a project must be; none of it is known from a policy."""
    projects: list[SealedProject]
    """The projects."""

    @field_validator("projects")
    @classmethod
    def _named_once(cls, projects: list[SealedProject]) -> list[SealedProject]:
        unique([canonical_name(project.name) for project in projects])
        return projects

    @property
    def names(self) -> list[str]:
        """Names of the projects, sorted."""
        return sorted(project.name for project in self.projects)

    def holds(self, project: str) -> bool:
        """Whether a project is one of these, under any spelling of its name."""
        return canonical_name(project) in {canonical_name(name) for name in self.names}


@dataclass(frozen=True)
class Identity:
    """What a recipe makes a project of."""

    recipe: Path
    names: frozenset[str]  # of the file, the project on the package index, and a wheel that was captured; canonical
    sha256: str  # of the source distribution; empty where none is named

    def same_as(self, other: "Identity") -> str:
        """What two recipes have in common, in words; empty if they are of two projects."""
        if common := sorted(self.names & other.names):
            return f"project {common[0]}"
        return f"source distribution {self.sha256[:12]}" if self.sha256 and self.sha256 == other.sha256 else ""


def load_sealed(path: Path = SEALED) -> SealedSet:
    """Read the list; an empty one where there is no such file."""
    if not path.exists():
        return SealedSet(date="", criteria=[], projects=[])
    found = parse_section(SealedSet, read_yaml(path), str(path))
    for name in found.names:
        if not (recipe := path.with_suffix("") / f"{name}.yaml").is_file():
            raise ConfigError(f"{path} names {name}, but there is no {recipe}")
    return found


def check_corpus(config: Config) -> None:
    """Refuse a corpus with a project in two splits, or with one of the sealed test set.

    A recipe that is not there names nothing else than its file does; the stage that builds the project misses it.
    """
    check_projects(Path(config.corpus.recipes), config.corpus.splits.model_dump())


def check_projects(recipes: Path, splits: Mapping[str, Sequence[str]], sealed: Sequence[Path] = ()) -> None:
    """The same for the projects of some splits and lists of sealed ones, by default all, see `check_corpus`."""
    sealed_projects = [
        (path, identity_of(path.with_suffix("") / f"{name}.yaml"))
        for path in sealed or sealed_sets().values()
        for name in load_sealed(path).names
    ]
    seen: list[tuple[str, Identity]] = []
    named = [(split, ProjectName.of(project).recipe) for split, projects in splits.items() for project in projects]
    for split, name in named:
        one = identity_of(recipes / f"{name}.yaml")
        for path, other in sealed_projects:
            if what := one.same_as(other):
                raise ConfigError(
                    f"{one.recipe} (corpus.splits.{split}) is {what} of the sealed test set ({other.recipe} in "
                    f"{path}); nothing is trained or chosen on it: take it out of corpus.splits.{split}"
                )
        for where, other in seen:
            if where != split and (what := one.same_as(other)):
                raise ConfigError(
                    f"{other.recipe} (corpus.splits.{where}) and {one.recipe} (corpus.splits.{split}) are the same "
                    f"{what}; a project is in one split: take it out of one of them"
                )
        seen.append((split, one))


def identity_of(recipe: Path) -> Identity:
    """Whom a recipe makes a project of; of a file that cannot be read its name alone."""
    found = read_yaml(recipe) if recipe.exists() else {}
    values: Mapping[str, Any] = found if isinstance(found, dict) else {}
    names = [recipe.stem, str(values.get("name") or recipe.stem)]
    if values.get("captured"):
        names += [wheel.name.split("-")[0] for wheel in Path(str(values["captured"])).glob(_WHEEL)]
    return Identity(recipe, frozenset(map(canonical_name, names)), str(values.get("sha256") or ""))
