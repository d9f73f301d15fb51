"""Pictures of episodes."""

import time

import numpy as np
import pytest

from mlgo.envs.picture import HEIGHT, WIDTH, draw_episode, in_columns
from tests.envs.conftest import SMALL

LINE, BAND = (23, 92, 145), (168, 203, 230)


def pixels(picture, colour):
    """Rows and columns of a colour."""
    return np.nonzero((picture == np.array(colour, np.uint8)).all(axis=2))


def test_columns_by_hand():
    values = np.array([1.0, 3.0, -2.0, 4.0, 0.0, 6.0])
    assert [one.tolist() for one in in_columns(values, 3)] == [[1, -2, 0], [2, 1, 3], [3, 4, 6]]
    assert [one.tolist() for one in in_columns(values[:2], 3)] == [[1, 3]] * 3


def test_where_the_lines_are():
    """Answers 0 and then 1: the upper line is low at the left and high at the right; the reward falls below 0."""
    answers = np.repeat([0.0, 1.0], 50)
    picture = draw_episode("m.c", answers, np.append(np.zeros(99), -0.5))
    assert (picture.shape, picture.dtype) == ((HEIGHT, WIDTH, 3), np.uint8)
    rows, columns = pixels(picture, LINE)
    upper = rows < 240
    assert rows[upper & (columns < 300)].min() == rows[upper].max() == 230
    assert rows[upper & (columns > 400)].max() == rows[upper].min() == 42
    lower = rows > 240
    assert rows[lower & (columns < 600)].tolist() == [266] * (600 - columns.min())  # 0, above -0.5
    assert rows[lower].max() == 454
    assert columns[lower].max() - columns[lower].min() > 540


def test_answers_that_share_a_column_of_pixels_are_a_band():
    picture = draw_episode("m.c", np.tile([0.0, 1.0], 5000), np.zeros(10_000))
    rows, _ = pixels(picture, BAND)
    assert (rows[rows < 240].min(), rows[rows < 240].max()) == (42, 230)
    rows, _ = pixels(picture, LINE)
    assert set(rows[rows < 240]) <= set(range(125, 148))  # their mean, one half or next to it


def test_nothing_and_one_answer_can_be_drawn():
    assert draw_episode("m.c", np.zeros(0), np.zeros(0)).any()
    assert len(pixels(draw_episode("m.c", np.array([3.0]), np.zeros(1)), LINE)[0]) > 0


def test_the_cost_does_not_grow_with_the_questions():
    draw_episode("m.c", np.zeros(2000), np.zeros(2000))
    start = time.process_time()
    for _ in range(5):
        draw_episode("m.c", np.arange(200_000) % 2.0, np.zeros(200_000))
    assert (time.process_time() - start) / 5 < 0.2


@pytest.mark.parametrize("name", ["mlgo/InlineSize-v0", "mlgo/RegallocPriority-v0"])
def test_an_environment_draws_what_was_answered(name, make):
    env = make(name, [SMALL], render_mode="rgb_array")
    env.reset(seed=0)
    env.action_space.seed(0)
    empty = env.render()
    assert (empty.shape, empty.dtype, empty.flags.writeable) == ((HEIGHT, WIDTH, 3), np.uint8, True)
    given = []
    for _ in range(20):
        given.append(env.action_space.sample())
        env.step(given[-1])
    np.testing.assert_array_equal(env.render(), draw_episode(SMALL, np.array(given, float).ravel(), np.zeros(20)))
    assert env.render().tobytes() != empty.tobytes()
    assert make(name, [SMALL]).render() is None
