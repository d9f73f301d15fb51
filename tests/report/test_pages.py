"""Formats of numbers and texts."""

import csv
import io

import pytest

from mlgo.compare.inference import Change, Gain
from mlgo.host.process import without_folders
from mlgo.report.inputs import flatten
from mlgo.report.pages import HTML, PLAIN, Column, Table, count_column, gain_column, render, text_column


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (None, "\N{EN DASH}"),
        (0.0125, "+1.25\N{NO-BREAK SPACE}%"),
        (-0.1, "\N{MINUS SIGN}10.00\N{NO-BREAK SPACE}%"),
        (-0.00001, "0.00\N{NO-BREAK SPACE}%"),
        (0.00001, "0.00\N{NO-BREAK SPACE}%"),
        (1.0, "+100.00\N{NO-BREAK SPACE}%"),
    ],
)
def test_gain(gain, text):
    assert HTML.gain(gain) == text


def test_interval():
    assert HTML.gain(Gain(0.01, -0.01, 0.02)) == ("+1.00\N{NO-BREAK SPACE}%<small>\N{MINUS SIGN}1.00 to +2.00</small>")
    assert HTML.gain(Gain(0.01)) == "+1.00\N{NO-BREAK SPACE}%<small>\N{EN DASH}</small>"
    assert PLAIN.gain(Gain(-0.00001, -0.01, 0.02)) == "0.00 % (-1.00 to +2.00)"
    assert (PLAIN.gain(Gain(0.01)), PLAIN.gain(Gain()), HTML.gain(Gain())) == ("+1.00 %", "-", "\N{EN DASH}")
    assert HTML.ends(Gain(0.0, -0.01, 0.02)) == "\N{MINUS SIGN}1.00 to +2.00\N{NO-BREAK SPACE}%"
    assert HTML.ends(Gain(0.0)) == "\N{EN DASH}"


def test_ratios():
    assert (HTML.ratio(0.98765), HTML.ratio(None)) == ("0.9877", "\N{EN DASH}")
    assert HTML.ratio(Gain(0.99, 0.98, 1.00004)) == "0.9900<small>0.9800 to 1.0000</small>"
    assert PLAIN.ratio(Gain(0.99, 0.98, 1.00004)) == "0.9900 (0.9800 to 1.0000)"
    assert (PLAIN.ratio(Gain(0.99)), PLAIN.ratio(Gain())) == ("0.9900", "-")


def test_ranks_probabilities_counts_and_shares():
    assert [HTML.rank(one) for one in (None, 0.8, -1.0)] == ["\N{EN DASH}", "0.80", "\N{MINUS SIGN}1.00"]
    found = [HTML.probability(p) for p in (None, 1.0, 0.0316, 2e-4, 1e-9)]
    assert found == ["\N{EN DASH}", "1", "0.032", "0.0002", "<0.0001"]
    assert HTML.count(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"
    assert HTML.share(0.1234) == "12.3\N{NO-BREAK SPACE}%"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no path here", "no path here"),
        ("failed on /tmp/a/b.bc: bad", "failed on b.bc: bad"),
        ("src/a/b.c stays, 1/2 too", "src/a/b.c stays, 1/2 too"),
        ("'/opt/llvm/bin/clang' exited", "'clang' exited"),
    ],
)
def test_paths_lose_their_folders(text, expected):
    assert without_folders(text) == expected


def test_flatten():
    found = flatten({"es": {"pairs": 8, "deep": {"on": True}}, "hidden": [32, 16], "name": "clang"})
    assert found == {"es.pairs": "8", "es.deep.on": "true", "hidden": "[32,16]", "name": "clang"}


ROWS = [("es", 0.0125, 1200), ("<b>", None, 3)]
TABLE = Table(
    [
        text_column("who", lambda row: row[0], wrap=True),
        gain_column("gain", lambda row: row[1]),
        count_column("modules", lambda row: row[2]),
        Column("both", lambda row, style: style.counts(row[2], 7)),
    ],
    ROWS,
)


def test_a_table_is_defined_once():
    assert TABLE.cells(PLAIN) == [["es", "+1.25 %", "1,200", "1,200 / 7"], ["<b>", "-", "3", "3 / 7"]]
    assert TABLE.aligned().splitlines() == [
        "who  gain     modules  both",
        "es   +1.25 %  1,200    1,200 / 7",
        "<b>  -        3        3 / 7",
    ]
    assert TABLE.markdown().splitlines()[:3] == [
        "| who | gain | modules | both |",
        "| --- | --- | --- | --- |",
        "| es | +1.25 % | 1,200 | 1,200 / 7 |",
    ]


def test_a_table_as_csv_has_the_values_of_json():
    gain = gain_column("gain", lambda row: row)
    tally = Column("modules, less / more", lambda row, style: style.counts(7000, 2))
    worst = Column("worst project", lambda row, style: style.change(Change("a,b", 0.0125)), left=True)
    table = Table([gain, tally, worst], [Gain(0.0123456, -0.01, 0.5), Gain(None)])
    assert table.csv().splitlines() == [
        'gain,"gain, low","gain, high","modules, less","modules, more",worst project,"worst project, %"',
        '1.2346,-1,50,7000,2,"a,b",1.25',
        ',,,7000,2,"a,b",1.25',
    ]


@pytest.mark.parametrize("name", ["=1+1", "+1|calc", "-Oz", "@sum(a)", "\tx", "-1_0", "=\n"])
def test_names_of_others_are_no_formula_in_a_spreadsheet(name):
    (_, (cell,)) = csv.reader(io.StringIO(Table([text_column("", lambda row: row)], [name]).csv()))
    assert cell == f"'{name}"


@pytest.mark.parametrize("text", ["-1.25", "+3", "1e-05", "a=b", 'say "=1"', "x\n=1", ""])
def test_numbers_and_other_names_stay_as_they_are(text):
    rows = list(csv.reader(io.StringIO(Table([text_column("a", str), text_column("b", lambda _: "b")], [text]).csv())))
    assert rows == [["a", "b"], [text, "b"]]


def test_words_of_a_table_are_escaped():
    page = render("sweep_cost.html.jinja", costs=TABLE)
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert '<td class="left wrap">es</td><td>+1.25\N{NO-BREAK SPACE}%</td>' in page
    assert '<th class="left">who</th><th>gain</th>' in page
