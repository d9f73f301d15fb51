"""The configuration: every setting with its type, range, unit and meaning.

``config/config.yaml`` states all of them; the presets state only what they change. Unknown keys are errors.
``workflow/schemas/config.schema.json`` is generated from this file (``mlgo config schema``).
"""

import functools
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError, create_model, model_validator

from mlgo.base.files import MAX_TEXT_BYTES, content_hash, joined, parse_json, place, read_input
from mlgo.base.names import Language, ProjectName
from mlgo.base.registry import LEARNERS, PROBLEMS, training_chain
from mlgo.base.ships import STRICT, Level, Ships
from mlgo.errors import ArtifactError, ConfigError
from mlgo.objects import measures

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0.0)]


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C is eight times as fast; a package without libyaml has none."""


def unique(values: list[Any]) -> list[Any]:
    """Refuse a list that names anything twice; for ``AfterValidator``."""
    if len(set(values)) != len(values):
        raise ValueError("must not name anything twice")
    return values


def judged_split(splits: Iterable[str]) -> str:
    """The split that a run is judged on: test if anything of it is there, else validation."""
    return "test" if "test" in splits else "validation"


def _can_judge(values: list[Any]) -> list[Any]:
    if judged_split(values) not in values:
        raise ValueError("must contain test or validation, where the headline comes from")
    return values


def _one_of(names: Callable[[], Sequence[str]]) -> AfterValidator:
    """A name that is registered, when it is checked."""

    def check(name: str) -> str:
        if name not in names():
            raise ValueError(f"must be one of {', '.join(names())}")
        return name

    return AfterValidator(check)


def _listing(names: Callable[[], Sequence[str]]) -> Any:
    return Field(json_schema_extra=lambda schema: schema.update(enum=list(names())))


LearnerName = Annotated[str, _one_of(LEARNERS.names), _listing(LEARNERS.names)]
"""A learner that there is."""


class Section(BaseModel):
    """Base of all sections: frozen, strict about types, no unknown keys."""

    model_config = STRICT


class CompileConfig(Section):
    """How every module is compiled and scored."""

    objective: Annotated[str, _one_of(measures.names), _listing(measures.names)]
    """Score that learning minimises: Berkeley text (code, constants, unwind tables), executable sections, Berkeley
    text by shares (what n modules of a project carry as copies, of which a linker keeps one, counts 1/n), total or code
    of the linked file that ``ships`` describes, where a module is one, or, in register allocation, the cost of spills,
    reloads and copies."""
    optimization: Level
    """Optimization level, given to the front end and to every later compile."""
    ships: Ships
    """The file that users link of the modules; its level is ``optimization``."""
    size_stop_factor: Annotated[float, Field(gt=1.0)]
    """LLVM stops asking when a module's IR has grown by this factor. LLVM's own default is 2."""
    compile_timeout_s: PositiveFloat
    """Deadline of one compile, in seconds."""
    max_memory_gb: PositiveFloat
    """Memory that a compiler may map, in 10^9 bytes; beyond it the compile fails."""
    answer_timeout_s: PositiveFloat
    """Longest silence between two questions, in seconds."""
    max_questions: Positive
    """A compile with more questions fails: registers that evict each other in a circle ask for ever."""
    ir2vec: str
    """Vocabulary of the embeddings that LLVM 22 and newer add to each question about a call: counts (how often each
    opcode, type and kind of operand occurs in callee and caller), random-N (N random sums of these counts), or a file
    in IR2Vec's format. Empty for none."""
    tell_heuristic: bool
    """Whether LLVM's own decision is a feature of each question. Then a policy can agree with it exactly where it knows
    nothing better. LLVM 21 and newer; no exported model takes it."""

    @model_validator(mode="after")
    def _check_ships(self) -> "CompileConfig":
        if self.ships.level is not None or self.ships.form is None:
            raise ValueError("ships names a form, and no level, which is optimization")
        if measures.get_measure(self.objective).of_link and self.ships.form not in ("live", "whole", "program"):
            raise ValueError(f"objective: {self.objective} is of what is linked; set ships.form: whole, or live")
        return self


class Splits(Section):
    """Which projects serve which purpose; no project may serve two."""

    train: list[str] = Field(min_length=1)
    """Projects that policies learn from. ``zlib@whole`` and ``zlib@thin`` are zlib in other forms than
    ``compile.ships.form``, perhaps in several."""
    validation: list[str] = Field(min_length=1)
    """Projects that choose between policies."""
    test: list[str]
    """Projects that results are reported on; nothing may be tuned on them. Where there are none, a run is judged on
    validation: for decisions, not for claims."""

    @property
    def projects(self) -> list[str]:
        """All projects, sorted."""
        return sorted([*self.train, *self.validation, *self.test])

    @model_validator(mode="after")
    def _check_names(self) -> "Splits":
        for project in self.projects:
            if "@" in project and ProjectName.of(project).form not in _OTHER_FORMS:
                raise ValueError(f"{project}: no such form; a project may have the forms {', '.join(_OTHER_FORMS)}")
        for project in [*self.validation, *self.test]:
            if "@" in project:
                raise ValueError(
                    f"{project}: projects that judge have the form of compile.ships.form; name it in train alone"
                )
        return self


_OTHER_FORMS = ("whole", "thin")
"""Forms that a single project may have."""


class CorpusConfig(Section):
    """What is compiled."""

    recipes: str
    """Folder of recipes, one ``<project>.yaml`` each."""
    splits: Splits
    """Projects by purpose."""
    max_modules_per_project: Positive
    """Larger projects are sampled down to this many sources, reproducibly; linked files if these are merged
    or built with ThinLTO."""
    max_failed_share: Share
    """A project with a larger share of sources that do not compile ends the run."""
    max_merged_instructions: Positive
    """Larger linked files are merged to several modules, by their instructions before optimization."""
    max_program_growth: Annotated[float, Field(ge=1.0)]
    """Of programs that run: a compile whose text is more than this times that of the heuristic's has failed."""
    own_profile: bool
    """Recipes are programs, which run once, under valgrind; their sources are compiled with a profile of that."""


class BaselineConfig(Section):
    """Reference scores and the default policy's trace."""

    references: Literal["traced", "all"]
    """``traced``: compile under the heuristic and the reference whose questions are recorded, which is what training
    reads. ``all``: modules of validation and test projects under the other references, too, for reports."""
    random_inline_share: Share
    """Probability that the random advisor inlines."""
    num_quantiles: Annotated[int, Field(ge=2)]
    """Quantiles per feature in the vocabulary."""
    max_failed_share: Share
    """A larger share of modules that cannot be scored ends the run."""


class PolicyConfig(Section):
    """Shape of the policy network."""

    hidden: list[Positive]
    """Units of each hidden layer; none makes the policy linear in the normalised features."""


Languages = Annotated[list[Language], AfterValidator(unique), Field(min_length=1)]


class TrainConfig(Section):
    """Which policies are trained."""

    algorithms: Annotated[list[LearnerName], AfterValidator(unique)] = Field(min_length=1)
    """Learners to run; es starts from the policy of es.start, ppo from that of ppo.start, bcmax from bc. For choices of
    eliminations there is no bcmax, and sb3 is for these alone; it needs the extra sb3."""
    seeds: list[Annotated[int, Field(ge=0, lt=2**32)]] = Field(min_length=1)
    """One policy per learner and seed."""
    languages: Languages
    """Only modules in these languages, for training, validation and the scales of the features. A policy of one of them
    leaves modules in the other to the heuristic. For tasks of LLVM."""
    min_questions: Positive
    """Modules with fewer questions under the heuristic are left out where learners compile, of training and of
    validation: there, most policies give the same answers. For tasks of LLVM."""
    draw: Literal["modules", "projects"]
    """What a step of a learner compiles. ``modules``: each is as likely to be drawn as any other. ``projects``: they
    take turns, so one of few modules, such as programs merged to one each, is drawn as often as one of many."""


class ReplayConfig(Section):
    """Response trees: compiles kept so that none is done twice."""

    enabled: bool
    """Walk policies down known trees before compiling. Results are the same either way."""
    max_disk_gb: PositiveFloat
    """Trees on disk beyond this are deleted before training, least recently used first, in 10^9 bytes."""


class WorkersConfig(Section):
    """Where trainings and evaluations compile. Results are the same everywhere, so a change reruns nothing."""

    kind: Literal["local", "serial", "ray", "nested"]
    """``local``: processes of this machine. ``serial``: this process, one compile after another. ``ray``: actors of a
    Ray cluster. ``nested``: shared with other experiments, by ``mlgo workers serve``. These two need the extra
    ``ray``."""
    num_workers: Annotated[int, Field(ge=0)]
    """How many; 0 takes the cores that the rule got, with ``ray`` as many as the cluster has CPUs, with ``nested`` one
    on each of its cores."""
    address: str
    """``host:port`` of a Ray cluster, or ``auto`` for the one that this machine belongs to. Empty: with ``ray``, one is
    started here; with ``nested``, the one that ``mlgo workers serve`` has started in this working copy. With
    ``nested``, ``/name`` may follow."""
    files: Literal["send", "shared"]
    """With ``ray``: whether modules, compiler and response trees are sent to the nodes, or lie in folders that all see
    under the same paths."""
    retries: Annotated[int, Field(ge=0)]
    """How often a compile whose worker died is tried again, on another worker."""
    start_timeout_s: PositiveFloat
    """With ``ray``: how long to wait for the first worker, in seconds; clusters that grow need minutes."""


LOCAL_WORKERS = WorkersConfig(kind="local", num_workers=0, address="", files="send", retries=2, start_timeout_s=300.0)
"""Section ``workers`` of config/config.yaml, for what runs without that file; a test holds the two together."""


class EvaluateConfig(Section):
    """How policies are judged."""

    splits: Annotated[list[Literal["train", "validation", "test"]], AfterValidator(unique), AfterValidator(_can_judge)]
    """Splits to compile; the headline comes from test, or from validation if test is not among them."""
    max_train_modules: Positive
    """Training modules evaluated at most, sampled reproducibly."""
    programs: str | None
    """Folder of recipes of programs that are built under every policy and run under valgrind, so that executed
    instructions stand beside sizes. Null: none run, unless ``make programs`` is called, which takes config/programs."""
    resamples: Annotated[int, Field(ge=100)]
    """Bootstrap resamples."""
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)]
    """Coverage of the intervals."""
    max_failed_share: Share
    """A larger share of modules that cannot be evaluated ends the run."""


class HeadroomConfig(Section):
    """Search for smaller modules, decision by decision; nothing in the default run reads it."""

    splits: Annotated[list[Literal["train", "validation", "test"]], AfterValidator(unique)] = Field(min_length=1)
    """Splits to draw modules from."""
    modules: Positive
    """Modules searched at most, sampled reproducibly."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out; so are those without any."""
    budget: Positive
    """Compiles per module at most."""
    flips_per_round: Positive
    """Answers of a module that are flipped side by side, before the helpful ones are combined."""


class CompilerWheel(Section):
    """A compiler from a wheel of ziglang on the package index."""

    version: str = Field(min_length=1)
    """Version of ziglang; which LLVM it holds, docs/generalisation.md tells."""
    sha256: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(min_length=1)
    """Hash of the wheel for each kind of machine, as ``uname -m`` names it."""


class TrainSet(Section):
    """Modules that policies are trained on."""

    languages: Languages
    """As ``train.languages``, but their policies are asked in every language."""
    modules: Positive
    """Instead of ``marginal.modules``, so that trainings on all sets can ask for equally many compiles."""


class GeneralisationConfig(Section):
    """Policies on other languages and under other compilers; nothing in the default run reads it."""

    compilers: dict[Annotated[str, Field(pattern="^llvm[0-9]+$")], CompilerWheel]
    """Compilers beside that of ``toolchain``, which is called main."""
    train_sets: dict[Annotated[str, Field(pattern="^[a-z0-9+]+$")], TrainSet] = Field(min_length=1)
    """What to train on, by name; with train.seeds each."""
    across: str
    """The train set that is used with every compiler, and whose policies are tested with every compiler."""

    @model_validator(mode="after")
    def _check_across(self) -> "GeneralisationConfig":
        if self.across not in self.train_sets:
            raise ValueError(f"across must name one of train_sets ({', '.join(self.train_sets)})")
        return self


class RangeConfig(Section):
    """What a study may give a setting: a number between two ends, or one of some values."""

    low: int | float | None = None
    """Least value. If both ends are whole numbers, all values are."""
    high: int | float | None = None
    """Greatest value."""
    log: bool = False
    """Whether values spread evenly by their logarithm."""
    choices: Annotated[list[Any], Field(min_length=1)] | None = None
    """Values to choose from, of any kind and in no order."""

    @model_validator(mode="after")
    def _check_form(self) -> "RangeConfig":
        if (self.low is None) != (self.high is None) or (self.low is None) == (self.choices is None):
            raise ValueError("give low and high, or choices")
        if self.low is not None and self.high is not None:
            if not self.low < self.high:
                raise ValueError(f"nothing lies between low {self.low} and high {self.high}")
            if self.log and self.low <= 0:
                raise ValueError(f"logarithms need a low above 0, not {self.low}")
        return self

    @property
    def ends(self) -> list[Any]:
        """Values that stand for all of them: if a setting takes these, it takes those between."""
        return [self.low, self.high] if self.choices is None else self.choices


class PruningConfig(Section):
    """When a trial ends early: when it has been worse than others at every step so far."""

    percentile: Annotated[float, Field(gt=0.0, lt=100.0)]
    """It ends if its best validation reward so far is below this percentile of finished trials at the same step."""
    startup_trials: Positive
    """Finished trials that it takes to judge one."""
    warmup_steps: Annotated[int, Field(ge=0)]
    """Steps of a training (generations, rounds) before which none is judged."""


class SweepConfig(Section):
    """Trainings under settings that vary, side by side; nothing in the default run reads it."""

    sampler: Literal["grid", "tpe"]
    """``grid`` takes every combination in ``points``; ``tpe`` is a study: Optuna chooses trials in ``ranges``, each by
    what the ones before it have gained on validation."""

    tasks: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9-]*$")], list[str]]
    """By name, presets that are laid over the configuration, in order; all points are made under each. Empty takes the
    configuration as it is."""
    learners: Annotated[list[LearnerName], AfterValidator(unique)] = Field(min_length=1)
    """Learners to compare; what they start from is trained along."""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], AfterValidator(unique)] = Field(min_length=1)
    """Seeds of every training."""
    points: dict[str, Annotated[list[Any], Field(min_length=1)]]
    """For ``grid``: values of settings, each named as in ``es.step_size``; every combination is a point."""
    ranges: dict[str, RangeConfig]
    """For ``tpe``: what each setting may be."""
    trials: Positive
    """Trials of a study."""
    random_trials: Positive
    """Of these, the first, which are drawn at random."""
    parallel: Positive
    """Trials that are chosen together, before any of them has run. They can run side by side."""
    pruning: PruningConfig | None
    """When trials end early; null lets all of them finish."""


class SuperPmiConfig(Section):
    """A Checked .NET JIT, driven by SuperPMI on recorded methods."""

    core_root: str | None
    """Folder with superpmi and the JIT; null where both are named below."""
    collection: str | None
    """Recorded methods, a file that ends in .mch; made by a runtime whose JIT interface is the same."""
    command: list[str]
    """Command of superpmi; empty takes the one in ``core_root``."""
    jit: str | None
    """The JIT; null takes the one in ``core_root``."""
    request_timeout_s: PositiveFloat
    """Deadline of one compile."""
    startup_timeout_s: PositiveFloat
    """Deadline of the first, which opens collection and JIT."""
    max_restarts: Annotated[int, Field(ge=0)]
    """A method is given up once superpmi had to be started anew this often for it."""
    max_methods: Positive
    """Eligible methods taken at most, sampled reproducibly."""
    validation_share: Share
    """Of the methods of each number of candidates."""
    test_share: Share
    """Of the methods of each number of candidates."""


class CseConfig(Section):
    """Choice of redundancy eliminations; read by task jit-cse only."""

    min_viable: Positive
    """Units with fewer viable candidates are left out."""
    max_candidates: Annotated[int, Field(ge=1, le=64)]
    """So are units with more candidates."""
    max_exhaustive: Annotated[int, Field(ge=0, le=16)]
    """All subsets are tried for labels where there are at most so many viable candidates."""
    max_trials: Positive
    """Compiles of the hill climb for a label elsewhere, at most."""
    imitate: Literal["labels", "heuristic"]
    """Whose choices learner bc imitates."""
    orders: Positive
    """Random orders in which it sees the choice of each unit."""
    margins: list[Annotated[float, Field(ge=0.0)]] = Field(min_length=1)
    """Savings, in percent of the heuristic's score, that learner marginal asks of a candidate before it is chosen; the
    one that is best on the validation units is kept."""
    max_effect: PositiveFloat
    """Effects beyond this, in percent of the heuristic's score, count as this."""
    sb3_steps: Annotated[int, Field(ge=2)]
    """Choices that learner sb3 makes in training, at least."""
    superpmi: SuperPmiConfig
    """The compiler of task jit-cse."""

    def described(self) -> dict[str, Any]:
        """As plain values for the provenance, without paths."""
        return self.model_dump(exclude={"superpmi": {"core_root", "collection", "command", "jit"}})


class Config(Section):
    """The whole configuration, the learners' sections apart; `config_model` adds these under their learners' names."""

    seed: Annotated[int, Field(ge=0)]
    """Root of all randomness outside training."""
    task: Annotated[str, _one_of(PROBLEMS.names), _listing(PROBLEMS.names)]
    """Decision problem."""
    toolchain: str = Field(min_length=1)
    """``auto`` and ``ziglang`` take the compiler inside the ziglang wheel; else the path of a clang, 17 or newer."""
    target: str = Field(min_length=1)
    """Target triple of all code, so that every machine makes the same bytes."""
    compile: CompileConfig
    corpus: CorpusConfig
    baseline: BaselineConfig
    policy: PolicyConfig
    train: TrainConfig
    replay: ReplayConfig
    workers: WorkersConfig
    evaluate: EvaluateConfig
    headroom: HeadroomConfig
    generalisation: GeneralisationConfig
    sweep: SweepConfig
    cse: CseConfig

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The section of a learner."""

    @model_validator(mode="after")
    def _check_programs(self) -> "Config":
        others = [name for name in self.corpus.splits.train if "@" in name]
        if self.compile.ships.form == "program" and others:
            raise ValueError(f"corpus.splits: {others[0]}: with form program all projects are programs")
        if measures.get_measure(self.compile.objective).of_link and (thin := [one for one in others if "@thin" in one]):
            raise ValueError(f"corpus.splits: {thin[0]}: {self.compile.objective} is of modules that are linked files")
        return self

    @model_validator(mode="after")
    def _check_learners(self) -> "Config":
        kind, values = PROBLEMS.get(self.task).kind, self.model_dump()
        for name in self.train.algorithms:
            if kind not in LEARNERS.get(name).sections:
                raise ValueError(f"train.algorithms: there is no {name} for task {self.task}")
            if values.get(name) is None and LEARNERS.get(name).section is not None:
                raise ValueError(f"train.algorithms: {name} needs its section {name}")
        for name in LEARNERS.names():
            training_chain(name, values)  # refuses what follows from an unknown learner or from itself
        return self


@functools.cache
def config_model() -> type[Config]:
    """The whole configuration with a section for each learner."""
    sections: dict[str, Any] = {}
    for name in LEARNERS.names():
        section = LEARNERS.get(name).section
        if section is None:
            continue
        if not any(field.is_required() for field in section.model_fields.values()):
            sections[name] = section, section()
        else:
            sections[name] = (section, ...) if name in LEARNERS.built_in else (section | None, None)
    return create_model("Config", __base__=Config, __doc__="The whole configuration.", **sections)


SectionType = TypeVar("SectionType", bound=Section)


def parse_config(values: Any, source: str = "configuration") -> Config:
    """Validate a whole configuration."""
    config = parse_section(config_model(), values, source)
    owners: dict[str, str] = {}
    for split, projects in config.corpus.splits.model_dump().items():
        for project in projects:
            if project in owners:
                raise ConfigError(
                    f"{source}: project {project!r} is named twice in corpus.splits ({owners[project]} and {split}); "
                    "take it out of one of them"
                )
            owners[project] = split
    return config


def changed_settings(settings: CompileConfig, foreign: Mapping[str, Any], source: str) -> CompileConfig:
    """Settings of compiles with the level and the size stop of a policy or a tree; ConfigError where they are none."""
    changes = {name: foreign[name] for name in ("optimization", "size_stop_factor") if name in foreign}
    return parse_section(CompileConfig, settings.model_dump() | changes, source)


def parse_section(section: type[SectionType], values: Any, source: str = "") -> SectionType:
    """Validate one section.

    Args:
        values: as JSON and YAML give them.
        source: named in messages; by default the section's class.
    """
    try:
        return section.model_validate(values)
    except ValidationError as error:
        lines = [_explain(item, section) for item in error.errors()]
        raise ConfigError(f"{source or section.__name__}: " + "; ".join(lines)) from None


_MISSING = object()
_OF_PACKAGE = Path(__file__).parents[1] / "config.yaml"
"""In Git a link to that of the checkout; a wheel has the file."""
_WRITTEN = re.compile(r"[0-9a-f]{16}\.json")
"""Names of files that `write_settings` has written."""


class Settings:
    """Some or all sections of a configuration, each checked when it is read.

    Workflow rules hand programs a file with just the sections that these read, see `write_settings`. What a program
    reads besides is then missing, so a rule cannot forget to run again when a setting changes.

    Args:
        source: files that it comes from, for messages.
    """

    def __init__(self, values: Mapping[str, Any], source: str = "configuration") -> None:
        self.values, self.source = values, source

    def __contains__(self, key: str) -> bool:
        return self._find(key) is not _MISSING

    def value(self, key: str) -> Any:
        """A setting by its dotted name, as in ``corpus.max_failed_share``."""
        if (found := self._find(key)) is _MISSING:
            raise ConfigError(f"{self.source}: key {key!r} is missing")
        return found

    def _find(self, key: str) -> Any:
        found: Any = self.values
        for part in key.split("."):
            found = found.get(part, _MISSING) if isinstance(found, Mapping) else _MISSING
        return found

    def section(self, key: str, section: type[SectionType]) -> SectionType:
        """A section by its dotted name."""
        return parse_section(section, self.value(key), f"{self.source}: section {key}")


OF_CHECKOUT = Path("config/config.yaml")
"""Place of the configuration in a checkout, where commands that change it look."""
OF_PROJECT = "mlgo.yaml"
"""File in which a project states what it changes of the package's configuration."""

_ONLY_NAMED = ("toolchain", "workers.kind", "workers.address", "generalisation.compilers", "cse.superpmi")
"""Settings that name programs, addresses of others, or what leads there."""
_MAX_FOUND_BYTES, _MAX_FOUND_WAIT_S = 1 << 20, 3600.0


def default_config() -> Path:
    """The configuration where nobody names one: of the checkout we are in, else of the project, else the package's own.

    A project of others may have a file of this name, too, so a checkout is known by its recipes. What is found may be
    of others, so it is checked, except in the checkout whose code runs.
    """
    in_checkout = OF_CHECKOUT.is_file() and Path("config/corpora").is_dir()
    found = OF_CHECKOUT if in_checkout else _of_project()
    if found is None or (in_checkout and _OF_PACKAGE.parents[1].samefile(Path())):
        return found or _OF_PACKAGE
    if objection := _objection(found):
        raise ConfigError(f"{found} {objection}; it was found, not named: --config {shlex.quote(str(found))} trusts it")
    return found


def package_config() -> dict[str, Any]:
    """Values of the package's own configuration, which a project's are laid over."""
    return dict(read_yaml(_OF_PACKAGE))


@functools.cache
def default_compile() -> CompileConfig:
    """Section ``compile`` of the package's own configuration, for what reads no file."""
    return parse_section(CompileConfig, package_config()["compile"])


def _of_project() -> Path | None:
    """`OF_PROJECT` here or above, as far as a folder with ``.git`` or the home; where none is above, only here."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return None
    folders, home = [here, *here.parents], os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 (never raises)
    ends = [number for number, one in enumerate(folders) if str(one) == home or os.path.lexists(one / ".git")]
    places = [one / OF_PROJECT for one in folders[: min(ends, default=0) + 1]]
    return next(filter(os.path.lexists, places), None)


def _objection(path: Path) -> str:
    """What a file is or says that nobody has named; empty if it is the user's and stays inside of its folder."""
    if not _is_inside(path.parent, path.name):
        return "leads out of its folder through a link"
    if path.exists() and (owner := path.stat().st_uid) not in (0, os.geteuid()):
        return f"belongs to another user ({owner})"
    own, folders = Settings(package_config()), [path.parent, *([Path()] if path.name == OF_PROJECT else [])]
    for key, value in _leaves(read_yaml(path, _MAX_FOUND_BYTES)):
        if key.startswith(_ONLY_NAMED) and own._find(key) != value:
            return f"names a program or an address by {key}"
        if isinstance(value, str) and value and not all(_is_inside(folder, value) for folder in folders):
            return f"names a path outside of its folder by {key}, {value!r:.80}"
        if key.endswith("_timeout_s") and isinstance(value, int | float) and not value <= _MAX_FOUND_WAIT_S:
            return f"lets us wait longer than {_MAX_FOUND_WAIT_S:g} s by {key}"
    return ""


def _is_inside(folder: Path, name: str) -> bool:
    with suppress(ArtifactError):
        return bool(joined(folder, name))
    return False


def _leaves(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Single values of nested ones, each with the dotted name of its setting."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _leaves(value, f"{key}.{name}".removeprefix("."))
    elif isinstance(values, list):
        for value in values:
            yield from _leaves(value, key)
    else:
        yield key, values


def read_settings(*paths: Path) -> Settings:
    """Read a configuration file, whole or in part, with presets laid over it in order.

    One called `OF_PROJECT` is laid over the package's own.
    """
    read, source = [read_yaml(path) for path in paths], " + ".join(map(str, paths))
    for path, some in zip(paths, read, strict=True):
        if _WRITTEN.fullmatch(path.name) and content_hash(some) != path.stem:
            raise ConfigError(f"{path} is not what its name says; delete it and run again")
    if paths[0].name == OF_PROJECT:
        read = [package_config(), read[0] or {}, *read[1:]]
    values = functools.reduce(merge, read)
    if not isinstance(values, dict):
        raise ConfigError(f"{source} is no mapping of sections")
    return Settings(values, source)


def write_settings(folder: Path, values: Mapping[str, Any], *keys: str) -> Path:
    """Write some settings, by dotted names of sections or single ones, to a file that is named by what they are."""
    chosen: dict[str, Any] = {}
    for key in keys:
        part: Any = Settings(values).value(key)
        for name in reversed(key.split(".")):
            part = {name: part}
        chosen = merge(chosen, part)
    chosen = json.loads(json.dumps(chosen))  # as it will be read
    path = folder / f"{content_hash(chosen)}.json"
    if not path.exists():
        place(path, json.dumps(chosen, indent=2).encode())
    return path


def load_config(*paths: Path) -> Config:
    """Read a configuration file, by default ours, with presets laid over it in order; ConfigError if it is wrong."""
    settings = read_settings(*(paths or [default_config()]))
    return parse_config(settings.values, settings.source)


def merge(base: Any, overlay: Any) -> Any:
    """Lay one nested mapping over another; lists and scalars are replaced."""
    if isinstance(base, dict) and isinstance(overlay, dict):
        merged = {key: merge(value, overlay[key]) if key in overlay else value for key, value in base.items()}
        return merged | {key: value for key, value in overlay.items() if key not in base}
    return overlay


def read_yaml(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """Read a YAML file; a name that ends in ``.json`` stands for JSON, whose small numbers YAML takes for words."""
    try:
        text = read_input(path, max_bytes).decode()
        return parse_json(text) if path.suffix == ".json" else _parse_yaml(text)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:  # of odd tags, the last three
        raise ConfigError(f"{path} is not YAML: {error}") from error


_MAX_DEPTH, _MAX_NODES, _MAX_PLAIN = 64, 1 << 17, 1 << 16


def _parse_yaml(text: str) -> Any:
    """Values of a document, once its events have shown that it is not deep, nor large where aliases stand for parts."""
    open_sizes, sizes, names = [0], dict[str | None, int](), list[str | None]()
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            open_sizes.append(0)
            names.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            size = open_sizes.pop() + 1
            sizes[names.pop()] = size
            open_sizes[-1] += size
        elif isinstance(event, yaml.AliasEvent):  # of a part that it is itself in: as large as can be
            open_sizes[-1] += sizes.get(event.anchor, 1 if event.anchor not in names else _MAX_NODES)
        elif isinstance(event, yaml.ScalarEvent):
            open_sizes[-1] += 1
            if event.style in (None, "") and len(event.value) > _MAX_PLAIN:
                raise ValueError(f"a word of more than {_MAX_PLAIN} letters without quotes")
        if len(names) > _MAX_DEPTH or open_sizes[-1] >= _MAX_NODES:
            raise ValueError(f"nested deeper than {_MAX_DEPTH}, or more than {_MAX_NODES} values")
    return yaml.load(text, Loader=_LOADER)


def json_schema() -> dict[str, Any]:
    """JSON schema of a whole configuration."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **config_model().model_json_schema()}


def _explain(item: Any, section: type[Section]) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "the whole"
    if item["type"] == "extra_forbidden":
        return f"unknown key {key!r}; known here: {', '.join(_siblings(section, item['loc']))}"
    if item["type"] == "missing":
        return f"key {key!r} is missing"
    return f"{key}: {item['msg'][0].lower()}{item['msg'][1:]}, got {item['input']!r:.80}"


def _siblings(section: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    parts = iter(location[:-1])
    for part in parts:
        annotation = section.model_fields[str(part)].annotation
        if get_origin(annotation) in (dict, list):  # sections by name or number
            next(parts, None)
        kinds = [one for one in (annotation, *get_args(annotation)) if isinstance(one, type)]
        sections = [one for one in kinds if issubclass(one, BaseModel)]
        if not sections:
            return []
        section = sections[0]
    return sorted(field.alias or name for name, field in section.model_fields.items())
