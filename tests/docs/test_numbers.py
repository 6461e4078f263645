"""The numbers, answers and pictures in the pages are what the package finds and draws now."""

import io
import re

import numpy as np
import pytest
from PIL import Image

import clm_or_mlm as cm
from analysis.claims.answer import Answer
from analysis.sources import open_source
from common.provenance import ROOT
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import DrawnFigure, picture
from pretraining.plan.plan_report import plan_document
from pretraining.plan.study_plan import load_study, plan_of
from tests.analysis.independent_checks import corrected_ps
from tests.analysis.stores import released_source


def words_of(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_the_readmes_picture_is_the_one_drawn_now() -> None:
    figure, inputs = (
        FIGURES["answer"].load(),
        FigureInputs(source=open_source("published")),
    )
    made = DrawnFigure.of(figure, inputs)
    with paper_style():
        png = picture(made.drawing, "png", title=made.title, description=made.alt)
    assert "docs/images/answer.png" in words_of("README.md")
    with (
        Image.open(io.BytesIO(png)) as now,
        Image.open(ROOT / "docs" / "images" / "answer.png") as then,
    ):
        assert (then.info["Description"], then.size) == (made.alt, now.size)
        one, two = (
            np.asarray(image.convert("L"), dtype=float) for image in (then, now)
        )
    assert np.abs(one - two).mean() == pytest.approx(0, abs=0.05)


def test_the_pages_give_the_answer_that_the_commands_give(published: Answer) -> None:
    findings, found = cm.claims("published"), published
    page = words_of("docs/findings.md").replace("**", "")
    assert all(
        one in page
        for one in (found.headline, found.pretraining, *found.splits, found.findings)
    )
    kept = {name: set(ids) for name, ids in findings.groupby("verdict").groups.items()}
    assert (
        kept["holds"] == {"answer", "F1", "F2", "F5a", "F5b", "F5c", "F9", "F16"}
        and "fails" not in kept
    )
    assert "F14" in kept["open"]


def test_most_of_the_larger_differences_is_one_dataset(published: Answer) -> None:
    screen = words_of("README.md").split("## Start")[0]
    assert "on question answering after 22K and 42K, are not clear" in screen
    assert "one of three datasets (ReCoRD) makes most of them" in screen
    assert "On retrieval none is shown then" in screen
    assert "IR at 22K" not in published.headline
    assert "IR at 12K" in published.headline
    scores = cm.scores(models="610m-*").set_index(["model", "dataset"])["mean"]
    for mixed, alone in (
        ("610m-clm-5k-mlm40-22k", "610m-mlm40-22k"),
        ("610m-clm-10k-mlm40-42k", "610m-mlm40-42k"),
    ):
        gains = scores[mixed] - scores[alone]
        average = gains[["squad", "squad_v2", "record"]].mean()
        assert average > 2 and gains["record"] / 3 > average / 2


def test_the_six_are_named_where_counted_and_filled_where_drawn(
    published: Answer,
) -> None:
    """From the Holm-adjusted p's of all 36 comparisons, computed again in `tests.analysis.independent_checks`."""
    higher: dict[str, list[str]] = {}
    for share, budget, task, p in corrected_ps():
        if share == 0 and p <= 0.05:
            higher.setdefault(task, []).append(f"{budget}K")
    assert higher == {
        "TC": ["12K", "22K", "42K"],
        "SC": ["42K"],
        "QA": ["12K"],
        "IR": ["12K"],
    }
    for task, steps in higher.items():
        listed = (
            " and ".join([", ".join(steps[:-1]), steps[-1]])
            if len(steps) > 1
            else steps[0]
        )
        assert f"{task} at {listed}" in published.headline
    said = (
        "token classification after 12K, 22K and 42K steps; sequence classification after 42K; question answering "
        "and retrieval after 12K"
    )
    assert said in words_of("README.md")
    figure, inputs = (
        FIGURES["answer"].load(),
        FigureInputs(source=open_source("published")),
    )
    drawn = DrawnFigure.of(figure, inputs).drawing
    marks = [
        line
        for ax in drawn.axes
        for line in ax.lines
        if str(line.get_gid() or "").startswith("point-")
    ]
    filled = [mark for mark in marks if mark.get_markerfacecolor() != "white"]
    assert (len(marks), len(filled)) == (12, sum(map(len, higher.values())))


def test_effects_of_the_builders_page_are_those_of_compare() -> None:
    compared = cm.compare("610m-clm-10k-mlm40-42k", "610m-mlm40-42k").set_index(
        ["task", "dataset"]
    )
    for task in ("SC", "TC", "QA", "IR"):
        one = compared.loc[(task, "average")]
        assert (
            f"{one['effect']:+.2f} [{one['low']:+.2f}, {one['high']:+.2f}]"
            in words_of("docs/build-an-encoder.md")
        )


def test_the_hours_of_the_builders_page_are_those_of_the_plan() -> None:
    study, page = load_study(None), words_of("docs/build-an-encoder.md")
    counted = {
        name: [study.model(name)]
        for name in ("210m-mlm40-42k", "610m-clm-10k-mlm40-42k", "1b-mlm40-42k")
    }
    counted["all"] = list(study.models.values())
    for models, hours in zip(
        counted.values(), ("87", "272", "470", "5,682"), strict=True
    ):
        text = plan_document(plan_of(models, study)).pages["tree"]()
        assert re.search(rf"H100 hours +{hours} ", text) and hours in page


def test_what_bfloat16_weights_reach_is_said_of_the_right_split() -> None:
    runs = released_source().need_runs("the test")
    means = 100 * runs.groupby("lr")[["validation_score", "test_score"]].mean()
    (low, low_test), (high, high_test) = means.loc[1e-5], means.loc[1e-4]
    said = f"SST-2's validation split reaches {low:.0f} at a learning rate of 1e-5 and {high:.0f} at 1e-4"
    assert f"{said} (test: {low_test:.0f} and {high_test:.0f})" in words_of(
        "docs/deviations.md"
    )
