"""`mlgo report`: what was found, page by page."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from mlgo.base.config import default_config, read_settings
from mlgo.base.files import write_text
from mlgo.base.registry import PROBLEMS
from mlgo.cli.configure import PRESETS
from mlgo.cli.program import add_command, add_options, say
from mlgo.errors import ConfigError
from mlgo.objects import measures


class _Page(NamedTuple):
    """A page: its module, the options that it takes, what it shows, and the function of the module that does."""

    module: str
    options: tuple[str, ...]
    summary: str
    show: str = "show"


PAGES = {
    "overview": _Page(
        "report.headline_page",
        ("measure", "preset", "learner"),
        "what the last run found, and where its pages are",
        "show_overview",
    ),
    "truth": _Page(
        "report.headline_page",
        ("learner", "preset", "markdown", "into"),
        "what ships, over projects, against what, at what cost",
    ),
    "difference": _Page(
        "report.difference",
        ("against", "learner", "preset", "markdown"),
        "by how much one run gains more than another",
    ),
    "scoreboard": _Page(
        "research.scoreboard",
        ("split", "measure", "markdown", "preset"),
        "what each learner gains, and at what cost",
    ),
    "budgets": _Page(
        "research.learner_gains",
        ("markdown", "html"),
        "the best policy that each training has found within so many compiles and minutes",
        "show_budgets",
    ),
    "sizes": _Page(
        "research.learner_gains",
        ("split", "measure", "markdown", "preset"),
        "what each learner gains on small and on large modules",
        "show_sizes",
    ),
    "generalisation": _Page(
        "research.generalisation",
        ("split", "measure", "markdown"),
        "gains on other languages and under other compilers",
    ),
    "headroom": _Page(
        "report.headroom_page", ("measure",), "how much smaller modules could be, and what policies captured of it"
    ),
    "sweep": _Page("research.sweep_page", ("experiments",), "the points of a sweep side by side, and what they cost"),
    "programs": _Page("report.executed_page", ("markdown",), "what policies change when programs run"),
    "cse": _Page("report.choices", ("split",), "how policies choose among candidates"),
}
"""By name."""

_OF_KIND = {"modules": "overview", "choices": "cse"}
_OF_ONE_RUN = ("overview", "truth", "difference")
"""Pages whose settings are those of the run."""

_DEFAULTS = {"measure": measures.DEFAULT.name, "preset": [PRESETS / "scoreboard.yaml"]}


def add_parser(commands: Any) -> None:
    pages = "\n".join(f"  {name:<15} {page.summary}" for name, page in PAGES.items())
    parser = add_command(commands, "report", run)
    parser.epilog = f"pages:\n{pages}\n\n{parser.epilog}"
    parser.add_argument("page", nargs="?", choices=PAGES, metavar="PAGE", help="see below (default: that of the task)")
    add_options(parser, "--data")
    parser.add_argument(
        "--split",
        choices=("test", "validation", "train"),
        help="modules that count (default: the split that is judged)",
    )
    parser.add_argument("--measure", choices=measures.names(), help="what is compared")
    parser.add_argument(
        "--preset",
        type=Path,
        action="append",
        help="of the run; for a scoreboard, what its policies were trained with; may be repeated",
    )
    parser.add_argument("--experiments", action="store_true", default=None, help="tell of DVC's experiments instead")
    parser.add_argument("--against", type=Path, metavar="DIR", help="folder of the results to compare with")
    parser.add_argument("--learner", help="whose policies (default: the last that was trained)")
    add_options(parser, "--json")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page as Markdown as well")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the page with its figures for a browser as well"
    )
    parser.add_argument("--into", type=Path, metavar="FILE", help="write the short page into a Markdown file")


def run(args: argparse.Namespace) -> int:
    """Say what was found, page by page.

    mlgo report                                          what the last run found, and where its page is
    mlgo report truth                                    what ships, of how many projects, against what, at what cost
    mlgo report truth --data docs/results/run --into README.md    the table of README.md again
    mlgo report difference --against ../other/data       of two runs on the same corpus: which training gains more
    mlgo report scoreboard --split validation --json     all learners of: make scoreboard
    mlgo report scoreboard --markdown docs/results/scoreboard.md
    mlgo report budgets                                  the best policy within 100 to 30,000 compiles, of all trainings
    mlgo report budgets --html budgets.html              the same with figures, against compiles and minutes
    mlgo report sizes --data docs/results/scoreboard     gains of small and of large modules, of each learner
    mlgo report generalisation --measure exec_bytes      of: make generalisation
    mlgo report headroom                                 of: make headroom
    mlgo report sweep                                    of: make sweep; the page is data/sweep/sweep.html
    mlgo report sweep --experiments                      what DVC's experiments cost (dvc exp run --queue, or --temp)
    mlgo report programs --markdown docs/results/programs.md
    mlgo report cse                                      choices among candidates, of task jit-cse
    """
    if args.page is None:
        settings = read_settings(default_config(), *(args.preset or ()))
        args.page = _OF_KIND[PROBLEMS.get(settings.value("task")).kind]
        args.preset = args.preset if "preset" in PAGES[args.page].options else None
    page = PAGES[args.page]
    for name in ("split", "measure", "learner", "preset", "experiments", "against", "markdown", "html", "into"):
        if getattr(args, name) is not None and name not in page.options:
            raise ConfigError(f"mlgo report {args.page} takes no --{name}; see mlgo report --help")
        if getattr(args, name) is None and args.page not in _OF_ONE_RUN:
            setattr(args, name, _DEFAULTS.get(name))
    shown = getattr(import_module(f"mlgo.{page.module}"), page.show)(args)
    if args.markdown:
        write_text(args.markdown, shown.markdown)
    if args.into:
        write_text(args.into, with_block(args.into, args.page, shown.block))
    say(args, shown.record, shown.text)
    return 0 if shown.is_good else 1


def with_block(path: Path, page: str, markdown: str) -> str:
    """Text of a file with a page in its place, between the lines ``<!-- mlgo report PAGE -->`` and ``<!-- end -->``."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    start, end = f"<!-- mlgo report {page} -->\n", "<!-- end -->\n"
    before, found, rest = text.partition(start)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ConfigError(f"{path} has no place for the page: lines {start.strip()} and {end.strip()}")
    return f"{before}{start}\n{markdown.strip()}\n\n{end}{after}"
