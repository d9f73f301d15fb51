"""What every policy is held against: scores and questions under the references, and how learners read them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import COPIES, FUNCTIONS, SCORES, Row, feature_array, read_provenance, read_table, trace_schema
from mlgo.corpus.store import Module, load_modules
from mlgo.errors import ArtifactError, TrainingError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.episodes import Episode, episode, function_episodes
from mlgo.evaluate.worker import CompileJob, CompileOutcome, Copies
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import HEURISTIC, EchoAdvisor, RecordedAdvisor, Setting, Task, get_task
from mlgo.host.toolchain import Quirks
from mlgo.objects.comdat import comdat_groups
from mlgo.objects.elf import ELF, function_code
from mlgo.objects.measures import DEFAULT, MEASURES, Compiled, Measure, Scores, get_measure, known_score, scores_of
from mlgo.objects.remarks import SpillCosts
from mlgo.policy.policy import Policy


@dataclass(frozen=True)
class Scoring:
    """Which references are scored, and how.

    Training reads of the heuristic and the traced reference alone. Other references are for reports, so modules of
    training projects are not compiled under them.
    """

    others: bool  # whether modules that are judged are compiled under the other references, too
    random_inline_share: float
    seed: int


@dataclass(frozen=True)
class Baseline:
    """References of some modules."""

    scores: list[Row]  # rows of `artifacts.SCORES`, by module and advisor
    functions: list[Row]  # rows of `artifacts.FUNCTIONS`, by module, advisor and function
    copies: Copies
    trace: pa.Table | None  # rows of `artifacts.trace_schema`, by module and step; None when no module could be traced
    timings: list[Row]


@dataclass(frozen=True)
class ReferenceCompile:
    """A module under a reference."""

    module: Module
    advisor: str
    object_path: Path
    outcome: CompileOutcome


def score_references(
    host: CompileHost,
    task: Task,
    quirks: Quirks,
    modules: Sequence[Module],
    bitcode: Mapping[str, Path],
    how: Scoring,
    folder: Path,
    label: str = "",
) -> Baseline:
    """Compile modules under the reference advisors and record what the heuristic was asked."""
    references = task.references

    def job(module: Module, advisor: str, object_path: Path) -> CompileJob:
        plain = CompileJob(module.key, bitcode[module.key], None, object_path=object_path)
        if advisor == HEURISTIC:
            return plain
        setting = Setting(how.seed, module.key, how.random_inline_share, quirks.default_slot)
        answers = references.advisors[advisor](setting)
        traced = advisor == references.traced
        return replace(
            plain, advisor=answers, with_heuristic_feature=traced and task.default is not None, record=traced
        )

    pairs = [
        (module, advisor)
        for module in modules
        for advisor in references.names
        if advisor in references.needed or (how.others and module.split != "train")
    ]
    planned = [(*pair, folder / f"{number:06d}.o") for number, pair in enumerate(pairs)]
    outcomes = host.compile_all([job(*one) for one in planned], label)
    compiled, copies = _with_shares([ReferenceCompile(*one, o) for one, o in zip(planned, outcomes, strict=True)])
    plain, traced = ({one.module.key: one for one in compiled if one.advisor == wanted} for wanted in references.needed)
    asked = {key: one.outcome for key, one in traced.items()}
    remarks: dict[str, str] = {}
    if references.is_heuristic:
        remarks = _explain_differences(host, quirks, bitcode, plain, traced)
        if quirks.default_hides_a_feature:  # ask again with the same answers but without the default in its place
            results = {key: outcome.result for key, outcome in asked.items() if outcome.result is not None}
            again = [CompileJob(k, bitcode[k], RecordedAdvisor(one.answers), record=True) for k, one in results.items()]
            asked = dict(zip(results, host.compile_all(again), strict=True))
    return Baseline(
        [
            _score_row(one, remarks.get(one.module.key, "") if one.advisor == references.traced else "")
            for one in compiled
        ],
        [row for one in compiled for row in function_rows(one.module, one.advisor, one.outcome.result)],
        copies,
        _trace(modules, asked, host.hidden),
        timing_rows((one.module, one.advisor, one.outcome) for one in compiled),
    )


def _with_shares(compiled: Sequence[ReferenceCompile]) -> tuple[list[ReferenceCompile], Copies]:
    """Measure again, once the heuristic has compiled whole projects, with what modules share; and say what that is."""
    by_heuristic: dict[str, list[Path]] = {}
    for one in compiled:
        if one.advisor == HEURISTIC and one.outcome.result is not None:
            by_heuristic.setdefault(one.module.project, []).append(one.object_path)
    copies: dict[str, dict[bytes, int]] = {}
    for project, paths in by_heuristic.items():  # only groups that several objects carry
        carriers = Counter(signature for path in paths for signature in dict(comdat_groups(path.read_bytes())))
        copies[project] = {signature: num for signature, num in sorted(carriers.items()) if num > 1}

    def shared(one: ReferenceCompile) -> ReferenceCompile:
        if (result := one.outcome.result) is None:
            return one
        measured = Compiled(one.object_path.read_bytes(), num_copies=copies.get(one.module.project, {}))
        by_shares = {name: of.read(measured) for name, of in MEASURES.items() if of.needs_copies}
        scores = {**result.scores, **by_shares}
        return replace(one, outcome=replace(one.outcome, result=replace(result, scores=scores)))

    return list(map(shared, compiled)), copies


def copy_rows(copies: Copies) -> list[Row]:
    """Rows of ``artifacts.COPIES``."""
    return [
        {"project": project, "signature": signature, "num_modules": num}
        for project, groups in copies.items()
        for signature, num in groups.items()
    ]


def function_rows(module: Module, advisor: str, result: CompileResult | None) -> list[Row]:
    """Rows of ``artifacts.FUNCTIONS``: functions with questions in their order, then others that cost anything."""
    if result is None or result.spills is None:
        return []
    costs = {one.function: one for one in result.spills}
    asked = {name: count for name, count in result.contexts if count}
    key = {"project": module.project, "module": module.name, "advisor": advisor}
    return [
        {**key, "num_questions": asked.get(name, 0), **costs.get(name, SpillCosts(name))._asdict()}
        for name in dict.fromkeys([*asked, *costs])
    ]


def timing_rows(compiled: Iterable[tuple[Module, str, CompileOutcome]]) -> list[Row]:
    """Rows of ``artifacts.TIMINGS`` of modules under an advisor; failed compiles have none."""
    return [
        {"project": module.project, "module": module.name, "advisor": advisor, "seconds": outcome.result.seconds}
        for module, advisor, outcome in compiled
        if outcome.result is not None
    ]


def self_test_failures(scores: pa.Table) -> list[dict[str, str]]:
    """Modules whose echo compile differs from the plain one, with the likely cause.

    Returns:
        ``{"module": ..., "cause": ...}`` per difference; empty when the self-test holds everywhere.
    """
    by_module: dict[str, Row] = {}
    for row in scores.to_pylist():
        by_module.setdefault(f"{row['project']}/{row['module']}", {})[row["advisor"]] = row
    found = []
    for key, rows in by_module.items():
        plain, echo = rows["heuristic"], rows["echo"]
        if plain["failure"] or echo["failure"]:
            cause = f"did not compile: {plain['message'] or echo['message']}"
        elif plain["object_sha256"] == echo["object_sha256"]:
            continue
        else:
            name, words = DEFAULT.name, DEFAULT.words
            cause = f"{echo['message']}; {words.title} {echo[name]} instead of {plain[name]} {words.unit}"
        found.append({"module": key, "cause": cause})
    return found


def differing_code(plain: bytes, echo: bytes) -> str:
    """Which functions of two objects differ, in words."""
    if not plain.startswith(ELF):
        return "which functions differ is told of ELF objects alone"
    one, two = function_code(plain), function_code(echo)
    names = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    if not names:
        return f"the code of all {len(one)} functions is the same, what is around it differs"
    first = names[0]
    sizes = " and ".join(f"{len(code[first])} bytes" if first in code else "none" for code in (one, two))
    return f"the code of {len(names)} of {len({**one, **two})} functions differs, first of {first} ({sizes})"


def _explain_differences(
    host: CompileHost,
    quirks: Quirks,
    bitcode: Mapping[str, Path],
    plain: Mapping[str, ReferenceCompile],
    echoes: Mapping[str, ReferenceCompile],
) -> dict[str, str]:
    """Say why echoing the default did not reproduce the plain object, and where they differ, by module key."""
    results = {key: (plain[key].outcome.result, echoes[key].outcome.result) for key in plain}
    differing = {
        key: echo for key, (a, echo) in results.items() if a and echo and a.object_sha256 != echo.object_sha256
    }
    jobs = [
        CompileJob(key, bitcode[key], who, with_heuristic_feature=who is not None, count_done=True)
        for key in differing
        for who in (None, EchoAdvisor(quirks.default_slot))
    ]
    counts = [outcome.result.num_remarks if outcome.result else 0 for outcome in host.compile_all(jobs)]
    return {
        key: f"{_cause(echo, *done)}; {differing_code(*(one[key].object_path.read_bytes() for one in (plain, echoes)))}"
        for (key, echo), *done in zip(differing.items(), counts[::2], counts[1::2], strict=True)
    }


def _cause(echo: CompileResult, inlined: int, by_echo: int) -> str:
    if echo.truncated:
        return "the size stop ended the questions; raise compile.size_stop_factor"
    if inlined > by_echo:
        more = inlined - by_echo
        return f"the heuristic inlined {more} more call{'' if more == 1 else 's'}, unasked"
    return f"unexplained: {inlined} calls inlined plain, {by_echo} by echo"


def _score_row(compiled: ReferenceCompile, remark: str) -> Row:
    module, outcome, result = compiled.module, compiled.outcome, compiled.outcome.result
    return {
        "project": module.project,
        "module": module.name,
        "advisor": compiled.advisor,
        **scores_of(result.scores if result else {}),
        "num_questions": result and result.num_questions,
        "truncated": result and result.truncated,
        "object_sha256": result.object_sha256 if result else "",
        "failure": outcome.failure,
        "message": outcome.message or remark,
    }


def _trace(modules: Sequence[Module], outcomes: Mapping[str, CompileOutcome], hidden: Sequence[str]) -> pa.Table | None:
    tables = [
        _module_trace(module, outcome.result, hidden)
        for module in modules
        if (outcome := outcomes.get(module.key)) is not None and outcome.result is not None and outcome.result.header
    ]
    if not tables:
        return None
    if any(table.schema != tables[0].schema for table in tables):
        raise ArtifactError("the compiler offered different features for different modules")
    return pa.concat_tables(tables)


def _module_trace(module: Module, result: CompileResult, hidden: Sequence[str]) -> pa.Table:
    asked = result.questions()
    features = {
        spec.name: feature_array(spec, asked.observations, asked.header.offset(spec.name))
        for spec in asked.header.features
        if spec.name not in hidden
    }
    num_steps = len(asked.observations)
    answers = pa.array(asked.answers)
    schema = trace_schema({name: column.type for name, column in features.items()}, answers.type)
    columns = {
        "project": pa.repeat(module.project, num_steps),
        "module": pa.repeat(module.name, num_steps),
        "context": [name for name, count in result.contexts for _ in range(count)],
        "step": np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for _, n in result.contexts)]),
        **features,
        "answer": answers,
    }
    return pa.table(columns, schema=schema.remove_metadata())


@dataclass(frozen=True)
class ScoredModule:
    """A module that compiles under the heuristic."""

    module: Module
    scores: Scores  # what it comes to under the heuristic, by measure
    num_questions: int  # what the traced reference was asked; the heuristic itself, where the compiler tells

    def score(self, measure: str) -> float:
        """What it comes to by one measure; ValueError where modules of the task do not have it."""
        return known_score(self.scores, measure)


def baseline_origin(baseline_dir: Path) -> tuple[Task, Row]:
    """The task that a baseline was measured for, and the provenance of its scores."""
    path = baseline_dir / "scores.parquet"
    origin = read_provenance(path)
    if "task" not in origin:
        raise ArtifactError(f"{path} does not tell its task, an old version made it; run its stage again")
    return get_task(origin["task"]), origin


def load_scored_modules(
    corpus_dir: Path, baseline_dir: Path, split: str, languages: Iterable[str] | None = None
) -> list[ScoredModule]:
    """List a split's modules that compiled both plain and under the traced reference, in manifest order.

    Left out are those without a score of the objective, such as modules of which a linked file keeps nothing.
    """
    task, origin = baseline_origin(baseline_dir)
    objective, traced = origin.get("compile", {}).get("objective"), task.references.traced
    rows = read_table(baseline_dir / "scores.parquet", SCORES).filter(pc.field("failure") == "").to_pylist()
    by_advisor = {(row["advisor"], row["project"], row["module"]): row for row in rows}
    scored = []
    for module in load_modules(corpus_dir, splits=[split], languages=languages):
        plain = by_advisor.get((HEURISTIC, module.project, module.name))
        asked = by_advisor.get((traced, module.project, module.name))
        if plain is not None and asked is not None and plain.get(objective, 0) is not None:
            scored.append(ScoredModule(module, scores_of(plain), asked["num_questions"]))
    return scored


def load_copies(baseline_dir: Path) -> Copies:
    """Read what several modules of a project carry under the heuristic."""
    found: dict[str, dict[bytes, int]] = {}
    for row in read_table(baseline_dir / "copies.parquet", COPIES).to_pylist():
        found.setdefault(row["project"], {})[row["signature"]] = row["num_modules"]
    return found


def baselines(scored: Iterable[ScoredModule], objective: str) -> dict[str, float]:
    """Scores under the heuristic by module key; ``objective`` as in ``compile.objective``."""
    return {one.module.key: one.score(objective) for one in scored}


def with_questions(
    scored: list[ScoredModule], max_questions: int, purpose: str, section: str = "es", min_questions: int = 1
) -> list[ScoredModule]:
    """Keep modules with at least ``min_questions`` and at most ``max_questions``, a setting of ``section``."""
    usable = [one for one in scored if max(1, min_questions) <= one.num_questions <= max_questions]
    if not usable:
        asked = f"no {purpose} module asks between {min_questions} and {max_questions} questions"
        advice = " or lower train.min_questions" if min_questions > 1 else ""
        raise TrainingError(f"{asked}; raise {section}.max_questions{advice}")
    return usable


def function_costs(functions: pa.Table, measure: Measure) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of functions by advisor, key of the module and symbol; one that is not there cost nothing."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in functions.to_pylist():
        costs = SpillCosts(**{name: row[name] for name in SpillCosts._fields})
        by_module = found.setdefault(row["advisor"], {})
        by_module.setdefault(f"{row['project']}/{row['module']}", {})[costs.function] = measure.of_functions([costs])
    return found


def episode_reader(policy: Policy, objective: str, baseline_dir: Path) -> Callable[[str, CompileResult], list[Episode]]:
    """How compiles are read, by module key: whole, or by function where the score is a sum over functions."""
    measure = get_measure(objective)
    if not measure.is_by_function:
        return lambda module, result: [episode(module, result, policy, objective)]
    functions = read_table(baseline_dir / "functions.parquet", FUNCTIONS)
    costs = function_costs(functions.filter(pc.field("advisor") == HEURISTIC), measure).get(HEURISTIC, {})
    return lambda module, result: function_episodes(module, result, policy, measure, costs.get(module, {}))
