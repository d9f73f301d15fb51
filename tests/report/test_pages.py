"""Formats of numbers and texts."""

import pytest

from mlgo.report.origin import flatten, without_folders
from mlgo.report.pages import (
    format_count,
    format_gain,
    format_interval,
    format_probability,
    format_rank,
    format_ratio,
    format_ratio_interval,
    format_share,
)


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
    assert format_gain(gain) == text


def test_interval():
    assert format_interval(-0.01, 0.02) == "\N{MINUS SIGN}1.00 to +2.00"
    assert format_interval(None, None) == "\N{EN DASH}"


def test_ratios():
    assert (format_ratio(0.98765), format_ratio(None)) == ("0.9877", "\N{EN DASH}")
    assert format_ratio_interval(0.98, 1.00004) == "0.9800 to 1.0000"
    assert format_ratio_interval(None, None) == "\N{EN DASH}"


def test_rank_and_probability():
    assert (format_rank(None), format_rank(0.8), format_rank(-1.0)) == ("\N{EN DASH}", "0.80", "\N{MINUS SIGN}1.00")
    assert [format_probability(p) for p in (None, 1.0, 0.0316, 2e-4, 1e-9)] == [
        "\N{EN DASH}",
        "1",
        "0.032",
        "0.0002",
        "<0.0001",
    ]


def test_count_and_share():
    assert format_count(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"
    assert format_share(0.1234) == "12.3\N{NO-BREAK SPACE}%"


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
