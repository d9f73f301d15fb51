"""The page of compile budgets: the best policy that each training has found within so many compiles."""

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np

from mlgo.base.names import PolicyName
from mlgo.compare.trainings import BUDGETS, BudgetCurve, Curve, budget_curves, read_curves
from mlgo.errors import ArtifactError
from mlgo.report.pages import Column, RenderedPage, Style, Table, count_column, table_page, text_column

_NOTE = (
    "Reward of the best policy that a training has found within so many compiles, validations included: median over "
    "the seeds, worst and best seed in parentheses. It is measured on the validation modules that also choose the "
    "policy, so it says how fast a learner is, not what it gains."
)


def show(args: argparse.Namespace) -> RenderedPage:
    """The table of all trainings in ``policies/``; the same as Markdown."""
    folder = args.data / "policies"
    names = sorted(path.parent.name for path in folder.glob("*/history.csv") if PolicyName.find(path.parent.name))
    found = budget_curves(read_curves(folder, names))
    if not found:
        raise ArtifactError(f"{folder} holds no training that compiles; run: snakemake --cores all train")
    record = [
        {"learner": one.learner, "seeds": one.seeds, "gains": {budget: _known(one, budget) for budget in BUDGETS}}
        for one in found
    ]
    return table_page(budget_table(found), _NOTE, record)


def budget_page(curves: Sequence[Curve]) -> str:
    """Table and note as Markdown, for a place in another page."""
    return f"{_NOTE}\n\n{budget_table(budget_curves(curves)).markdown()}"


def budget_table(found: Sequence[BudgetCurve]) -> Table:
    """Gains by learner; budgets that no training comes near are left out."""
    near = [budget for budget in BUDGETS if any(one.within(budget) is not None for one in found)]
    return Table(
        [
            text_column("learner", lambda one: one.learner),
            count_column("seeds", lambda one: len(one.seeds)),
            *(Column(f"{budget:,} compiles", partial(_cell, budget=budget)) for budget in near),
        ],
        found,
    )


def _known(one: BudgetCurve, budget: int) -> list[float] | None:
    gains = one.within(budget)
    return None if gains is None else gains.tolist()


def _cell(one: BudgetCurve, style: Style, budget: int) -> str:
    gains = one.within(budget)
    if gains is None:
        return ""
    return f"{100 * np.median(gains):+.2f} % ({100 * gains.min():+.2f} to {100 * gains.max():+.2f})"
