"""What the command line says of itself."""

import argparse

import pytest

from mlgo.cli.main import build_parser


def with_actions(parser, name=()):
    """A parser and those of its sub-commands, by the words that call them."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, other in action.choices.items():
                yield from with_actions(other, (*name, word))


COMMANDS = dict(with_actions(build_parser()))


def test_the_list_of_commands_fits_on_a_screen(mlgo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run = mlgo("--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.splitlines()) <= 30
    assert max(map(len, run.stdout.splitlines())) <= 100
    for words in COMMANDS:
        if len(words) == 1:
            assert f"\n    {words[0]}" in run.stdout


@pytest.mark.parametrize("words", [words for words in COMMANDS if words], ids=" ".join)
def test_help_has_an_example(words):
    text = COMMANDS[words].format_help()
    assert f"mlgo {' '.join(words)}" in text.split("examples:")[1]


def test_without_a_command(mlgo):
    run = mlgo()
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("usage: mlgo [-h] [--version] COMMAND ...\n")


def test_an_action_is_named_in_full(mlgo):
    assert mlgo("replay", "prune", "--help").stdout.startswith("usage: mlgo replay prune [-h]")
