"""What the command line says of itself."""

import argparse
import os
import subprocess
import sys

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


def test_a_package_adds_a_command_by_an_entry_point(tmp_path):
    (tmp_path / "hello.py").write_text(
        "def add_parser(commands):\n"
        "    parser = commands.add_parser('hello')\n"
        "    parser.set_defaults(run=lambda args: print('hello from a package'))\n"
    )
    info = tmp_path / "hello-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    points = info / "entry_points.txt"
    points.write_text("[mlgo.commands]\nhello = hello\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "mlgo", "hello"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "hello from a package\n"), run.stderr
    points.write_text("[mlgo.commands]\ndoctor = hello\n")
    run = subprocess.run([*command[:3], "hello"], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("error: command 'doctor' is registered twice, as mlgo.cli.doctor and as hello")
