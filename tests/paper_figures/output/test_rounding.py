"""CSV files hold what is known: no digit less, no digit of binary arithmetic more."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from analysis.sources import Source, open_source
from common.tables import csv_text
from paper_figures.inputs import Inputs
from paper_figures.output.rounding import decimals, rounded
from tests.paper_figures.made_up import made_up_runs, paper_figure

PUBLISHED = open_source("published")
RUNS = Source(label="runs", runs=made_up_runs(["610m-clm-42k"]))


def written(table: pd.DataFrame, source: Source) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(csv_text(rounded(table, source), float_format="%.12g")), dtype=str)


def test_what_binary_leaves_behind_is_not_written() -> None:
    table = pd.DataFrame({"mean": [84.94999999999999, 0.1 + 0.2, -0.0004]})
    assert written(table, PUBLISHED)["mean"].tolist() == ["84.95", "0.3", "0"]
    assert written(table, RUNS)["mean"].tolist() == ["84.95", "0.3", "-0.0004"]


@pytest.mark.parametrize("source", [PUBLISHED, RUNS])
def test_every_percentage_is_recovered_to_the_known_digits(source: Source) -> None:
    digits = decimals(source)
    values = np.random.default_rng(0).integers(0, 100 * 10**digits, 2000) / 10**digits
    noise = values * (1 + 4 * np.finfo(float).eps)
    again = written(pd.DataFrame({"mean": noise, "low": noise, "gap": noise}), source).astype(float)
    assert (again["mean"].to_numpy() == values).all() and again.equals(again.assign(low=values, gap=values))


def test_published_means_are_the_printed_ones() -> None:
    data = paper_figure(2).collect(Inputs(source=PUBLISHED))
    assert written(data, PUBLISHED)["mean"].astype(float).tolist() == data["mean"].tolist()


def test_losses_flops_and_p_values_have_six_digits() -> None:
    table = pd.DataFrame(
        {"x": [4.7682371234, 1e-9 / 3], "mean": [0.00012345678, 12.3456789], "interval": "range", "n": [1, 2]}
    )
    shown = written(table, PUBLISHED)
    assert shown["x"].tolist() == ["4.76824", "3.33333e-10"]
    assert shown["mean"].tolist() == ["0.000123457", "12.3457"]
    assert shown["n"].tolist() == ["1", "2"]


def test_infinite_ends_and_names_stay() -> None:
    table = pd.DataFrame({"region_low": [-np.inf, np.nan], "x": pd.Series(["CPT", 1 / 3], dtype=object)})
    shown = rounded(table, PUBLISHED)
    assert shown["region_low"].iloc[0] == -np.inf and np.isnan(shown["region_low"].iloc[1])
    assert shown["x"].tolist() == ["CPT", 0.333333]
