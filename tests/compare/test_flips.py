"""What single decisions are worth, by hand."""

import pytest

from mlgo.compare.flips import tell_flips


def row(module, change, logit, inlined=False, language="c"):
    return {
        **{"project": "p", "module": module, "language": language, "split": "validation", "question": 0, "times": 1},
        **{"inlined": inlined, "logit": logit, "change": change, "score": 100.0},
    }


ROWS = [
    row("a", -10.0, 2.0),  # the policy would inline, and is right
    row("a", 30.0, 1.0),  # would, and is wrong
    row("a", 0.0, -1.0),
    row("a", -20.0, 1.0, inlined=True),  # would not take it back: it expects -1
    row("b", 5.0, 3.0, language="c++"),
    row("b", None, 3.0, language="c++"),
]


def test_figures():
    figures = {one.scope: one for one in tell_flips(ROWS)}
    assert list(figures) == ["all", "c", "c, inlined", "c, refused", "c++", "c++, refused"]
    everything, of_c, of_cpp, inlined = (figures[scope] for scope in ("all", "c", "c++", "c, inlined"))
    assert (of_c.num_modules, of_c.num_flips, of_c.saving) == (1, 4, 0.5)
    assert (of_c.mean_saving, of_c.mean_loss) == (15.0, 30.0)
    # 2 before 1 and -1; -1 after 1, and level with -1
    assert of_c.ranking == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert (of_c.chosen, of_c.mean_of_chosen) == (0.5, 10.0)
    assert (of_c.right, of_c.found) == (0.5, pytest.approx(10 / 30))  # one of two; 10 of 30 bytes
    assert (of_cpp.num_flips, of_cpp.saving, of_cpp.mean_saving, of_cpp.ranking) == (1, 0.0, 0.0, None)
    assert (of_cpp.chosen, of_cpp.right, of_cpp.found) == (1.0, 0.0, None)
    assert (inlined.num_flips, inlined.saving, inlined.chosen, inlined.found) == (1, 1.0, 0.0, 0.0)
    assert (everything.num_modules, everything.num_flips, everything.ranking) == (2, 5, of_c.ranking)


def test_nothing():
    assert tell_flips([row("a", None, 1.0)]) == []
    one = tell_flips([row("a", 1.0, -1.0)])[0]
    assert (one.chosen, one.mean_of_chosen, one.right, one.found) == (0.0, None, None, None)
