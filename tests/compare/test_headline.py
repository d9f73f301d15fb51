"""What a strict reader asks: answers by hand."""

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import RESULTS
from mlgo.compare.headline import headline, main_learner
from mlgo.compare.inference import Bootstrap
from mlgo.compare.programs import BEST_LEVEL, best_level, guarded, measured_programs, ship_references
from mlgo.compare.scores import Contender
from mlgo.errors import ArtifactError
from mlgo.report.headline_page import headline_table, record_of, sentences
from mlgo.report.pages import HTML, PLAIN
from tests.compare.conftest import read_ran, result_row, shipped_rows, shipped_table

BOOTSTRAP = Bootstrap(500, 0.95, 0)
PROJECTS = ("ant", "bee", "cat", "dog", "eel", "fox")


def one(project, contender, text, language="c"):
    return [{**row, "language": language} for row in shipped_rows(project, f"bin/{project}", contender, text)]


def shipped(seeds=(0, 1)):
    """Six projects of 10,000 bytes of text, the last two in C++. ES makes five 10 or 20 % smaller, fox 1 % larger.

    -Os is 5 % smaller on ant, 5 % larger elsewhere. Constants are 1,000 bytes, unwind tables a tenth of the text.
    """
    rows = []
    for number, project in enumerate(PROJECTS):
        language = "c++" if number > 3 else "c"
        rows += [one(project, "heuristic", 10_000, language), one(project, "never", 13_000, language)]
        rows += [one(project, "-Os", 9_500 if project == "ant" else 10_500, language)]
        for seed in seeds:
            rows += [one(project, f"es-s{seed}", 10_100 if project == "fox" else (9_000, 8_000)[seed], language)]
    return shipped_table(*rows)


def results(seeds=(0, 1)):
    rows = []
    for number, project in enumerate(PROJECTS):
        key = {"project": project, "module": "a.c", "language": "c++" if number > 3 else "c"}
        sizes = ({"text_bytes": (90, 80)[seed]} for seed in seeds)
        rows += [
            result_row(**key, sizes=one, baseline={"text_bytes": 100}, seed=seed)
            for seed, one in zip(seeds, sizes, strict=True)
        ]
    return pa.Table.from_pylist(rows, RESULTS)


def total(text):
    return text + 1_000 + text // 10


def told(truth):
    return {answer.asked: answer for answer in truth.answers}


def test_the_best_level_of_each_program():
    table = shipped()
    measured = measured_programs(table, [Contender.named("es-s0"), *ship_references(table)])
    assert measured.references == ["never", "-Os"]
    best = best_level(measured)
    assert best["text"].tolist() == [9_500.0] + [10_000.0] * 5
    assert best["total"].tolist() == [float(total(9_500))] + [float(total(10_000))] * 5


def test_without_another_level_there_is_no_best():
    measured = measured_programs(
        shipped_table(one("ant", "heuristic", 10), one("ant", "es-s0", 9)), [Contender.named("es-s0")]
    )
    assert best_level(measured) is None


def test_a_level_that_does_not_link_is_not_the_best():
    rows = shipped_table(one("ant", "heuristic", 10_000), one("ant", "-Os", None), one("ant", "es-s0", 9_000))
    measured = measured_programs(rows, [Contender.named("es-s0"), Contender("-Os")])
    assert best_level(measured)["text"].tolist() == [10_000.0]


def test_a_guard_keeps_what_links():
    rows = shipped_table(
        *(one(name, "heuristic", 10_000) for name in ("ant", "bee", "cat")),
        *(one(name, "es-s0", text) for name, text in (("ant", 9_000), ("bee", 11_000), ("cat", None))),
    )
    kept = guarded(measured_programs(rows, [Contender.named("es-s0")]))
    assert kept.scores["text"].tolist() == [[9_000.0, 10_000.0, 10_000.0]]


def test_answers_by_hand():
    truth = headline(shipped(), results(), None, BOOTSTRAP)
    assert (truth.contender.name, truth.contender.seeds) == ("es-mean", (0, 1))
    before, others = 6 * total(10_000), 5
    by_seed = [1 - (others * total(text) + total(10_100)) / before for text in (9_000, 8_000)]
    assert truth.by_seed == pytest.approx({0: by_seed[0], 1: by_seed[1]})
    answers = told(truth)
    ships = answers["what ships, in total"]
    assert ships.gain.value == pytest.approx(np.mean(by_seed))
    assert ships.gain.low < ships.gain.value < ships.gain.high
    assert (ships.comparison.num_projects, ships.comparison.items) == (6, (5, 0, 1))
    assert ships.comparison.worst_item == ("fox/bin/fox", pytest.approx(110 / total(10_000)))
    assert ships.comparison.much_larger == 1
    best = 5 * total(10_000) + total(9_500)
    against = [1 - (others * total(text) + total(10_100)) / best for text in (9_000, 8_000)]
    assert answers["against the best of -Os and -Oz for each program"].gain.value == pytest.approx(np.mean(against))
    kept = answers["what ships with a guard, smaller of both for each program"]
    smaller = [1 - (others * total(text) + total(10_000)) / before for text in (9_000, 8_000)]
    assert kept.gain.value == pytest.approx(np.mean(smaller))
    assert kept.comparison.items == (5, 1, 0)
    of_cpp = [1 - (total(text) + total(10_100)) / (2 * total(10_000)) for text in (9_000, 8_000)]
    assert answers["C++ programs, in total"].gain.value == pytest.approx(np.mean(of_cpp))
    assert answers["C++ programs, in total"].comparison.finding == "no verdict: 2 projects, six are needed"
    assert answers["objects, in total"].gain.value == pytest.approx(0.15)
    references = {answer.contender.name: answer.gain.value for answer in truth.references}
    never, at_os = 1 - total(13_000) / total(10_000), 1 - (total(9_500) + 5 * total(10_500)) / before
    assert references == pytest.approx({"never": never, "-Os": at_os, BEST_LEVEL: 1 - best / before})


def test_what_is_said():
    truth = headline(shipped(), results(), None, BOOTSTRAP)
    first, second = sentences(truth, "-Oz")
    assert first.startswith("What ships is 11.31 % smaller in total under es (2 seeds) than under -Oz (95 % interval +")
    geomean = PLAIN.gain(truth.headline.geomean)
    assert first.endswith(f" over 6 projects). Geometric mean of projects: {geomean}; no difference shown.")
    assert (
        second == "Of 6 programs, 5 are smaller and 1 larger, 1 by more than 0.5 %; the worst is fox/bin/fox (+0.92 %)."
    )
    page = headline_table(truth, "-Oz")
    lines = [*page.sentences, *page.answers.aligned().splitlines(), *page.notes]
    assert any("instead: -Os" in line for line in lines)
    assert max(map(len, lines)) < 225
    assert len(lines) <= 28  # and two empty ones between
    assert "Seeds: 2 from +7.49 % to +15.12 %." in page.page(page.answers)
    assert record_of(truth)["answers"][0]["num_projects"] == 6
    assert "\N{NO-BREAK SPACE}%" in sentences(truth, "-Oz", HTML)[0]


def ran(contender, program, instructions, **other):
    known = {"text_bytes": 100, "instructions": instructions, "reads": 1, "writes": 1, "right": True}
    return {"program": program, "contender": contender, **known, "failure": "", "message": "", **other}


def test_what_programs_execute(tmp_path):
    counts = {"heuristic": (100, 200), "es-s0": (110, 200), "es-s1": (100, 180)}
    rows = [ran(who, name, n) for who, some in counts.items() for name, n in zip("pq", some, strict=True)]
    truth = headline(shipped(), results(), read_ran(tmp_path, rows), BOOTSTRAP)
    executed = told(truth)["executed instructions, geometric mean"]
    assert executed.gain.value == pytest.approx(1 - (1.1 * 0.9) ** 0.25)
    assert sentences(truth, "-Oz")[-1] == "Executed instructions of 2 programs: 0.25 % fewer (geometric mean)."
    assert executed.comparison.num_compared == 2


def test_without_valgrind_that_is_said(tmp_path):
    rows = [ran(who, "p", None, failure="valgrind", message="install it") for who in ("heuristic", "es-s0", "es-s1")]
    truth = headline(shipped(), results(), read_ran(tmp_path, rows), BOOTSTRAP)
    assert sentences(truth, "-Oz")[-1] == "What programs execute was not counted: install it."


def test_one_seed_and_few_projects():
    rows = [row for row in shipped((0,)).to_pylist() if row["project"] in PROJECTS[:3]]
    truth = headline(shipped_table(rows), results((0,)), None, BOOTSTRAP)
    assert truth.contender.name == "es-s0"
    assert sentences(truth, "-Oz")[0].endswith("; no verdict: 3 projects, six are needed.")
    assert "One seed says nothing" in headline_table(truth, "-Oz").notes[-1]


def test_the_clone_is_told_about_only_if_alone():
    names = ("bc-s0", "marginal-s0", "marginal-s1", "never")
    assert main_learner([Contender.named(name) for name in names]) == "marginal"
    assert main_learner([Contender.named("bc-s0"), Contender.named("-Os")]) == "bc"
    with pytest.raises(ArtifactError, match="no policy was evaluated"):
        main_learner([Contender.named("-Os")])


def test_nothing_of_the_split():
    with pytest.raises(ArtifactError, match="no linked file of a validation project"):
        headline(shipped(), results(), None, BOOTSTRAP, split="validation")
    with pytest.raises(ArtifactError, match="under a policy of ppo"):
        headline(shipped(), results(), None, BOOTSTRAP, "ppo")
    assert PLAIN.share(0.12345, 2) == "12.35 %"
