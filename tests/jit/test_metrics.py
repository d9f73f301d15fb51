"""Lines of metrics: golden ones, any that the double prints, broken ones and any text."""

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import MetricsError
from mlgo.jit.outcome import MethodMetrics, parse_metrics
from tests.fakes.superpmi import format_heuristic, format_hook, format_metrics
from tests.jit.conftest import GOLDEN


def expected(record: dict) -> MethodMetrics:
    candidates = tuple(map(tuple, record.get("candidates", [])))
    lists = {key: tuple(record.get(key, ())) for key in ("requested", "feature_names")}
    known = {field.name: record[field.name] for field in fields(MethodMetrics) if field.name in record}
    return MethodMetrics(**{**known, **lists, "candidates": candidates})


@pytest.mark.parametrize("golden", GOLDEN["lines"], ids=lambda golden: golden["request"] or golden["line"][-12:])
def test_golden_lines(golden):
    assert parse_metrics(golden["line"]) == expected(golden["metrics"])


HEURISTIC, NAMED, HOOK = (GOLDEN["lines"][i]["line"] for i in (0, 1, 2))


def test_a_list_of_several_rounds_gives_the_choices_of_the_last():
    line = HEURISTIC.replace("num cse 1 num cand 2", "num cse 6 num cand 1").replace("seq 1,0", "seq 4,2,6,1,5,0,1,0")
    assert "num cse 6 num cand 1 Standard CSE Heuristic seq 4,2,6,1,5,0,1,0 " in line
    metrics = parse_metrics(line)
    assert (metrics.num_cse, metrics.num_candidates, metrics.requested) == (6, 1, (0,))
    assert parse_metrics(HEURISTIC.replace("seq 1,0", "seq 1,0,0")).requested == ()


@pytest.mark.parametrize("line", [HEURISTIC + " ", HEURISTIC.replace("seq 1,0", "seq 1,0 ")])
def test_a_blank_may_follow(line):
    assert parse_metrics(line) == parse_metrics(HEURISTIC)


@pytest.mark.parametrize(
    ("decider", "heuristic"),
    [
        (" Standard CSE Heuristic seq ", "Standard CSE Heuristic"),
        (" Standard CSE Heuristic seq 0", "Standard CSE Heuristic"),
        (" seq ", None),
        (" featureNames type,viable seq ", None),
        ("", None),
    ],
)
def test_where_there_is_nothing_to_choose_the_list_is_empty(decider, heuristic):
    """As a Checked JIT prints it for methods without candidates, or compiled without the phase."""
    line = HEURISTIC.replace("num cse 1 num cand 2 Standard CSE Heuristic seq 1,0", f"num cse 0 num cand 0{decider}")
    metrics = parse_metrics(line)
    assert (metrics.heuristic, metrics.requested, metrics.candidates) == (heuristic, (), ())


def test_known_names_serve_lines_without_them():
    names = parse_metrics(NAMED).feature_names
    assert len(names) == 19
    assert parse_metrics(HOOK).feature_names == ()
    assert parse_metrics(HOOK, names).feature_names == names
    assert parse_metrics(HEURISTIC, names).feature_names == ()


@pytest.mark.parametrize(
    ("line", "pattern", "text"),
    [
        (HEURISTIC, "prolog size 15, ", ""),
        (HEURISTIC, "PerfScore 72.91", "PerfScore 72"),
        (HEURISTIC, "PerfScore 72.91", "PerfScore nan"),
        (HEURISTIC, "count 60", "count many"),
        (HEURISTIC, " spmi index 1", ""),
        (HEURISTIC, "0badc0de", "0BADC0DE"),
        (HEURISTIC, r" \(Tier1\)", ""),
        (HEURISTIC, "seq 1,0", "seq"),
        (HEURISTIC, "seq 1,0", "seq 1,,0"),
        (HEURISTIC, "seq 1,0", "seq 0,1"),
        (HEURISTIC, "seq 1,0", "seq -1,0"),
        (HEURISTIC, "^", " "),
        (HEURISTIC, "$", "\n"),
        (HEURISTIC, "code 200", "code " + "9" * 5000),
        (HOOK, "features #2[^s]*", ""),
        (HOOK, ",12,5,7", ",12,5"),
        (HOOK, ",12,5,7", ",12,five,7"),
        (HOOK, "#2,", "#two,"),
        (HOOK, "features #2,", "features "),
        (HOOK, "seq 1,0", "seq 1,x"),
        (HOOK, "num cand 2", "num cand 3"),
        (NAMED, "type,viable", "type"),
        (NAMED, "type,viable", "type,type"),
        (NAMED, "type,viable", "type,,viable"),
    ],
)
def test_a_broken_line(line, pattern, text):
    broken, changes = re.subn(pattern, text, line, count=1)
    assert changes == 1
    with pytest.raises(MetricsError):
        parse_metrics(broken)


def test_known_names_must_fit():
    with pytest.raises(MetricsError, match="19"):
        parse_metrics(HOOK, ("type", "viable"))


numbers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 10**8)
# What a name may hold: no line end, and no parenthesis in a tier.
names = st.text(st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=["Cs", "Cc", "Zl", "Zp"]))
words = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,12}", fullmatch=True)


@st.composite
def lines(draw) -> tuple[MethodMetrics, str]:
    """Metrics, and the line that the double prints of them."""
    positions = st.lists(st.integers(0, 63), max_size=6).map(tuple)
    hook = draw(st.booleans())
    width = draw(st.integers(1, 25))
    rows = draw(st.lists(st.lists(numbers, min_size=width, max_size=width), max_size=5)) if hook else []
    named = draw(st.lists(words, min_size=width, max_size=width, unique=True)) if rows and draw(st.booleans()) else ()
    keywords = {"seq", "features", "featureNames", "methodFeatureNames"}
    heuristic = draw(st.lists(words.filter(lambda word: word not in keywords), min_size=1, max_size=4))
    metrics = MethodMetrics(
        index=draw(st.integers(1, 2**31 - 1)),
        perf_score=round(draw(st.floats(0, 1e12)), 2),
        code_bytes=draw(counts),
        num_cse=draw(counts),
        num_candidates=len(rows) if hook else draw(counts),
        heuristic=None if hook else " ".join(heuristic),
        requested=draw(positions),
        feature_names=tuple(named),
        candidates=tuple(map(tuple, rows)),
    )
    requested = list(metrics.requested)
    return metrics, format_metrics(
        decider=format_hook(list(named), list(enumerate(rows, 1)), requested)
        if hook
        else format_heuristic(metrics.heuristic, requested),
        name=draw(names.filter(bool)),
        tier=draw(st.sampled_from(["Tier0", "Tier1-OSR", "Instrumented Tier0/Tier1", "FullOpts"])),
        method_hash=draw(st.from_regex("[0-9a-f]{8}", fullmatch=True)),
        **{name: draw(counts) for name in ("prolog_bytes", "instruction_count", "allocated_bytes")},
        **{name: getattr(metrics, name) for name in ("index", "perf_score", "code_bytes", "num_cse", "num_candidates")},
    )


@given(lines())
def test_what_the_double_prints_is_read_back(case):
    metrics, line = case
    assert parse_metrics(line) == metrics


@given(lines(), st.data())
def test_a_line_with_any_damage_is_read_or_refused(case, data):
    _, line = case
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, min(len(line), start + 20)))
    try:
        parse_metrics(line[:start] + data.draw(st.text(max_size=8)) + line[end:])
    except MetricsError:
        pass


@given(st.text())
def test_any_text_is_refused(text):
    with pytest.raises(MetricsError):
        parse_metrics(text)
