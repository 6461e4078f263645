"""Figures of task averages: what they collect from sources that lack models, tasks or seeds, and what is drawn."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.errors import NotApplicableError, UserError
from paper_figures.drawing.style import paper_style
from paper_figures.words import alt_text, missing, missing_sentence
from pretraining.paper_models import FIGURE_MODELS
from tests.paper_figures.drawn import PUBLISHED, collected
from tests.paper_figures.made_up import (
    ALL_MODELS,
    from_runs,
    made_up_runs,
    paper_figure,
)

SCORED = tuple(number for number in FIGURE_MODELS if number not in (5, 7, 12))
FULL = made_up_runs()
WHOLE = from_runs(FULL)


@pytest.mark.parametrize("number", SCORED)
def test_a_complete_store_gives_every_model_of_the_figure(number: int) -> None:
    figure = paper_figure(number)
    data = figure.collect(WHOLE)
    assert set(data["model"]) == set(FIGURE_MODELS[number])
    assert missing(figure, data) == {}


@pytest.mark.parametrize("number", SCORED)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_holes_anywhere_are_left_out_and_named(number: int, seed: int) -> None:
    rng = np.random.default_rng([number, seed])
    kept = FULL[
        FULL["model"].isin(rng.choice(ALL_MODELS, 30, replace=False))
        & (FULL["seed"] < 1 + 2 * seed)
    ]
    kept = kept[~((kept["dataset"] == "nq") & (kept["model"] < "610m-f"))]
    figure, inputs = paper_figure(number), from_runs(kept)
    try:
        data = figure.collect(inputs)
    except UserError as error:
        lacks = (
            "cannot be drawn from runs.parquet: it has no task average",
            "needs scores of 1b-clm-10k",
        )
        assert str(error).startswith(
            tuple(f"Figure {number} {words}" for words in lacks)
        )
        return
    gaps = set(missing(figure, data))
    assert gaps | set(data["model"]) == set(FIGURE_MODELS[number])
    if seed == 0:
        assert data["low"].isna().all()
    with paper_style():
        figure.draw(data, "", "")
    assert all(name in alt_text(figure, data, inputs) for name in gaps)


def test_papers_models_stay_out_of_other_figures() -> None:
    """The late switch at 40K would be a 95 % share of CLM; the paper shows it in Figure 7 only."""
    data = paper_figure(6).collect(WHOLE)
    assert "610m-clm-40k-mlm40-42k" not in set(data["model"])
    assert set(paper_figure(8).collect(WHOLE)["series"]) == {"MLM start", "CLM start"}


@pytest.mark.parametrize(
    ("number", "kept", "panels", "empty"),
    [
        (2, FULL["dataset"] != "record", {"SC", "TC", "IR"}, 2),
        (1, FULL["model"] == "610m-clm-10k-mlm40-42k", {"SC: CLM share"}, 1),
    ],
    ids=["a task lacks a dataset", "one panel of Figure 1"],
)
def test_what_a_source_lacks_leaves_its_panel_empty(
    number: int, kept: pd.Series, panels: set[str], empty: int
) -> None:
    figure = paper_figure(number)
    data = figure.collect(from_runs(FULL[kept]))
    assert set(data["panel"]) == panels
    with paper_style():
        drawn = figure.draw(data, "", "")
    assert [text.get_text() for text in drawn.axes[empty].texts] == [
        "not in this source"
    ]
    assert ("610m-clm-42k (QA)" in missing_sentence(missing(figure, data), "why")) == (
        number == 2
    )


def test_figure_11_is_refused_without_its_two_stage_model() -> None:
    figure = paper_figure(11)
    with pytest.raises(
        NotApplicableError,
        match=r"Figure 11 needs .*1b-clm-10k-mlm40-42k.*--source PATH",
    ):
        figure.collect(PUBLISHED)
    assert set(figure.collect(WHOLE)["panel"]) == {"SC", "TC", "QA", "IR"}


def lines_of(ax: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each series' line by its name; nan where the line is broken."""
    return {
        str(line.get_label()): np.asarray(line.get_xydata(), float).tolist()
        for line in ax.lines
        if not str(line.get_label()).startswith("_")
    }


def test_panel_of_a_small_study_has_its_sizes_and_gaps() -> None:
    figure, whole = paper_figure(3), collected("3", "miniature").data
    lacks_one = whole[whole["model"] != "610m-mlm40-42k"]
    with paper_style():
        ax = Figure().subplots()
        figure.draw_panel(lacks_one, "SC", ax)
        page = figure.draw(lacks_one, "", "")
    np.testing.assert_equal(lines_of(ax), lines_of(page.axes[0]))
    assert np.isnan(lines_of(ax)["0.23M"]).any()
    legend = ax.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["0.15M", "0.23M", "0.42M"]


def test_panel_of_a_small_study_says_the_unit_of_its_sizes() -> None:
    ax = Figure().subplots()
    with paper_style():
        paper_figure(2).draw_panel(collected("2", "miniature").data, "SC", ax)
    assert ax.get_xlabel() == "Model size (million parameters)"
