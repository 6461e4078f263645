"""Which figures and which rows of tables a finding rests on, by the models that it compares."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.claims.statements import Claim, comparisons
from analysis.evidence.contrasts import Contrast
from pretraining.models import FIGURES, TABLES

__all__ = ["compared", "figures_of", "tables_of"]

_TASKS = {1: {"SC"}, 12: set[str]()}
"""Figures that do not show the scores of all tasks: one on classification alone, one of losses."""


def compared(claim: Claim) -> set[tuple[str, str]]:
    """Return every (model, task) that a claim compares."""
    cells: set[tuple[str, str]] = set()
    for one in comparisons(claim.body):
        if isinstance(one, Contrast):
            cells |= {(term.model, term.task) for term in one.terms}
        else:
            cells |= {(model, one.task) for model in (*one.narrow, *one.wide)}
    return cells


def figures_of(claim: Claim) -> tuple[int, ...]:
    """Return the paper's figures that show all models and tasks of a claim and the fewest others; by number."""
    cells = compared(claim)
    models, tasks = {model for model, _ in cells}, {task for _, task in cells}
    fits = {
        number: len(names)
        for number, names in FIGURES.items()
        if models <= set(names) and tasks <= _TASKS.get(number, tasks)
    }
    fewest = min(fits.values(), default=0)
    return tuple(number for number, count in sorted(fits.items()) if count == fewest)


def tables_of(claim: Claim, tasks: Mapping[int, str]) -> tuple[int, ...]:
    """Return, for each task of a claim, the tables that hold all of its models of that task and the fewest others.

    Where none holds all, those that hold any.

    Args:
        claim: the claim.
        tasks: of each table of scores.
    """
    cells = compared(claim)
    found: set[int] = set()
    for task in dict.fromkeys(task for _, task in cells):
        models = {model for model, of in cells if of == task}
        tables = {number: set(TABLES[number]) for number, of in tasks.items() if of == task}
        whole = {number: len(names) for number, names in tables.items() if models <= names}
        if whole:
            found |= {number for number, count in whole.items() if count == min(whole.values())}
        else:
            found |= {number for number, names in tables.items() if models & names}
    return tuple(sorted(found))
