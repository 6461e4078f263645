"""The words of a figure: titles that say what a verdict decides, where numbers come from, what is not drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.claims.assessment import assess
from analysis.sources import Source, open_source
from clm_or_mlm.api import figure as draw
from paper_figures.drawing.style import paper_style
from paper_figures.figure import FIGURES, Inputs
from paper_figures.words import caption, family_models, result, source_sentence, title
from pretraining.model_names import FIGURES as STUDY_FIGURES
from tests.paper_figures.made_up import from_runs, made_up_runs, paper_figure

PUBLISHED = Inputs(source=open_source("published"))
VERDICTS = {verdict.claim.id: verdict for verdict in PUBLISHED.assessment.verdicts}


def test_a_verdict_is_a_title_where_it_decides() -> None:
    for name, verdict in VERDICTS.items():
        short = verdict.claim.short
        found = result(verdict)
        match verdict.verdict:
            case "supported":
                assert found.lower() == short.lower(), name
            case "partly supported":
                assert found.endswith(
                    f": holds in at least {verdict.tree.hold} of {len(verdict.tree.units)} comparisons"
                )
            case "mixed":
                assert f"at least {verdict.tree.hold}, fails in {verdict.tree.fail} of" in found
            case "contradicted":
                assert found.startswith("Contradicted: ")
            case _:
                assert found == "", name
    assert {verdict.verdict for verdict in VERDICTS.values()} >= {
        "supported",
        "partly supported",
        "mixed",
        "undecided",
    }


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_entitled_by_its_claim_or_by_its_topic(name: str) -> None:
    figure = FIGURES[name].load()
    found = result(VERDICTS[figure.claim]) if figure.claim else ""
    assert title(figure, PUBLISHED) == (f"{figure.label}. {found}" if found else figure.heading)


def test_the_source_decides_not_the_code() -> None:
    miniature = Inputs(source=open_source("miniature"))
    figure = FIGURES["2"].load()
    assert title(figure, PUBLISHED) == "Figure 2. MLM beats CLM on SC and QA"
    assert title(figure, miniature) == f"MINIATURE. {figure.heading}"


def test_a_figure_alone_is_entitled_as_among_all() -> None:
    """By the verdict with its family's adjustment, from the models of the family alone."""
    whole = open_source("miniature")
    verdicts = {
        v.claim.id: v for v in assess(whole, Inputs(source=whole).settings, second_opinion=False).verdicts
    }
    for name in ("2", "3", "8"):
        figure = FIGURES[name].load()
        models = list(dict.fromkeys((*figure.models, *family_models(figure.claim))))
        alone = Inputs(source=open_source("miniature", models=models))
        found = result(verdicts[figure.claim])
        assert (
            title(figure, alone) == f"MINIATURE. {figure.label}. {found}"
            if found
            else f"MINIATURE. {figure.heading}"
        )


def test_the_api_draws_the_title_too(tmp_path: Path) -> None:
    texts = {text.get_text() for text in draw("2").texts}  # type: ignore[union-attr]
    assert "Figure 2. MLM beats CLM on SC and QA" in texts
    assert any(text.get_text().startswith("MINIATURE. ") for text in draw("2", "miniature").texts)  # type: ignore[union-attr]


FULL = made_up_runs()


def test_a_missing_model_breaks_the_line_and_is_named_in_the_caption() -> None:
    figure, inputs = paper_figure(3), from_runs(FULL[FULL["model"] != "610m-mlm30-42k"])
    data = figure.collect(inputs)
    with paper_style():
        drawn = figure.draw(data, "", "")
    (line,) = [line for line in drawn.axes[0].lines if line.get_label() == "610M"]
    assert np.isnan(np.asarray(line.get_ydata(), float)).tolist() == [False, True, False, False]
    assert "Not drawn: 610m-mlm30-42k, which the source lacks." in caption(figure, data, inputs)


def test_the_caption_counts_what_is_drawn_so_that_more_runs_beside_it_change_nothing() -> None:
    figure = paper_figure(8)
    few, many = (
        Source(label="released", runs=made_up_runs(names))
        for names in (STUDY_FIGURES[8], dict.fromkeys(STUDY_FIGURES[8] + STUDY_FIGURES[2]))
    )
    one, two = (Inputs(source=source) for source in (few, many))
    assert source_sentence(figure, figure.collect(one), one) == source_sentence(
        figure, figure.collect(two), two
    )
