"""The paper's own numbers: the 800 cells of Tables 2-17 (arXiv 2507.00994v4), as it prints them."""

from __future__ import annotations

from functools import cache
from importlib import resources

import pandas as pd

from pretraining.paper_models import TABLES

N_SEEDS = 5
"""Seeds behind every published cell."""

NORMAL_QUANTILE = 1.96
"""The factor of the published intervals: 1.96 sd / sqrt(5), with the sample standard deviation."""

TEST_INSTANCES = {
    "sst2": 872,
    "qqp": 40_430,
    "mnli_m": 9_815,
    "ontonotes": 8_262,
    "conll2003_en": 3_453,
    "uner_en": 2_077,
    "squad": 10_570,
    "squad_v2": 11_873,
    "record": 10_000,
    "nq": 1_726,
    "msmarco": 43,
    "mldr_en": 800,
}
"""Test instances behind every published score of a dataset."""


def published_cells() -> pd.DataFrame:
    """Return every published cell.

    Returns:
        Columns `table` (2-17), `model`, `task`, `dataset` (or `average`), `mean` and `ci95` (half the width of
        the interval), both in percent with two decimals; rows and columns in the paper's order.
    """
    return _cells().copy()


def published_values() -> pd.DataFrame:
    """Return each (model, task, dataset) once: the cells without the tables that repeat them."""
    return _values().copy()


@cache
def _cells() -> pd.DataFrame:
    path = resources.files("analysis") / "data" / "published_scores.csv"
    with path.open(encoding="utf-8") as file:
        cells = pd.read_csv(file)
    # Rows that the study plan does not list would be in no table and in no figure.
    for table, model in zip(cells["table"], cells["model"], strict=True):
        assert model in TABLES[table]
    return cells


@cache
def _values() -> pd.DataFrame:
    cells = _cells().drop(columns="table")
    return cells.drop_duplicates(["model", "task", "dataset"], ignore_index=True)
