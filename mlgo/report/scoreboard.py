"""The scoreboard: what each learner gains, and at what cost."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mlgo.core.config import load_config
from mlgo.core.errors import ConfigError
from mlgo.core.files import read_json
from mlgo.experiments.compare import Gain
from mlgo.experiments.measured import ALL
from mlgo.experiments.scoreboard import Entry, read_scoreboard, training_command
from mlgo.report.pages import Column, Shown, Style, Table, gain_column, text_column

_CONFIG = Path("config/config.yaml")

_PAGE = """\
# Scoreboard

All learners at about equal compile budgets, written by `make scoreboard`. Best first; positive gains are smaller code.

{table}

- **gain**: in {measure} of {split} modules against the built-in heuristic, geometric mean, averaged over the seeds; the
  interval is a bootstrap over modules and seeds. **total**: the same for the sum of all modules. **C++**, **C**:
  geometric means by language. **linked**: whole projects, linked, sum of all; mean over the seeds.
- **over 2 % larger**: share of the modules; **sign test**: wins against losses, two-sided. For both, and for wins and
  losses, each module's change is averaged over the seeds.
- **evaluations**: compiles that one training asked for, validations included, mean over the seeds. Learners that start
  from the policy of another one do not count that one's.
- **compiles**: those of them that were done; the others stood in response trees, which all trainings share. So this and
  **minutes**, the wall time of one training, depend on what ran before and on what else the machine did.{bounds}

## How to train each row

{commands}
"""


def show(args: argparse.Namespace) -> Shown:
    """The table; as a page with the commands that train each row."""
    entries = read_scoreboard(args.data, args.split, args.measure)
    table = _table(entries)
    page = ""
    if args.markdown:
        _check_preset(args.data / "policies", entries, args.preset)
        page = _PAGE.format(
            table=table.markdown(),
            split=args.split,
            measure=f"`{args.measure}`",
            bounds="" if all(one.complete for one in entries) else " ≥: a training was killed, so more than this.",
            commands="\n\n".join(f"{one.learner}:\n\n    {training_command(one, args.preset)}" for one in entries),
        )
    return Shown(table.aligned(), [asdict(one) for one in entries], page)


def _check_preset(policies: Path, entries: Sequence[Entry], preset: Path) -> None:
    """Make sure that the page's commands would train these policies.

    Raises:
        ConfigError: a learner was trained with other settings than the preset's.
        ArtifactError: a policy is missing.
    """
    config = load_config(_CONFIG, preset)
    for one in entries:
        for policy in one.policies:
            section = read_json(policies / policy / "policy.json")["provenance"].get(one.learner)
            if section != getattr(config, one.learner).model_dump(mode="json"):
                raise ConfigError(
                    f"{policy} was trained with other settings of {one.learner} than {preset} has; name the preset it "
                    "was trained with (--preset), or run: make scoreboard"
                )


def _table(entries: Sequence[Entry]) -> Table:
    def least(one: Entry, style: Style, number: float, digits: int) -> str:
        return f"{'' if one.complete else '≥ '}{number:,.{digits}f}"

    def share(gain: Gain) -> Gain:
        return Gain(*(None if end is None else end / 100.0 for end in gain))

    def single(part: str, kind: str = "geomean") -> Column:
        title = {ALL: "total", "c++": "C++", "c": "C"}.get(part, part)
        return gain_column(title, lambda one: share(one.gain(part, kind)).value)

    def sign(one: Entry, style: Style) -> str:
        whole = one.figures[ALL]
        p = whole.get("sign_p")
        return style.none if p is None else f"{style.probability(p)} ({whole['wins']} : {whole['losses']})"

    def worse(one: Entry, style: Style) -> str:
        found = one.figures[ALL].get("worse_share_percent")
        return style.share(None if found is None else found / 100.0)

    return Table(
        [
            text_column("learner", lambda one: one.learner),
            text_column("seeds", lambda one: ", ".join(map(str, one.seeds))),
            Column("evaluations", lambda one, style: style.count(one.evaluations)),
            Column("compiles", lambda one, style: least(one, style, one.compiles, 0)),
            Column("minutes", lambda one, style: least(one, style, one.seconds / 60, 1)),
            Column("cores", lambda one, style: str(one.cores)),
            gain_column("gain (interval)", lambda one: share(one.gain())),
            single(ALL, "total"),
            single("c++"),
            single("c"),
            single("linked", "total"),
            Column("over 2 % larger", worse),
            Column("sign test p", sign),
        ],
        entries,
    )
