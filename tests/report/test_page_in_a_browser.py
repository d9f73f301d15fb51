"""The page of the default run in a real browser."""

import csv
import io
import re
from dataclasses import replace

import pytest
from markupsafe import Markup

from mlgo.compare.inference import Bootstrap, Gain
from mlgo.report.figures import Series, chart, panels, parallel, to_html
from mlgo.report.pages import PLAIN, Table, render
from mlgo.report.render import render_page
from tests.browser import too_wide
from tests.report.recorded import recorded_report

pytestmark = pytest.mark.slow
WIDTHS = (420, 800, 1300)
HEIGHT = 900
HOSTILE = "<img src='https://example.org/x.png' onerror='window.ran = 1'>"

# Least contrast of text on a page that is as dark, or as light, as its window: what, and its ratio.
CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (x) => (x > 0.04045 ? ((x + 0.055) / 1.055) ** 2.4 : x / 12.92);
    const [r, g, b] = parts(colour).map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor, [, , , alpha = 1] = parts(colour);
      if (alpha === 1) return colour;
    }
  };
  const found = [...document.querySelectorAll("h1, h2, p, td, th, dt, dd, a, small, summary, .figure text")]
    .filter((one) => one.textContent.trim() && one.getBoundingClientRect().width)
    .map((one) => {
      const style = getComputedStyle(one);
      const a = light(one instanceof SVGElement ? style.fill : style.color), b = light(behind(one));
      return [one.outerHTML.slice(0, 80), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
    });
  return found.sort((a, b) => a[1] - b[1])[0];
}"""


@pytest.fixture(scope="module")
def report():
    return recorded_report(Bootstrap(200, 0.95, 0))


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(report))
    return path


def opened(browser, path, width=1300, **other):
    """The page with all its figures; whatever its scripts complain about is an error."""
    page = browser.open(path, width, height=HEIGHT, **other)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.figure')].every((one) => one.querySelector('.plot svg'))"
    )
    assert browser.refused == []
    return page


def column(page, table, number):
    return page.locator(f"[aria-label='{table}'] tbody tr td:nth-child({number})").all_text_contents()


def test_it_is_small(path):
    assert path.stat().st_size < 600_000


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_it_suits_the_window(browser, path, width, dark):
    page = opened(browser, path, width, dark=dark)
    assert too_wide(page) == []
    what, contrast = page.evaluate(CONTRAST)
    assert contrast >= 4.5, what
    figure = page.locator("#figure-programs").bounding_box()
    for place in (".number >> nth=0", ".verdict strong"):
        box = page.locator(place).bounding_box()
        assert box["y"] + box["height"] < HEIGHT
    assert figure["y"] < HEIGHT - 100
    assert figure["width"] > min(width, 700) - 120
    table = page.locator("[aria-label='what ships']")
    first, second = (table.locator(f"tbody tr:first-child td:nth-child({i})").bounding_box() for i in (1, 2))
    assert second["x"] + second["width"] < table.bounding_box()["x"] + table.bounding_box()["width"]
    table.evaluate("one => { one.scrollLeft = 200; }")
    assert table.locator("tbody tr:first-child td:first-child").bounding_box()["x"] == first["x"]


def test_it_begins_with_one_headline(browser, path, report):
    page = opened(browser, path)
    gain = PLAIN.gain(report.truth.headline.total.value)
    assert page.locator(".number").first.text_content().replace("\N{NO-BREAK SPACE}", " ") == gain
    assert f"What ships is {gain[1:]} smaller" in page.locator(".verdict strong").text_content().replace("\xa0", " ")


def test_figures_name_what_is_pointed_at(browser, path):
    page = opened(browser, path)
    marks = page.locator("#figure-programs circle")
    assert marks.count() == 11
    marks.first.hover(force=True)
    assert re.search(r"\w+/\S+: [\d,-]+ bytes of [\d,]+", page.locator("#figure-programs .hover").text_content())


def test_tables_sort_by_keyboard_and_by_mouse(browser, path):
    page = opened(browser, path)
    before, words = column(page, "programs", 7), column(page, "programs", 2)
    head = page.locator("[aria-label='programs'] thead th:nth-child(7)")
    head.locator("button").focus()
    assert head.locator("button").evaluate("one => getComputedStyle(one).outlineStyle") != "none"
    for order, way in (("ascending", 1), ("descending", -1)):
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == order
        gains = [
            way * float(re.match(r"[+\N{MINUS SIGN}]?[\d.]+", one)[0].replace("\N{MINUS SIGN}", "-"))
            for one in column(page, "programs", 7)
        ]
        assert gains == sorted(gains)
        assert column(page, "programs", 7) != before
    page.locator("[aria-label='programs'] thead th:nth-child(2) button").click()
    assert head.get_attribute("aria-sort") is None
    assert column(page, "programs", 2) == sorted(words, key=str.lower)


def test_tables_can_be_downloaded(browser, path, report):
    page = opened(browser, path)
    with page.expect_download() as started:
        page.get_by_label("programs as CSV", exact=True).click()
    assert started.value.suggested_filename == "mlgo-programs.csv"
    text = started.value.path().read_text()
    assert text == report.ships.table.csv()
    rows = list(csv.DictReader(io.StringIO(text)))
    total = next(row for row in rows if row["project"] == "in total" and row["policy or level"] == "marginal-mean")
    gain = report.truth.headline.total
    names = ("gain, total", "gain, total, low", "gain, total, high")
    assert [float(total[name]) for name in names] == [round(100 * end, 4) for end in gain]
    assert not any(re.search("[\N{MINUS SIGN}\xa0\u202f]", one) for row in rows for one in row.values())


def test_names_of_others_stay_text(browser, report, tmp_path):
    modules = report.modules
    named = {**modules.items, "module": modules.items["module"].astype(object)}
    named["module"][:] = HOSTILE
    keys = [f"{HOSTILE}{i}" for i in range(len(modules.keys))]
    path = tmp_path / "report.html"
    path.write_text(render_page(replace(report, modules=replace(modules, items=named, keys=keys))))
    page = opened(browser, path)
    assert page.evaluate("window.ran") is None
    assert HOSTILE in page.locator("[aria-label^='marginal-s0 worst'] td").first.text_content()
    page.locator("#figure-scores circle").first.hover(force=True)
    assert HOSTILE in page.locator("#figure-scores .hover").text_content()
    page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", HOSTILE)  # as if it were not escaped
    assert page.evaluate("window.ran") is None
    assert browser.refused == []


def test_it_can_be_printed(browser, path):
    page = opened(browser, path, 1030)
    page.emulate_media(media="print", color_scheme="dark")
    assert too_wide(page) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 250)"
    assert page.pdf().startswith(b"%PDF")


@pytest.fixture(scope="module")
def drawn(browser, tmp_path_factory):
    """A page with figures of all kinds, by what they show."""
    x, edge = [1, 10, 100], {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    band = [
        Series("es", x, [1.0, 1.0, 1.0], style=edge),
        Series("es", x, [2.0, 2.0, 2.0], style=edge | {"fill": "tonexty", "fillcolor": "#E69F0026"}),
        Series("es", x, [1.5, None, 1.5], style={"line": {"shape": "hv"}}),
        Series("ppo", x, [1.2, 1.4, 1.6], colour=1, hover="%{x}: %{y:+.2f} %"),
    ]
    bars = {"es-s0": {"test": [("drill", Gain(0.05, 0.04, 0.07), "6 modules"), ("easel", Gain(-0.02), "6 modules")]}}
    figures = {
        "band": chart(band, {"type": "log"}, {"title": "reward"}, marks="lines+markers"),
        "panels": panels(bars),
        "parallel": parallel({"learner": ["es", "ppo"], "gain": [1.0, 2.0], "step": [0.1, 0.2]}, "gain"),
        "rows": chart([Series("es", [40.0, 10.0], ["a", "b"])], {}, {"autorange": "reversed"}, marks="rows"),
    }
    path = tmp_path_factory.mktemp("figures") / "figures.html"
    body = Markup("").join(Markup('<div class="figure">{}</div>').format(one) for one in to_html(figures).values())
    page = render("sweep_cost.html.jinja", costs=Table([], []))
    path.write_text(page.replace("</main>", f"{body}</main>"))
    return opened(browser, path)


def test_lines_have_bands_gaps_and_a_logarithmic_axis(drawn):
    figure = drawn.locator("#figure-band")
    assert figure.locator("path[fill='#E69F0026']").count() == 1
    ones = figure.locator("circle[fill='#0072B2']")
    first, second, third = (ones.nth(i).bounding_box()["x"] for i in range(3))
    assert second - first == pytest.approx(third - second, abs=0.5)
    ones.nth(1).hover()
    assert figure.locator(".hover").text_content() == "10: +1.40 %\nppo"


def test_legends_hide_a_series_by_keyboard(drawn):
    figure = drawn.locator("#figure-band")
    button = figure.get_by_role("button", name="es", exact=True)
    button.focus()
    drawn.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert figure.locator("path[fill='#E69F0026']").count() == 0
    assert figure.locator("circle[fill='#0072B2']").count() == 3
    drawn.keyboard.press("Enter")
    assert figure.locator("path[fill='#E69F0026']").count() == 1


def test_a_part_is_shown_larger_where_it_is_dragged_over(drawn):
    figure = drawn.locator("#figure-band")
    before = figure.locator("text").all_text_contents()
    box = figure.locator("circle[fill='#0072B2']").nth(1).bounding_box()
    drawn.mouse.move(box["x"] - 60, box["y"] - 60)
    drawn.mouse.down()
    drawn.mouse.move(box["x"] + 60, box["y"] + 60)
    drawn.mouse.up()
    larger = figure.locator("circle[fill='#0072B2']").nth(1).bounding_box()
    plot = figure.locator(".plot").bounding_box()
    assert larger["x"] == pytest.approx(plot["x"] + plot["width"] / 2, abs=60)
    assert figure.locator("text").all_text_contents() != before
    drawn.mouse.dblclick(box["x"], box["y"])
    assert figure.locator("text").all_text_contents() == before


def test_bars_have_their_lengths_and_intervals(drawn):
    rows = drawn.locator("#figure-rows g rect")
    long, short = (rows.nth(i).bounding_box() for i in (0, 1))
    assert long["width"] == pytest.approx(4 * short["width"], rel=0.02)
    assert long["y"] < short["y"]
    panel = drawn.locator("#figure-panels")
    assert panel.locator("g rect").count() == 2
    assert panel.locator(".interval").count() == 1
    panel.locator("g rect").first.hover(position={"x": 2, "y": 2})
    assert panel.locator(".hover").count() == 1


def test_parallel_coordinates_name_their_values(drawn):
    figure = drawn.locator("#figure-parallel")
    assert figure.locator("path:not(.axis)").count() == 2
    assert {"learner", "gain", "step", "es", "ppo"} <= set(figure.locator("text").all_text_contents())
