"""Figures 5 and 7 against plain NumPy over a cube of runs."""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from benchmarks.protocol import LEARNING_RATES, datasets_of
from paper_figures.drawing.style import paper_style
from paper_figures.words import source_sentence
from pretraining.paper_models import FIGURE_MODELS
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure

Array = npt.NDArray[np.float64]
RUNS = made_up_runs(dict.fromkeys((*FIGURE_MODELS[5], *FIGURE_MODELS[7])))
TASKS = ("SC", "TC", "QA", "IR")


VALUES = {
    column: dict(
        zip(
            zip(RUNS.model, RUNS.dataset, RUNS.lr, RUNS.seed, strict=True),
            100 * RUNS[column],
            strict=True,
        )
    )
    for column in ("validation_score", "test_score")
}


def cube(model: str, task: str, column: str) -> Array:
    """Return (3 datasets, 6 rates, 5 seeds) scores in percent."""
    values = VALUES[column]
    return np.array(
        [
            [[values[model, name, lr, s] for s in range(5)] for lr in LEARNING_RATES]
            for name in datasets_of(task)
        ]
    )


def figure_5(task: str, model: str) -> Array:
    """Return the task averages at the four rates from 1e-5 to 1e-4 and the five seeds."""
    return cube(model, task, "test_score")[:, :4].mean(axis=0).ravel()


def figure_7(task: str, scheme: str) -> Array:
    """Return the task averages of four ratios and five seeds, each dataset at the rate of its best validation."""
    found = []
    for ratio in (20, 30, 40, 50):
        model = scheme.format(ratio)
        validation, test = (
            cube(model, task, "validation_score"),
            cube(model, task, "test_score"),
        )
        best = validation.argmax(axis=1)[:, None]
        found.append(np.take_along_axis(test, best, axis=1)[:, 0].mean(axis=0))
    return np.concatenate(found)


CASES = {
    5: {
        "MLM": lambda t: figure_5(t, "610m-mlm40-42k"),
        "CLM": lambda t: figure_5(t, "610m-clm-42k"),
    },
    7: {
        "MLM": lambda t: figure_7(t, "610m-mlm{}-42k"),
        "CLM+MLM": lambda t: figure_7(t, "610m-clm-40k-mlm{}-42k"),
    },
}


@pytest.mark.parametrize("number", CASES)
def test_spread_is_the_standard_deviation_of_task_averages(number: int) -> None:
    data = paper_figure(number).collect(from_runs(RUNS))
    for task in TASKS:
        for column, scores_of in CASES[number].items():
            scores = scores_of(task)
            assert len(scores) == 20
            rows = data[(data["panel"] == task) & (data["x"] == column)]
            bar = rows[rows["interval"] == "sd"].squeeze()
            assert (bar["mean"], bar["n_seeds"]) == (0, 5)
            assert [bar["low"], bar["high"]] == pytest.approx(
                [-scores.std(ddof=1), scores.std(ddof=1)]
            )
            single = rows.loc[rows["interval"] == "single", "mean"]
            assert np.sort(single) == pytest.approx(np.sort(scores - scores.mean()))


@pytest.mark.parametrize("number", CASES)
def test_the_picture_holds_the_spread(number: int) -> None:
    figure = paper_figure(number)
    data = figure.collect(from_runs(RUNS))
    with paper_style():
        drawn = figure.draw(data, "", "caption")
    for task, ax in zip(TASKS, drawn.axes, strict=True):
        rows = data[data["panel"] == task]
        for column in CASES[number]:
            bar = rows[
                (rows["series"] == column) & (rows["interval"] == "sd")
            ].squeeze()
            (bars,) = [
                found
                for found in ax.collections
                if found.get_label() == f"_sd {column}"
            ]
            ((_, low), (_, high)) = bars.get_segments()[0]  # type: ignore[attr-defined]
            assert (low, high) == pytest.approx((bar["low"], bar["high"]))
            points = {
                line.get_gid(): line
                for line in ax.lines
                if line.get_label() == f"{column} single"
            }
            single = rows[(rows["x"] == column) & (rows["interval"] == "single")][
                "mean"
            ]
            assert list(points) == [f"point-{row}" for row in single.index]
            assert [line.get_ydata()[0] for line in points.values()] == pytest.approx(
                single.tolist()
            )  # type: ignore[index]


FIVE = RUNS[RUNS["model"].isin(FIGURE_MODELS[5])]


def test_figure_5_leaves_out_large_rates_and_partial_scores() -> None:
    wild = FIVE.copy()
    wild.loc[wild["lr"] > 1e-4, "test_score"] = 0.0
    columns = ["panel", "series", "model", "x", "mean", "low", "high"]
    one, two = (
        paper_figure(5).collect(from_runs(runs))[columns] for runs in (wild, FIVE)
    )
    pd.testing.assert_frame_equal(one, two)
    holed = FIVE[
        ~((FIVE.dataset == "sst2") & (FIVE.lr == 5e-5) & (FIVE.model == "610m-clm-42k"))
    ]
    data = paper_figure(5).collect(from_runs(holed))
    counts = (
        data[(data["panel"] == "SC") & (data["interval"] == "single")]
        .groupby("x")
        .size()
    )
    assert counts.to_dict() == {"MLM": 20, "CLM": 15}


def test_a_single_score_has_no_spread_and_is_drawn_all_the_same() -> None:
    one = FIVE[(FIVE.seed == 0) & (FIVE.lr == 1e-5) & (FIVE.model == "610m-clm-42k")]
    figure = paper_figure(5)
    data = figure.collect(from_runs(one))
    assert data.loc[data["interval"] == "sd", "high"].isna().all()
    with paper_style():
        figure.draw(data, "", "caption")


def test_caption_of_figure_5_says_nothing_of_chosen_rates() -> None:
    inputs = from_runs(RUNS)
    sentences = {
        n: source_sentence(paper_figure(n), paper_figure(n).collect(inputs), inputs)
        for n in (5, 7)
    }
    assert "learning rate chosen for each seed" in sentences[7]
    assert "learning rate" not in sentences[5]
