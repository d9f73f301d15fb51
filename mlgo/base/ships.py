"""What ships: the file that a user links, as far as its size depends on how it is built.

A build says most of it by its flags; what a record leaves open is as each build has it. Stripping takes away neither
code, constants nor unwind tables, so nothing is said of it.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mlgo.errors import ConfigError

Form = Literal["objects", "live", "thin", "whole", "program"]
"""What a module is."""
Level = Literal["-Oz", "-Os", "-O2", "-O3"]
Relocation = Literal["fixed", "pie", "shared"]

SHIPS = "MLGO_SHIPS"
"""Environment variable with a record for `mlgo cc` and `mlgo ld`."""

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
"""How sections of the configuration are checked: strict about types, no unknown keys."""

_YES_OR_NO = {"yes": True, "no": False}


class Ships(BaseModel):
    """A record of what ships; null where it is as the build says."""

    model_config = STRICT

    form: Form | None = None
    """``objects``: a module is a source. ``live``: a module is a source, and its score is what the link keeps of it.
    ``whole``: a module is a linked file, all of its sources merged. ``thin``: a module is a source after the import of
    ThinLTO. ``program``: a module is a program that runs, all of its sources merged; each project is one, with what it
    prints."""
    level: Level | None = None
    """Optimization level."""
    relocation: Relocation | None = None
    """A program at a fixed address, a program that may lie anywhere, or a shared object."""
    exports: Literal["entry", "listed", "all"] | None = None
    """What others may use of the file: its entry point, what a version script lists, or all that is visible."""
    sections: bool | None = None
    """Whether each function has a section of its own, which a linker can drop or fold."""
    folding: Literal["none", "safe", "all"] | None = None
    """Which functions with identical code the linker makes one of: none, those whose address nobody takes, or all."""
    unwind: bool | None = None
    """Whether unwind tables count, because they are in the file. The code is the same without them."""

    @model_validator(mode="after")
    def _check(self) -> "Ships":
        if self.sections is False and self.folding in ("safe", "all"):
            raise ValueError(f"folding={self.folding} contradicts sections=no: a linker folds sections")
        if self.relocation == "shared" and self.exports == "entry":
            raise ValueError("exports=entry contradicts relocation=shared: nobody could use the shared object")
        if self.relocation == "shared" and self.form == "program":
            raise ValueError("form=program contradicts relocation=shared: a shared object does not run")
        return self

    @classmethod
    def of(cls, text: str) -> "Ships":
        """Read a record such as ``form=whole,folding=all,unwind=no``; a form may stand alone, as in ``whole``.

        Raises:
            ConfigError: an unknown name or value, a name given twice, or values that contradict each other.
        """
        given: dict[str, str | bool] = {}
        for word in text.split(","):
            name, equals, value = word.strip().partition("=")
            name, value = (name, value) if equals else ("form", name)
            if name in given:
                raise ConfigError(f"{text}: {name} stands there twice")
            given[name] = _YES_OR_NO.get(value, value)
        return cls._checked(given, text)

    @classmethod
    def of_environment(cls) -> "Ships":
        """The record of `SHIPS`; an empty one where it is not set."""
        return cls.of(os.environ[SHIPS]) if os.environ.get(SHIPS) else AS_BUILT

    def over(self, other: "Ships") -> "Ships":
        """This record, where it is silent the other one; ConfigError where both together contradict each other."""
        return self._checked(other.given | self.given, f"{self} over {other}")

    @classmethod
    def _checked(cls, given: Mapping[str, Any], text: str) -> "Ships":
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            reasons = [f"{'.'.join(map(str, one['loc']))} {one['msg']}".strip() for one in error.errors()]
            known = f"; names are {', '.join(cls.model_fields)}"
            raise ConfigError(f"{text}: {'; '.join(reasons)}{known}") from None

    @property
    def given(self) -> dict[str, Any]:
        """What is said, by name."""
        return self.model_dump(exclude_none=True)

    def __str__(self) -> str:
        words = {True: "yes", False: "no"}
        found = [one if name == "form" else f"{name}={words.get(one, one)}" for name, one in self.given.items()]
        return ",".join(found)

    @property
    def code_options(self) -> list[str]:
        """Options of the code generation of each module, behind its own."""
        model = {"fixed": ["-fno-pic"], "pie": ["-fPIE"], "shared": ["-fPIC"]}.get(self.relocation or "", [])
        prefix = "" if self.sections else "no-"
        return [*model, *(f"-f{prefix}{one}-sections" for one in ("function", "data") if self.sections is not None)]

    @property
    def lld_options(self) -> list[str]:
        """Options of lld, behind those of a build."""
        found = {"fixed": ["-no-pie"], "pie": ["-pie"], "shared": ["-shared"]}.get(self.relocation or "", [])
        found += {"all": ["--export-dynamic"], "entry": ["--no-export-dynamic"]}.get(self.exports or "", [])
        found += ["--gc-sections"] if self.sections else []
        return found if self.folding is None else [*found, f"--icf={self.folding}"]

    @property
    def link_words(self) -> list[str]:
        """The same for a compiler that links."""
        return [one if one in ("-no-pie", "-pie", "-shared") else f"-Wl,{one}" for one in self.lld_options]

    def total(self, sizes: Mapping[str, int]) -> int:
        """Bytes of a linked file that ship, of its sizes by measure, see `symbols.SHIPPED`."""
        return sizes["total"] - (sizes["unwind"] if self.unwind is False else 0)


AS_BUILT = Ships()
"""All is as the build says."""
