"""`mlgo scoreboard`: what each learner gains, and at what cost."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.cli.configure import PRESETS
from mlgo.cli.options import DEFAULT_CONFIG, add_table_options
from mlgo.cli.tables import aligned, markdown
from mlgo.core.config import load_config
from mlgo.core.errors import ConfigError
from mlgo.core.files import read_json, write_text
from mlgo.report.scoreboard import Gain, Standing, read_standings, training_command

_EPILOG = """\
examples:
  make scoreboard                                         train all learners, then write the table
  mlgo scoreboard                                         the table of the finished run
  mlgo scoreboard --split validation --json
  mlgo scoreboard --markdown docs/results/scoreboard.md   the table with the commands that train each row
"""

_COLUMNS = (
    "learner",
    "seeds",
    "evaluations",
    "compiles",
    "minutes",
    "cores",
    "gain % (interval)",
    "total %",
    "C++ %",
    "C %",
    "linked %",
    "> 2 % larger",
    "sign test p",
)

_PAGE = """\
# Scoreboard

All learners at about equal compile budgets, written by `make scoreboard`. Best first; positive gains are smaller code.

{table}

- **gain**: in {measure} of {split} modules against the built-in heuristic, geometric mean, averaged over the seeds; the
  interval is a bootstrap over modules and seeds. **total**: the same for the sum of all modules. **C++**, **C**:
  geometric means by language. **linked**: whole projects, linked, sum of all; mean over the seeds.
- **> 2 % larger**: share of the modules; **sign test**: wins against losses, two-sided. For both, and for wins and
  losses, each module's change is averaged over the seeds.
- **evaluations**: compiles that one training asked for, validations included, mean over the seeds. Learners that start
  from the policy of another one do not count that one's.
- **compiles**: those of them that were done; the others stood in decision trees, which all trainings share. So this and
  **minutes**, the wall time of one training, depend on what ran before and on what else the machine did.{bounds}

## How to train each row

{commands}
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "scoreboard",
        help="what each learner gains, and at what cost",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_table_options(parser)
    parser.add_argument(
        "--preset",
        type=Path,
        default=PRESETS / "scoreboard.yaml",
        help="what the policies were trained with, for --markdown (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    standings = read_standings(args.data, args.split, args.measure)
    if args.markdown:
        check_preset(args.data / "policies", standings, args.preset)
        write_text(args.markdown, markdown_page(standings, args.split, args.measure, args.preset))
    print(json.dumps([asdict(one) for one in standings], indent=2) if args.json else plain_table(standings))


def check_preset(policies: Path, standings: Sequence[Standing], preset: Path) -> None:
    """Make sure that the page's commands would train these policies.

    Raises:
        ConfigError: a learner was trained with other settings than the preset's.
        ArtifactError: a policy is missing.
    """
    config = load_config(DEFAULT_CONFIG, preset)
    for one in standings:
        for policy in one.policies:
            section = read_json(policies / policy / "policy.json")["provenance"].get(one.learner)
            if section != getattr(config, one.learner).model_dump(mode="json"):
                raise ConfigError(
                    f"{policy} was trained with other settings of {one.learner} than {preset} has; name the preset it "
                    "was trained with (--preset), or run: make scoreboard"
                )


def plain_table(standings: Sequence[Standing]) -> str:
    """The table for a terminal, columns aligned."""
    return aligned([_COLUMNS, *map(_cells, standings)])


def markdown_page(standings: Sequence[Standing], split: str, measure: str, preset: Path) -> str:
    """The page with table, explanations and the commands that train each row."""
    bounds = "" if all(one.complete for one in standings) else " ≥: a training was killed, so more than this."
    return _PAGE.format(
        table=markdown([_COLUMNS, *map(_cells, standings)]),
        split=split,
        measure=f"`{measure}`",
        bounds=bounds,
        commands="\n\n".join(f"{one.learner}:\n\n    {training_command(one, preset)}" for one in standings),
    )


def _cells(one: Standing) -> list[str]:
    least = "" if one.complete else "≥ "
    interval = "" if one.geomean.low is None else f" ({one.geomean.low:+.2f} to {one.geomean.high:+.2f})"
    return [
        one.learner,
        ", ".join(map(str, one.seeds)),
        f"{one.evaluations:,.0f}",
        f"{least}{one.compiles:,.0f}",
        f"{least}{one.seconds / 60:.1f}",
        str(one.cores),
        f"{_percent(one.geomean)}{interval}",
        *map(_percent, (one.total, one.cpp, one.c, one.linked)),
        "-" if one.worse_share_percent is None else f"{one.worse_share_percent:.1f} %",
        "-" if one.sign_p is None else f"{one.sign_p:.2g} ({one.wins} : {one.losses})",
    ]


def _percent(gain: Gain) -> str:
    return "-" if gain.percent is None else f"{gain.percent:+.2f}"
