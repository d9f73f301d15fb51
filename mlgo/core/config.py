"""The configuration: every setting with its type, range, unit and meaning.

``config/config.yaml`` states all of them; the presets state only what they change. Unknown keys are errors.
``workflow/schemas/config.schema.json`` is generated from this file (``mlgo config schema``).
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mlgo.core import measures
from mlgo.core.errors import ConfigError
from mlgo.core.problems import PROBLEMS

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0.0)]


def _unique(values: list[Any]) -> list[Any]:
    if len(set(values)) != len(values):
        raise ValueError("must not name anything twice")
    return values


def _has_test(values: list[Any]) -> list[Any]:
    if "test" not in values:
        raise ValueError("must contain test, where the headline comes from")
    return values


def _is_measure(name: str) -> str:
    if name not in measures.MEASURES:
        *first, last = map(repr, measures.names())
        raise ValueError(f"must be {', '.join(first)} or {last}")
    return name


def _is_task(name: str) -> str:
    if name not in PROBLEMS.names():
        raise ValueError(f"must be one of {', '.join(PROBLEMS.names())}")
    return name


class Section(BaseModel):
    """Base of all sections: frozen, strict about types, no unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class CompileConfig(Section):
    """How every module is compiled and scored."""

    objective: Annotated[str, AfterValidator(_is_measure), Field(json_schema_extra={"enum": list(measures.names())})]
    """Score that learning minimises: Berkeley text (code, constants, unwind tables), executable sections, Berkeley
    text by shares (what n modules of a project carry as copies, of which a linker keeps one, counts 1/n), or, in
    register allocation, the cost of spills, reloads and copies."""
    optimization: Literal["-Oz", "-Os", "-O2", "-O3"]
    """Optimization level, given to the front end and to every later compile."""
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


DEFAULT_COMPILE = CompileConfig(
    objective=measures.DEFAULT.name,
    optimization="-Oz",
    size_stop_factor=4.0,
    compile_timeout_s=120.0,
    max_memory_gb=8.0,
    answer_timeout_s=60.0,
    max_questions=1_000_000,
)
"""Section ``compile`` of config/config.yaml, for what runs without that file; a test holds the two together."""


class Splits(Section):
    """Which projects serve which purpose; no project may serve two."""

    train: list[str] = Field(min_length=1)
    """Projects that policies learn from."""
    validation: list[str] = Field(min_length=1)
    """Projects that choose between policies."""
    test: list[str] = Field(min_length=1)
    """Projects that nothing is ever tuned on."""


class CorpusConfig(Section):
    """What is compiled."""

    recipes: str
    """Folder of recipes, one ``<project>.yaml`` each."""
    splits: Splits
    """Projects by purpose."""
    max_modules_per_project: Positive
    """Larger projects are sampled down to this many sources, reproducibly."""
    max_failed_share: Share
    """A project with a larger share of sources that do not compile ends the run."""


class BaselineConfig(Section):
    """Reference scores and the default policy's trace."""

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


class TrainConfig(Section):
    """Which policies are trained."""

    algorithms: Annotated[list[Literal["bc", "bcmax", "es", "marginal", "ppo", "sb3"]], AfterValidator(_unique)] = (
        Field(min_length=1)
    )
    """Learners to run; es starts from the policy of es.start, ppo from that of ppo.start, bcmax from bc. For choices of
    eliminations there is no bcmax, and sb3 is for these alone; it needs the extra sb3."""
    seeds: list[Annotated[int, Field(ge=0, lt=2**32)]] = Field(min_length=1)
    """One policy per learner and seed."""


class BCConfig(Section):
    """Behavioural cloning of the default policy."""

    max_epochs: Positive
    """Upper limit of passes over the trace."""
    patience: Positive
    """Passes without progress on the validation projects before it stops."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size."""
    max_steps_per_module: Positive
    """Questions taken from one module at most, so that large modules do not rule."""
    weighting: Literal["question", "module", "sqrt"]
    """What a module's total weight follows: its questions, nothing (all modules weigh the same), or their root."""
    balance: bool
    """Give both answers the same total weight."""


class BCMaxConfig(Section):
    """Behavioural cloning of the best known trajectory of each module, again and again (BC-Max)."""

    rounds: Annotated[int, Field(ge=0)]
    """Rounds of exploring, keeping what was best, and cloning it."""
    hidden: list[Positive]
    """Units of each hidden layer of the clone; where the start policy has other ones, it starts from fresh weights."""
    clone_epochs: Positive
    """Passes over the heuristic's own trajectories with which a clone from fresh weights begins."""
    flipped: Annotated[int, Field(ge=0)]
    """Variants per round that turn some of the current policy's answers around."""
    temperature: Annotated[float, Field(ge=0.0)]
    """Their logits are divided by this and answers drawn from the sigmoid; 0 keeps the policy's answers."""
    flip_share: Share
    """Probability that they turn an answer around."""
    perturbed: Annotated[int, Field(ge=0)]
    """Variants per round with noise on the current policy's weights."""
    perturbation: PositiveFloat
    """Standard deviation of that noise, relative to each layer's root mean square weight."""
    references: Annotated[list[Literal["never", "random"]], AfterValidator(_unique)]
    """Reference advisors that are compiled once, before the first round; the heuristic is always known."""
    random_share: Share
    """Probability that the random reference inlines; the same question always gets the same answer."""
    policies: Annotated[list[str], AfterValidator(_unique)]
    """Folders of earlier policies that are compiled once, before the first round."""
    use_trees: bool
    """Begin with the best compiles that the decision trees hold. The result then depends on what earlier runs left."""
    modules: Positive
    """Training modules at most, sampled reproducibly; the same in all rounds."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out."""
    weighting: Literal["question", "module", "sqrt"]
    """What a module's total weight follows, as in bc."""
    gain_weight: Annotated[float, Field(ge=0.0)]
    """Further weight of a module per percent that its best trajectory gains over the heuristic."""
    epochs: Positive
    """Passes over the best trajectories per round."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validation_modules: Positive
    """Validation modules that each round is judged on, at most."""


class TrustRegionConfig(Section):
    """Steps by a model of the reward, as long as the model keeps its promises."""

    model: Literal["linear", "diagonal", "quadratic"]
    """Model of the reward around the mean: slope alone, a curvature per weight too, or one per pair of weights."""
    ridge_penalty: PositiveFloat
    """Penalty of the ridge regression that fits it, in perturbations of standard deviation 1."""
    radius: PositiveFloat
    """Longest step at the start, in units of ``es.perturbation_unit``."""
    min_radius: PositiveFloat
    """The radius does not shrink below this."""
    max_radius: PositiveFloat
    """The radius does not grow above this."""
    accept_threshold: Annotated[float, Field(ge=0.0)]
    """A step is taken if the improvement is more than this share of the predicted one."""
    shrink_threshold: float
    """The radius shrinks if the improvement is less than this share of the predicted one."""
    shrink_factor: Annotated[float, Field(gt=0.0, lt=1.0)]
    """By what it shrinks."""
    grow_threshold: float
    """The radius grows if the improvement is more than this share of the predicted one."""
    grow_factor: Annotated[float, Field(gt=1.0)]
    """By what it grows."""

    @model_validator(mode="after")
    def _check_order(self) -> "TrustRegionConfig":
        if not self.min_radius <= self.radius <= self.max_radius:
            raise ValueError("radius must lie between min_radius and max_radius")
        if self.shrink_threshold > self.grow_threshold:
            raise ValueError("shrink_threshold must not be above grow_threshold")
        return self


class ESConfig(Section):
    """Evolution strategies on compile results."""

    start: Literal["bc", "bcmax", "marginal", "ppo"]
    """Learner whose policy it starts from."""
    generations: Annotated[int, Field(ge=0)]
    """Updates of the mean policy."""
    estimator: Literal["antithetic", "forward"]
    """Candidates of a direction: mean plus and minus the perturbation, or plus alone, held against the mean itself."""
    pairs: Positive
    """Directions per generation: twice as many candidates if antithetic, one more if forward."""
    modules: Positive
    """Training modules each candidate compiles in a generation; all candidates get the same ones."""
    max_questions: Positive
    """Training modules with more questions under the heuristic are left out."""
    perturbation: PositiveFloat
    """Standard deviation of the noise, in units of ``perturbation_unit``."""
    perturbation_unit: Literal["layer_rms", "weight"]
    """Unit of perturbations and steps: each layer's root mean square weight, or each weight's own size."""
    perturbation_epsilon: PositiveFloat
    """Added to a weight's size when that is the unit, so that weights near 0 vary too."""
    orthogonal: bool
    """Make the directions of a generation orthogonal to each other."""
    gradient: Literal["monte_carlo", "ars", "ridge", "lasso", "linear"]
    """From rewards to a gradient: average of the noise, augmented random search, or a regression on the noise."""
    top_directions: Positive
    """Directions with the best candidates that augmented random search uses, at most."""
    ridge_penalty: PositiveFloat
    """Penalty of ridge gradients, in perturbations of standard deviation 1."""
    lasso_penalty: PositiveFloat
    """Penalty of lasso gradients, in shaped rewards per perturbation of standard deviation 1; large ones give zeros."""
    update: Literal["adam", "sgd", "trust_region"]
    """From gradient to step. A trust region fits its own model instead of a gradient."""
    step_size: PositiveFloat
    """Step size of Adam, in units of ``perturbation_unit``; factor of the gradient in sgd."""
    momentum: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Share of the last step's velocity that sgd keeps."""
    trust_region: TrustRegionConfig
    """Options of a trust region."""
    trainable_layers: Positive
    """How many of the last layers are varied; the others keep their cloned weights."""
    shaping: Literal["rank", "zscore", "none"]
    """How rewards are made comparable before a gradient; not used by ars, nor by a trust region."""
    weight_decay: Annotated[float, Field(ge=0.0)]
    """Pull towards the cloned weights, per update; not used by a trust region."""
    min_success_share: Share
    """A generation with a smaller share of usable directions is skipped."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validate_every: Positive
    """Generations between two validations of the mean policy."""
    validation_modules: Positive
    """Validation modules used for that, at most."""
    save_every: Annotated[int, Field(ge=0)]
    """Generations between two policies in data/work/policies, where the best so far are kept too; 0 keeps none."""


class MarginalConfig(Section):
    """Marginal costs: rounds of exploring compiles and of fitting what each inlined call adds to the size."""

    hidden: list[Positive] = Field(min_length=1)
    """Units of each hidden layer of a member."""
    rounds: Annotated[int, Field(ge=0)]
    """How often it explores and fits."""
    modules: Positive
    """Training modules explored in a round, at most."""
    compiles: Positive
    """Compiles of each of them in a round, at least; the first under the policy itself."""
    max_compiles: Positive
    """Compiles of each of them in a round, at most: small modules are cheap and need more to learn from."""
    questions: Positive
    """A module is compiled until it has asked about so many questions in a round, within these bounds."""
    max_questions: Positive
    """Training modules with more questions under the heuristic are left out."""
    first_flip_share: Share
    """In the first round answers are turned around with a probability drawn between 0 and this."""
    flip_share: Share
    """The same for later rounds."""
    min_flips: Annotated[float, Field(ge=0.0)]
    """Answers turned around per compile, on average at least; matters for modules with few questions."""
    temperature: Annotated[float, Field(ge=0.0)]
    """From the second round on, logits are divided by a number drawn between 0 and this: close calls vary most."""
    unit_bytes: PositiveFloat
    """Bytes that one unit of the policy's logit stands for."""
    start_logit: PositiveFloat
    """Median size of the cloned policy's logits before the first fit."""
    members: Positive
    """Fits per round, which differ in their start, their held-out modules and the order of their steps."""
    caution: Annotated[float, Field(ge=0.0)]
    """An answer other than the heuristic's needs a mean of the members of this many mean deviations."""
    anchors: list[Annotated[float, Field(ge=0.0)]] = Field(min_length=1)
    """Pull towards the heuristic's answers in the fits of each round; the last one holds for all further rounds."""
    huber_percent: PositiveFloat
    """Error of an equation, in percent of a module's size, from which on the loss is linear."""
    learning_rate: PositiveFloat
    """Adam step size."""
    max_epochs: Positive
    """Upper limit of passes over the equations in a fit."""
    patience: Positive
    """Passes without progress on held-out modules before a fit stops."""
    batch_modules: Positive
    """Modules per gradient step."""
    held_out_share: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Training modules held out of a fit, drawn anew each round; their equations end it."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validation_modules: Positive
    """Validation modules that judge each round, at most."""


class PPOConfig(Section):
    """Proximal policy optimisation on compile results."""

    start: Literal["bc", "bcmax", "es"]
    """Learner whose policy it starts from."""
    iterations: Annotated[int, Field(ge=0)]
    """Rounds of sampling and learning."""
    modules: Positive
    """Training modules compiled in an iteration."""
    episodes: Positive
    """Compiles of each of them, with answers drawn anew."""
    max_questions: Positive
    """Training modules with more questions under the heuristic are left out."""
    baseline: Literal["network", "siblings"]
    """What a reward is compared with: what a value network expects, for answers of yes or no; or the other episodes
    of the same module, in register allocation of the same function."""
    max_advantage: PositiveFloat
    """With siblings: advantages stay within this many times their root mean square."""
    start_temperature: PositiveFloat
    """The clone's logits are divided by this, once, so that sampling explores; a power of two rounds nothing."""
    gamma: Share
    """Discount of the reward per question before the last."""
    gae_lambda: Share
    """Advantages: 0 trusts the value network, 1 the reward alone."""
    reward_prior: PositiveFloat
    """Episodes that the mean and deviation of all rewards are worth, beside a module's own."""
    clip_range: PositiveFloat
    """Change of an answer's probability, as a share of it, beyond which nothing more is gained."""
    epochs: Positive
    """Passes over the questions of an iteration."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size of the policy."""
    value_learning_rate: PositiveFloat
    """Adam step size of the value network."""
    value_hidden: list[Positive]
    """Units of each hidden layer of the value network."""
    entropy_bonus: Annotated[float, Field(ge=0.0)]
    """Weight of the policy's entropy, in nats, beside the clipped gain."""
    max_kl: PositiveFloat
    """The policy's updates of an iteration end where it has moved this far, in nats per question."""
    max_gradient_norm: PositiveFloat
    """Longer gradients are shortened to this."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validate_every: Positive
    """Iterations between two validations of the policy."""
    validation_modules: Positive
    """Validation modules used for that, at most."""

    @model_validator(mode="after")
    def _check_siblings(self) -> "PPOConfig":
        if self.baseline == "siblings" and self.episodes < 2:
            raise ValueError("with baseline siblings episodes must be 2 or more")
        return self


class ReplayConfig(Section):
    """Decision trees: compiles kept so that none is done twice."""

    enabled: bool
    """Walk policies down known trees before compiling. Results are the same either way."""
    max_disk_gb: PositiveFloat
    """Trees on disk beyond this are deleted before training, least recently used first, in 10^9 bytes."""


class WorkersConfig(Section):
    """Where trainings and evaluations compile. Results are the same everywhere, so a change reruns nothing."""

    kind: Literal["local", "serial", "ray", "nested"]
    """``local``: processes of this machine. ``serial``: this process, one compile after another. ``ray``: actors of a
    Ray cluster (extra ``ray``). ``nested``: shared with other experiments, by ``mlgo workers serve``."""
    num_workers: Annotated[int, Field(ge=0)]
    """How many; 0 takes the cores that the rule got, with ``ray`` as many as the cluster has CPUs, with ``nested`` one
    on each nesting worker."""
    address: str
    """With ``ray``: ``host:port`` of a cluster, ``auto`` for the one of this machine; empty starts one here. With
    ``nested``: socket of the server; empty stands for the one that ``mlgo workers serve`` takes by default."""
    files: Literal["send", "shared"]
    """With ``ray``: whether modules, compiler and decision trees are sent to the nodes, or lie in folders that all see
    under the same paths."""
    retries: Annotated[int, Field(ge=0)]
    """How often a compile whose worker died is tried again, on another worker."""
    start_timeout_s: PositiveFloat
    """With ``ray``: how long to wait for the first worker, in seconds; clusters that grow need minutes."""


LOCAL_WORKERS = WorkersConfig(kind="local", num_workers=0, address="", files="send", retries=2, start_timeout_s=300.0)
"""Section ``workers`` of config/config.yaml, for what runs without that file; a test holds the two together."""


class EvaluateConfig(Section):
    """How policies are judged."""

    splits: Annotated[list[Literal["train", "validation", "test"]], AfterValidator(_unique), AfterValidator(_has_test)]
    """Splits to compile; the headline always comes from test."""
    max_train_modules: Positive
    """Training modules evaluated at most, sampled reproducibly."""
    resamples: Annotated[int, Field(ge=100)]
    """Bootstrap resamples."""
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)]
    """Coverage of the intervals."""
    max_failed_share: Share
    """A larger share of modules that cannot be evaluated ends the run."""


class HeadroomConfig(Section):
    """Search for smaller modules, decision by decision; nothing in the default run reads it."""

    splits: Annotated[list[Literal["train", "validation", "test"]], AfterValidator(_unique)] = Field(min_length=1)
    """Splits to draw modules from."""
    modules: Positive
    """Modules searched at most, sampled reproducibly."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out; so are those without any."""
    budget: Positive
    """Compiles per module at most."""
    flips_per_round: Positive
    """Answers of a module that are flipped side by side, before the helpful ones are combined."""
    known_trees: bool
    """Also begin with the best compile in the decision trees. The results then depend on what earlier runs left."""


class CompilerWheel(Section):
    """A compiler from a wheel of ziglang on the package index."""

    version: str = Field(min_length=1)
    """Version of ziglang; which LLVM it holds, docs/generalisation.md tells."""
    sha256: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(min_length=1)
    """Hash of the wheel for each kind of machine, as ``uname -m`` names it."""


class TrainSet(Section):
    """Modules that policies are trained on."""

    languages: Annotated[list[Literal["c", "c++"]], AfterValidator(_unique)] = Field(min_length=1)
    """Only modules in these languages, for training, validation and the scales of the features."""
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


class SweepConfig(Section):
    """Trainings under settings that vary, side by side; nothing in the default run reads it."""

    tasks: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9-]*$")], list[str]]
    """By name, presets that are laid over the configuration, in order; all points are made under each. Empty takes the
    configuration as it is."""
    learners: Annotated[list[Literal["bc", "marginal", "es", "ppo", "bcmax"]], AfterValidator(_unique)] = Field(
        min_length=1
    )
    """Learners to compare; what they start from is trained along."""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], AfterValidator(_unique)] = Field(min_length=1)
    """Seeds of every training."""
    points: dict[str, Annotated[list[Any], Field(min_length=1)]]
    """Values of settings, each named as in ``es.step_size``; every combination is a point."""


class GccConfig(Section):
    """A stock GCC whose redundancy eliminations are chosen through its debug counters."""

    command: str = Field(min_length=1)
    """``auto`` takes gcc from the path; else a command or path."""
    optimization: Literal["-O1", "-O2", "-O3", "-Os"]
    """Level of all compiles."""
    counter: Literal["pre_insn"]
    """Debug counter that is driven; the one whose values keep their meaning, see mlgo/problems/gcc/counters.py."""
    unit: Literal["function", "translation_unit"]
    """What a choice is made for. Functions of a translation unit share compiles."""
    candidate: Literal["expression", "instruction"]
    """What is chosen: an expression, with all instructions of a function that compute it redundantly, or each such
    instruction. The first elimination of an expression pays for a register and for copies, further ones hardly do."""
    score: Literal["text_bytes", "function_bytes", "instructions"]
    """What is to be small: text of the object, code of the functions without the gaps that align them, or what the
    program executes. For the last, projects are runnable programs, as those in config/programs; it needs valgrind."""
    timeout_s: PositiveFloat
    """Deadline of one compile."""

    @model_validator(mode="after")
    def _check_score(self) -> "GccConfig":
        if (self.unit, self.score) == ("function", "text_bytes"):
            raise ValueError("a function has no text of its own; choose score function_bytes")
        return self


class SuperPmiConfig(Section):
    """A Checked .NET JIT, driven by SuperPMI on recorded methods."""

    core_root: str | None
    """Folder with superpmi and the JIT; null where neither is used."""
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
    """Choice of redundancy eliminations; read by the tasks gcc-pre and jit-cse only."""

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
    gcc: GccConfig
    """The compiler of task gcc-pre."""
    superpmi: SuperPmiConfig
    """The compiler of task jit-cse."""


class Config(Section):
    """The whole configuration."""

    seed: Annotated[int, Field(ge=0)]
    """Root of all randomness outside training."""
    task: Annotated[
        str, AfterValidator(_is_task), Field(json_schema_extra=lambda schema: schema.update(enum=PROBLEMS.names()))
    ]
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
    bc: BCConfig
    bcmax: BCMaxConfig
    es: ESConfig
    marginal: MarginalConfig
    ppo: PPOConfig
    replay: ReplayConfig
    workers: WorkersConfig
    evaluate: EvaluateConfig
    headroom: HeadroomConfig
    generalisation: GeneralisationConfig
    sweep: SweepConfig
    cse: CseConfig

    @model_validator(mode="after")
    def _check_starts(self) -> "Config":
        if self.es.start == "ppo" and self.ppo.start == "es":
            raise ValueError("es.start and ppo.start name each other; let one of them start from bc")
        stranger = "bcmax" if PROBLEMS.get(self.task).kind == "choices" else "sb3"
        if stranger in self.train.algorithms:
            raise ValueError(f"train.algorithms: there is no {stranger} for task {self.task}")
        return self


SectionType = TypeVar("SectionType", bound=Section)


def parse_config(values: Any, source: str = "configuration") -> Config:
    """Validate a whole configuration.

    Raises:
        ConfigError: with one line per mistake, each naming the key.
    """
    config = _validate(Config, values, source)
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


def parse_section(section: type[SectionType], text: str) -> SectionType:
    """Validate one section given as JSON text, the form in which workflow rules hand it to programs.

    Raises:
        ConfigError: not JSON, or not this section.
    """
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{section.__name__}: not JSON: {error}") from error
    return _validate(section, values, section.__name__)


def load_config(path: Path, *overlays: Path) -> Config:
    """Read a configuration file, with overlays (presets) laid over it in order.

    Raises:
        ConfigError: unreadable or invalid.
    """
    values = read_yaml(path)
    for overlay in overlays:
        values = merge(values, read_yaml(overlay))
    return parse_config(values, " + ".join(str(p) for p in (path, *overlays)))


def merge(base: Any, overlay: Any) -> Any:
    """Lay one nested mapping over another; lists and scalars are replaced."""
    if isinstance(base, dict) and isinstance(overlay, dict):
        merged = {key: merge(value, overlay[key]) if key in overlay else value for key, value in base.items()}
        return merged | {key: value for key, value in overlay.items() if key not in base}
    return overlay


def read_yaml(path: Path) -> Any:
    """Read a YAML file.

    Raises:
        ConfigError: missing or not YAML.
    """
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error


def json_schema() -> dict[str, Any]:
    """JSON schema of a whole configuration."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}


def _validate(section: type[SectionType], values: Any, source: str) -> SectionType:
    try:
        return section.model_validate(values)
    except ValidationError as error:
        lines = [_explain(item, section) for item in error.errors()]
        raise ConfigError(f"{source}: " + "; ".join(lines)) from None


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
        if get_origin(annotation) is dict:  # sections by name
            next(parts, None)
            annotation = get_args(annotation)[1]
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        section = annotation
    return sorted(section.model_fields)
