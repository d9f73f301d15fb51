"""The report as one self-contained page: the same inputs give the same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mlgo.core.names import PolicyName
from mlgo.policy.importance import Importance
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.stored import KINDS
from mlgo.report import figures
from mlgo.report.compare import Bootstrap, Comparison, Verdict, verdict
from mlgo.report.corpus import Corpus
from mlgo.report.curves import Curve
from mlgo.report.execution import FIGURES, Execution
from mlgo.report.functions import FunctionRow, Functions
from mlgo.report.linked import PAIRS, ProjectGains, RankCorrelation, TotalGains
from mlgo.report.measured import MEASURE_TITLES, contenders, measures_in
from mlgo.report.origin import Facts, without_folders
from mlgo.report.pages import render
from mlgo.report.selftest import SelfTest
from mlgo.report.tables import SCOPES, Row, Standout, failures, standouts
from mlgo.rollout.references import REFERENCES

_NUM_STANDOUTS = 10


@dataclass(frozen=True)
class Words:
    """How a page names what a task is about.

    Attributes:
        title: of the page.
        subject: what is compared.
        fewer: as in fewer bytes.
        unit: of what is compared.
        references: what the reference advisors do.
    """

    title: str
    subject: str
    fewer: str
    unit: str
    references: str


_WORDS = {
    "inline-size": Words(
        "Inlining policies against the built-in heuristic",
        "Size",
        "fewer",
        "bytes",
        "<em>echo</em> gives the heuristic's own answers, so its gain is what a perfect copy would get: where it is "
        "not 0, asking itself changes the code. <em>never</em> inlines nothing it is asked about, <em>random</em> "
        "answers at random; both show that the questions matter.",
    ),
    "regalloc-evict": Words(
        "Register eviction policies against the built-in allocator",
        "Spills, reloads and copies",
        "less",
        "cost",
        "<em>lightest</em> evicts only what is lighter than the value itself, and there what breaks the fewest hints; "
        "that comes close to the built-in rule; policies start from a clone of it. <em>first</em> takes the first "
        "register that may be taken, <em>random</em> any; both show that the questions matter.",
    ),
    "regalloc-priority": Words(
        "Register priority policies against the built-in allocator",
        "Spills, reloads and copies",
        "less",
        "cost",
        "<em>longest</em> takes longer live ranges first and those to be split last, the simple rule that comes "
        "closest to the built-in one; policies start from a clone of it. <em>equal</em> takes them in the order of "
        "their numbers, <em>random</em> in any; both show that the questions matter.",
    ),
}

_PROJECT_TITLES = {
    "object": "objects",
    "deduplicated": "without copies",
    "linked": "linked",
    "folded": "linked, identical code folded",
}
_TONES: dict[Verdict, str] = {"smaller": "good", "larger": "bad", "no difference shown": "plain"}


@dataclass(frozen=True)
class Report:
    """Everything the page shows.

    Attributes:
        task: decision problem.
        measured: ``measured.MEASURED``.
        split_rows: comparisons of policies, learners over several seeds, and references by split and scope.
        project_rows: comparisons of policies by project.
        project_gains: sizes of whole projects under each policy and the heuristic.
        total_gains: the same over the projects of each split.
        correlations: agreement of the measures of whole projects.
        link_failures: rows of ``artifacts.LINKED`` without a size.
        functions: costs of the test functions; None for tasks that allocate no registers.
        function_rows: comparisons by function; empty for such tasks.
        execution: what running programs showed; None where they did not run under these policies.
        measure: measure of the headline.
        bootstrap: how the intervals were made.
        corpus: numbers of the corpus.
        self_test: does echoing the heuristic change nothing; None where the compiler does not tell its decisions.
        curves: training histories.
        training_failures: modules that failed while policies were trained.
        importances: importance of the features by policy, most important first.
        measurement: facts about the compiler and its settings.
        policies: facts about each policy.
        hashes: SHA-256 of the inputs by name.
    """

    task: str
    measured: pa.Table
    split_rows: Sequence[Row]
    project_rows: Sequence[Row]
    project_gains: Sequence[ProjectGains]
    total_gains: Sequence[TotalGains]
    correlations: Sequence[RankCorrelation]
    link_failures: Sequence[Mapping[str, Any]]
    functions: Functions | None
    function_rows: Sequence[FunctionRow]
    execution: Execution | None
    measure: str
    bootstrap: Bootstrap
    corpus: Corpus
    self_test: SelfTest | None
    curves: Sequence[Curve]
    training_failures: Sequence[Mapping[str, Any]]
    importances: Mapping[str, Sequence[Importance]]
    measurement: Facts
    policies: Mapping[str, Facts]
    hashes: Facts


@dataclass(frozen=True)
class Headline:
    """What the page says first about one policy.

    Attributes:
        policy: policy with its seed.
        tone: ``good``, ``bad`` or ``plain``, by the verdict.
        sentence: the verdict in words.
        comparison: numbers behind it.
    """

    policy: str
    tone: str
    sentence: str
    comparison: Comparison


def headlines(rows: Sequence[Row], measure: str, policies: Sequence[str]) -> list[Headline]:
    """Verdict on the test modules, one per policy; a direction is named only as `compare.verdict` allows."""
    found = []
    for row in rows:
        if row.contender in policies and row.split == "test" and row.scope == "all":
            comparison = row.by(measure)
            word = verdict(comparison)
            if word == "no difference shown":
                sentence = f"{row.contender}: {word} against the built-in heuristic"
            else:
                less = "less" if word == "smaller" else "more"
                what = f"spills cost {less}" if measure == "spill_cost" else f"the code {word}"
                sentence = f"{row.contender} makes {what} than the built-in heuristic does"
            found.append(Headline(row.contender, _TONES[word], sentence, comparison))
    return found


def render_page(report: Report) -> str:
    """Return the page as HTML."""
    policies = contenders(report.measured, policies=True)
    references, known = contenders(report.measured, policies=False), REFERENCES[report.task]
    shown = {*policies, *(f"{PolicyName.of(name).learner}-mean" for name in policies)}
    test = report.measured.filter(pc.field("split") == "test")
    return render(
        "page.html.jinja",
        report=report,
        measures=[report.measure, *(name for name in measures_in(report.measured) if name != report.measure)],
        titles=MEASURE_TITLES,
        words=_WORDS[report.task],
        inlining=KINDS[report.task] is NetworkPolicy,
        scopes=SCOPES,
        coverage=f"{100.0 * report.bootstrap.confidence:g}\N{NO-BREAK SPACE}%",
        headlines=headlines(report.split_rows, report.measure, policies),
        test_projects=sorted(pc.unique(test["project"]).to_pylist()),
        project_titles=_PROJECT_TITLES,
        pairs=PAIRS,
        program_figures=FIGURES,
        imitated="the heuristic" if known.is_heuristic else known.traced,
        link_failures=[{**row, "message": without_folders(row["message"])} for row in report.link_failures],
        whole_rows=[row for row in report.split_rows if row.contender in shown and row.scope == "all"],
        part_rows=[row for row in report.split_rows if row.contender in shown and row.scope != "all"],
        reference_rows=[row for row in report.split_rows if row.contender in references and row.scope == "all"],
        standouts=_standouts(report, policies),
        failures=[{**row, "message": without_folders(row["message"])} for row in failures(report.measured)],
        figures=_figures(report, policies),
        plotly=Markup(get_plotlyjs()),
    )


def _standouts(report: Report, policies: Sequence[str]) -> dict[str, tuple[list[Standout], list[Standout]]]:
    return {name: standouts(report.measured, name, "test", report.measure, _NUM_STANDOUTS) for name in policies}


def _figures(report: Report, policies: Sequence[str]) -> dict[str, Markup]:
    """Figures as HTML by name; those without data are missing."""
    made = {
        "distribution": figures.distribution(report.measured, report.measure),
        "scores": figures.score_scatter(report.measured, report.measure),
        "functions": (
            figures.function_scatter(report.functions, policies, report.bootstrap.seed) if report.functions else None
        ),
        "projects": figures.project_bars(report.project_rows, report.measure, policies),
        "features": figures.feature_bars(report.importances),
        "rewards": figures.rewards(report.curves),
        "losses": figures.losses(report.curves),
    }
    return {name: Markup(figures.to_html(figure, name)) for name, figure in made.items() if figure is not None}
