"""From a finding to its figure and rows: the numbers that the catalogue's own words name."""

from __future__ import annotations

import re

import pytest

from analysis.claims.catalogue import CLAIMS
from benchmarks.protocol import TASKS
from clm_or_mlm.report.links import compared, figures_of, tables_of
from pretraining.models import TABLES

TABLE_TASKS = {number: list(TASKS)[(number - 2) % 4] for number in TABLES if number > 1}


def named(word: str, text: str) -> set[int]:
    """The numbers after `Figure` or `Tables` in a claim's `where`."""
    numbers: set[int] = set()
    for first, last in re.findall(rf"{word}s? (\d+)(?:-(\d+))?", text):
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


@pytest.mark.parametrize("name", CLAIMS)
def test_the_figure_is_the_one_that_the_claim_names(name: str) -> None:
    claim = CLAIMS[name]
    if figures := named("Figure", claim.where):
        assert figures <= set(figures_of(claim))
    assert len(figures_of(claim)) in (1, 2)


@pytest.mark.parametrize("name", CLAIMS)
def test_the_tables_are_those_that_the_claim_names(name: str) -> None:
    claim = CLAIMS[name]
    found = set(tables_of(claim, TABLE_TASKS))
    assert found
    if tables := named("Table", claim.where):
        # A range may name a task that the claim only reports; what it compares is never elsewhere.
        assert found <= tables or name in ("F4", "F5c")
        assert found & tables


def test_a_spread_compares_all_models_of_both_groups() -> None:
    cells = compared(CLAIMS["F10"])
    assert ("610m-clm-40k-mlm20-42k", "SC") in cells and ("610m-mlm50-42k", "IR") in cells
