"""Recipes: the build of a project as data, one ``config/corpora/<project>.yaml`` each."""

import re
import shutil
import sysconfig
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

import mlgo
from mlgo.base.config import Section, parse_section, read_yaml
from mlgo.base.files import copy_folder, hash64, joined, relative
from mlgo.base.names import Language
from mlgo.errors import ArtifactError, ConfigError, CorpusError
from mlgo.host.command_line import check_options


def _stays_inside(path: str) -> str:
    try:
        return relative(path)
    except ArtifactError as error:
        raise ValueError("must be a relative path inside the sources") from error


PYTHON_HEADERS = ".python-headers"
"""Folder in the sources that Python's headers are copied to: so no path of a machine is in options and modules."""

EXPECTED = "expected.txt"
"""File beside a program's sources that holds what it prints."""

RelativePath = Annotated[str, AfterValidator(_stays_inside)]


class _RecipePart(Section, BaseModel):
    """Checked as sections of the configuration are, except that types are converted: a define of ``true`` is 1."""

    model_config = ConfigDict(strict=False)


class GeneratedFile(_RecipePart):
    """A file that the project's own build would generate; made by exactly one of three ways."""

    path: RelativePath
    """Where it goes, relative to the source folder."""
    content: str | None = None
    """Its text."""
    template: RelativePath | None = None
    """A template of the project with @NAME@, ${NAME}, #cmakedefine and #cmakedefine01."""
    values: dict[str, str | int | bool | None] = {}
    """Values of the template's names."""
    copy_of: RelativePath | None = Field(None, alias="copy")
    """A file of the project to copy."""


class SourceGroup(_RecipePart):
    """Sources that are compiled with the same flags."""

    language: Language
    standard: str
    """Value of ``-std``."""
    sources: list[RelativePath] = Field(min_length=1)
    """Globs relative to the source folder; ``**`` crosses folders."""
    exclude: list[RelativePath] = []
    """Globs of sources to leave out."""
    include: list[RelativePath] = []
    """Folders for ``-I``."""
    python: bool = False
    """The sources need Python's headers, those of the Python that runs this; the modules depend on its version."""
    defines: dict[str, str | int | None] = {}
    """Macros for ``-D``; null defines without a value."""
    flags: list[str] = []
    """Further options, of the kinds that `check_options` allows."""

    @model_validator(mode="after")
    def _check_options(self) -> "SourceGroup":
        try:
            check_options(self.arguments())
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self

    def arguments(self) -> list[str]:
        """Front-end options of this unit."""
        defines = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in self.defines.items()]
        folders = [*self.include, *([PYTHON_HEADERS] if self.python else [])]
        return [f"-std={self.standard}", *(f"-I{folder}" for folder in folders), *defines, *self.flags]


class Wheel(_RecipePart):
    """Build of a source distribution as a wheel."""

    requirements: list[str] = []
    """Pins of what builds it, such as ``cython==3.1.4``: another version may generate other sources."""
    settings: dict[str, str] = {}
    """Settings for its build system, as of pip's ``--config-settings``."""
    environment: dict[str, str] = {}
    """Further variables of the build's environment."""


class Crate(_RecipePart):
    """Build of the programs of a crate, from a folder of vendored sources."""

    sources: str | None = None
    """Folder with this crate and all that it needs, such as /usr/share/cargo/registry; relative to the working
    directory. Default: ``crates`` in the folder that working copies share, ``data/work``."""
    features: list[str] = []
    default_features: bool = True
    opt_level: Literal["s", "z"] = "z"
    panic: Literal["unwind", "abort"] = "unwind"


_CRATE_NAME, _CRATE_FEATURE = r"[A-Za-z][\w-]*", r"[\w+-]+"
_CRATE_VERSION = r"\d+\.\d+\.\d+([-+][\w.+-]+)?"


class Recipe(_RecipePart):
    """One project: where its sources are and how they are compiled."""

    name: str
    """Name on the package index, of the crate, or of the local project."""
    license: str
    """SPDX expression of the compiled sources."""
    version: str | None = None
    """Pinned version of the source distribution, or of the crate."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Pinned hash of the source distribution; of a crate, that of all files of it and of the crates that it needs."""
    path: str | None = None
    """Folder with the sources, for a project that is not fetched; relative to the working directory."""
    captured: str | None = None
    """Folder that ``mlgo capture`` has written; modules, options and programs come from there."""
    quarters: list[Literal[0, 1, 2, 3]] | None = None
    """Quarters of its modules, by a hash of their names, that are taken of it; another recipe may have the others."""
    wheel: Wheel | None = None
    """Build it as a wheel, by its own build system: modules, options and programs come from there. ``{}`` will do."""
    crate: Crate | None = None
    """Build its programs by cargo, of vendored sources: modules, options and programs come from there."""
    driver: str | None = None
    """Source of the checkout with a ``main`` of ours, for a project that is to run; what the program prints lies beside
    it, with the ending ``.txt``. The folder is copied into the sources as ``driver``."""
    files: list[GeneratedFile] = []
    """Generated files."""
    units: list[SourceGroup] = []
    """Groups of sources; none for a captured project, a wheel, and a crate."""

    def takes(self, module: str) -> bool:
        """Whether a module of a captured project is in one of the recipe's quarters."""
        return self.quarters is None or hash64(module.encode()) % 4 in self.quarters

    def strange_word(self) -> str:
        """A word of a crate's that cargo could take for something else; empty if there is none."""
        patterns = {self.name: _CRATE_NAME, str(self.version): _CRATE_VERSION}
        patterns |= dict.fromkeys(self.crate.features if self.crate else (), _CRATE_FEATURE)
        return next((word for word, pattern in patterns.items() if not re.fullmatch(pattern, word, re.ASCII)), "")

    @property
    def expected(self) -> bytes:
        """Expected output of the program that the sources make."""
        path = Path(self.driver).with_suffix(".txt") if self.driver else Path(self.path or "") / EXPECTED
        try:
            return path.read_bytes()
        except OSError as error:
            raise CorpusError(
                f"{self.name} is no program: there is no {path}; run it and write down what is right"
            ) from error

    @property
    def python(self) -> bool:
        """Whether any of its sources need Python's headers."""
        return any(unit.python for unit in self.units)


def load_recipe(path: Path) -> Recipe:
    """Read a recipe.

    A recipe with ``base`` goes on from the recipe that this names: it has its sources, files and units, without those
    that bind to Python, and its own units besides.
    """
    values = read_yaml(path)
    if isinstance(values, dict) and "base" in values:
        own = {name: value for name, value in values.items() if name != "base"}
        base = read_yaml(Path(str(values["base"])))
        units = [unit for unit in base.get("units", []) if not unit.get("python")]
        values = {**base, **own, "units": [*units, *own.get("units", [])]}
    recipe = parse_section(Recipe, values, str(path))
    origins = (recipe.version, recipe.path, recipe.captured)
    if sum(one is not None for one in origins) != 1 or (recipe.version is None) != (recipe.sha256 is None):
        raise ConfigError(f"{path}: give one of version with sha256 of a source distribution, path, and captured")
    if bool(recipe.units) + sum(one is not None for one in (recipe.captured, recipe.wheel, recipe.crate)) != 1:
        raise ConfigError(f"{path}: give one of units, captured, wheel, and crate")
    if (recipe.wheel or recipe.crate) is not None and recipe.version is None:
        raise ConfigError(f"{path}: a wheel or a crate is built of one version; give version and sha256")
    if recipe.crate is not None and (strange := recipe.strange_word()):
        raise ConfigError(f"{path}: {strange!r} is no name, version or feature of a crate")
    for generated in recipe.files:
        if sum(way is not None for way in (generated.content, generated.template, generated.copy_of)) != 1:
            raise ConfigError(f"{path}: file {generated.path} needs exactly one of content, template and copy")
    return recipe


def write_generated_files(recipe: Recipe, root: Path) -> None:
    """Create the recipe's generated files in a source folder, and Python's headers if its sources need them."""
    if recipe.python:
        _copy_python_headers(recipe.name, root / PYTHON_HEADERS)
    if recipe.driver is not None:
        if not Path(recipe.driver).is_file():
            raise CorpusError(f"{recipe.name}: {recipe.driver} is not a file; run from the project's top folder")
        copy_folder(Path(recipe.driver).parent, root / "driver")
    for generated in recipe.files:
        target = joined(root, generated.path)
        if target.is_dir():
            raise CorpusError(f"{recipe.name}: {generated.path} is a folder; mend the recipe")
        target.parent.mkdir(parents=True, exist_ok=True)
        if generated.content is not None:
            target.write_text(generated.content)
            continue
        original = joined(root, str(generated.template or generated.copy_of))
        if not original.is_file():
            raise CorpusError(f"{recipe.name}: {original.relative_to(root)} is not in the sources; mend the recipe")
        if generated.copy_of is not None:
            target.write_bytes(original.read_bytes())
        else:
            target.write_text(fill_template(original.read_text(errors="replace"), generated.values))


def _copy_python_headers(project: str, folder: Path) -> None:
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise CorpusError(
            f"{project}: no Python.h in {headers}; install Python's headers, such as the package python3-dev"
        )
    shutil.copytree(headers, folder)
    if beside := headers_beside(headers):
        shutil.copytree(beside, folder / beside.relative_to(headers.parent))


def headers_beside(headers: Path) -> Path | None:
    """Debian's pyconfig.h includes one of this folder beside Python's headers, where the front end does not look."""
    folder = headers.parent / str(sysconfig.get_config_var("MULTIARCH")) / headers.name
    return folder if folder.is_dir() else None


def fill_template(text: str, values: dict[str, str | int | bool | None]) -> str:
    """Fill a configure or CMake header template."""

    def define(match: re.Match[str]) -> str:
        kind, name, rest = match.groups()
        value = values.get(name)
        if kind == "cmakedefine01":
            return f"#define {name} {1 if value else 0}"
        if value is None or value is False:
            return f"/* #undef {name} */"
        return f"#define {name}{rest}" if value is True or rest.strip() else f"#define {name} {value}"

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1] or match[2])
        return "" if found is None else str(found)

    text = re.sub(r"@(\w+)@|\$\{(\w+)\}", value, text)
    return re.sub(r"^[ \t]*#[ \t]*(cmakedefine01|cmakedefine)[ \t]+(\w+)(.*)$", define, text, flags=re.MULTILINE)


def find_sources(recipe: Recipe, root: Path) -> list[tuple[SourceGroup, str]]:
    """List a project's sources with their units, sorted by path."""
    owner: dict[str, SourceGroup] = {}
    for unit in recipe.units:
        excluded = {path for pattern in unit.exclude for path in _glob(root, pattern)}
        for pattern in unit.sources:
            matches = _glob(root, pattern)
            if not matches:
                raise CorpusError(f"{recipe.name}: no source matches {pattern!r}; mend the recipe")
            for source in sorted(matches - excluded):
                if owner.setdefault(source, unit) is not unit:
                    raise CorpusError(f"{recipe.name}: {source} belongs to two units; exclude it from one")
    return [(owner[source], source) for source in sorted(owner)]


def _glob(root: Path, pattern: str) -> set[str]:
    try:
        return {path.relative_to(root).as_posix() for path in root.glob(pattern) if path.is_file()}
    except (IndexError, NotImplementedError, OSError, ValueError) as error:  # of a loop of links, OSError
        raise CorpusError(f"{pattern!r} is no pattern of files; mend the recipe") from error


def sample_files() -> dict[str, Path]:
    """Sources of the sample corpus, which comes with this package, by project and file."""
    folder = (Path(mlgo.__file__).parent / "sample").resolve()  # a link in a checkout
    found = {f"{path.parent.name}/{path.name}": path for path in sorted(folder.glob("*/*.c*"))}
    if not found:
        raise CorpusError(f"the sample corpus is not in {folder}; install mlgo anew, or name files of your own")
    return found
