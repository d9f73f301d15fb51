"""What every policy is held against: scores under the references, and the questions of one of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import Row, feature_array, trace_schema
from mlgo.corpus.store import Module
from mlgo.errors import ArtifactError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.copies import Copies, count_copies
from mlgo.evaluate.jobs import CompileJob, CompileOutcome
from mlgo.host.session import CompileResult
from mlgo.host.tasks.advisors import EchoAdvisor, RecordedAdvisor
from mlgo.host.tasks.task import HEURISTIC, Setting, Task
from mlgo.host.toolchain import Quirks
from mlgo.objects.elf import ELF, function_code
from mlgo.objects.measures import DEFAULT, Compiled, read_scores, scores_of
from mlgo.objects.measures.built_in import INSTRUCTIONS
from mlgo.objects.remarks import SpillCosts


@dataclass(frozen=True)
class Scoring:
    """Which references are scored, and how.

    Training reads of the heuristic and the traced reference alone. Other references are for reports, so modules of
    training projects are not compiled under them.

    Attributes:
        others: whether modules that are judged are compiled under the other references, too.
    """

    others: bool
    random_inline_share: float
    seed: int

    def wants(self, task: Task, module: Module, advisor: str) -> bool:
        """Whether a module is compiled under a reference."""
        return advisor in task.references.needed or (self.others and module.split != "train")


@dataclass(frozen=True)
class Baseline:
    """References of some modules.

    Attributes:
        scores: rows of ``artifacts.SCORES``, by module and advisor.
        functions: rows of ``artifacts.FUNCTIONS``, by module, advisor and function.
        copies: what several modules of a project carry.
        trace: rows of ``artifacts.trace_schema``, by module and step; None when no module could be traced.
        timings: rows of ``artifacts.TIMINGS``.
    """

    scores: list[Row]
    functions: list[Row]
    copies: Copies
    trace: pa.Table | None
    timings: list[Row]


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
        (module, advisor) for module in modules for advisor in references.names if how.wants(task, module, advisor)
    ]
    objects = [folder / f"{number:06d}.o" for number in range(len(pairs))]
    jobs = [job(*pair, path) for pair, path in zip(pairs, objects, strict=True)]
    outcomes, copies = _with_shares(pairs, host.compile_all(jobs, label), objects)
    plain, traced = (
        {module.key: o for (module, advisor), o in zip(pairs, outcomes, strict=True) if advisor == wanted}
        for wanted in references.needed
    )
    explanations: dict[str, str] = {}
    if references.is_heuristic:
        places = {(module.key, advisor): path for (module, advisor), path in zip(pairs, objects, strict=True)}
        explanations = _explain_differences(host, quirks, bitcode, plain, traced)
        for key, words in explanations.items():
            both = (places[key, advisor].read_bytes() for advisor in references.needed)
            explanations[key] = f"{words}; {differing_code(*both)}"
        if quirks.default_hides_a_feature:
            traced = _trace_without_default(host, modules, bitcode, traced)

    def remark(module: Module, advisor: str) -> str:
        return explanations.get(module.key, "") if advisor == references.traced else ""

    return Baseline(
        [
            _score_row(module, advisor, outcome, remark(module, advisor))
            for (module, advisor), outcome in zip(pairs, outcomes, strict=True)
        ],
        [
            row
            for (module, advisor), outcome in zip(pairs, outcomes, strict=True)
            for row in function_rows(module, advisor, outcome.result)
        ],
        copies,
        _trace(modules, traced, host.hidden),
        timing_rows((*pair, outcome) for pair, outcome in zip(pairs, outcomes, strict=True)),
    )


def _with_shares(
    pairs: Sequence[tuple[Module, str]], outcomes: Sequence[CompileOutcome], objects: Sequence[Path]
) -> tuple[list[CompileOutcome], Copies]:
    """Measure again, once the heuristic has compiled whole projects, with what modules share; and tell that."""
    by_heuristic: dict[str, list[Path]] = {}
    for (module, advisor), outcome, path in zip(pairs, outcomes, objects, strict=True):
        if advisor == HEURISTIC and outcome.result is not None:
            by_heuristic.setdefault(module.project, []).append(path)
    copies = Copies({project: count_copies(map(Path.read_bytes, paths)) for project, paths in by_heuristic.items()})

    def shared(module: Module, outcome: CompileOutcome, path: Path) -> CompileOutcome:
        if outcome.result is None:
            return outcome
        executed = outcome.result.scores[INSTRUCTIONS.name]
        assert executed is None or isinstance(executed, int)
        compiled = Compiled(path.read_bytes(), outcome.result.spills, copies.of(module.key), executed)
        return replace(outcome, result=replace(outcome.result, scores=read_scores(compiled)))

    compiled = zip(pairs, outcomes, objects, strict=True)
    return [shared(module, outcome, path) for (module, _), outcome, path in compiled], copies


def function_rows(module: Module, advisor: str, result: CompileResult | None) -> list[Row]:
    """Rows of ``artifacts.FUNCTIONS``: functions with questions in their order, then others that cost anything.

    Args:
        module: what was compiled.
        advisor: who answered.
        result: None where the compile failed; there are no rows then.
    """
    if result is None or result.spills is None:
        return []
    costs = {one.function: one for one in result.spills}
    asked = {name: count for name, count in result.contexts if count}
    return [
        {
            "project": module.project,
            "module": module.name,
            "advisor": advisor,
            "num_questions": asked.get(name, 0),
            **costs.get(name, SpillCosts(name))._asdict(),
        }
        for name in [*asked, *(name for name in costs if name not in asked)]
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
    plain: Mapping[str, CompileOutcome],
    echoes: Mapping[str, CompileOutcome],
) -> dict[str, str]:
    """Say why echoing the default did not reproduce the plain object, by module key."""
    pairs = {key: (plain[key].result, echoes[key].result) for key in plain}
    differing = [key for key, (a, b) in pairs.items() if a and b and a.object_sha256 != b.object_sha256]
    echo = EchoAdvisor(quirks.default_slot)
    jobs = [
        CompileJob(key, bitcode[key], advisor, with_heuristic_feature=advisor is not None, count_done=True)
        for key in differing
        for advisor in (None, echo)
    ]
    counts = [outcome.result.num_remarks if outcome.result else 0 for outcome in host.compile_all(jobs)]
    explanations = {}
    for key, inlined, by_echo in zip(differing, counts[::2], counts[1::2], strict=True):
        result = echoes[key].result
        if result is not None and result.truncated:
            explanations[key] = "the size stop ended the questions; raise compile.size_stop_factor"
        elif inlined > by_echo:
            more = inlined - by_echo
            explanations[key] = f"the heuristic inlined {more} more call{'' if more == 1 else 's'}, unasked"
        else:
            explanations[key] = f"unexplained: {inlined} calls inlined plain, {by_echo} by echo"
    return explanations


def _trace_without_default(
    host: CompileHost, modules: Sequence[Module], bitcode: Mapping[str, Path], echoes: Mapping[str, CompileOutcome]
) -> dict[str, CompileOutcome]:
    """Ask again with the same answers but without the default, which had taken another feature's place."""
    keys = [module.key for module in modules if echoes[module.key].result is not None]
    jobs = []
    for key in keys:
        result = echoes[key].result
        assert result is not None
        jobs.append(CompileJob(key, bitcode[key], RecordedAdvisor(result.answers), record=True))
    return dict(zip(keys, host.compile_all(jobs), strict=True))


def _score_row(module: Module, advisor: str, outcome: CompileOutcome, remark: str) -> Row:
    result = outcome.result
    return {
        "project": module.project,
        "module": module.name,
        "advisor": advisor,
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
