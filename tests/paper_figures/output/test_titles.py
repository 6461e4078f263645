"""Titles say what a verdict says, and only what it decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.claims.assessment import assess
from analysis.sources import open_source
from clm_or_mlm.api import figure as draw
from paper_figures.inputs import Inputs
from paper_figures.output.titles import family_models, heading, result
from paper_figures.registry import FIGURES

PUBLISHED = Inputs(source=open_source("published"))
VERDICTS = {verdict.claim.id: verdict for verdict in PUBLISHED.assessment.verdicts}


def test_a_verdict_is_a_title_where_it_decides() -> None:
    for name, verdict in VERDICTS.items():
        short = verdict.claim.short
        title = result(verdict)
        match verdict.verdict:
            case "supported":
                assert title.lower() == short.lower(), name
            case "partly supported":
                assert title.endswith(
                    f": holds in at least {verdict.tree.hold} of {len(verdict.tree.units)} comparisons"
                )
            case "mixed":
                assert f"at least {verdict.tree.hold}, fails in {verdict.tree.fail} of" in title
            case "contradicted":
                assert title.startswith("Contradicted: ")
            case _:
                assert title == "", name
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
    assert heading(figure, PUBLISHED) == (f"{figure.label}. {found}" if found else figure.heading)


def test_the_source_decides_not_the_code() -> None:
    miniature = Inputs(source=open_source("miniature"))
    figure = FIGURES["2"].load()
    assert heading(figure, PUBLISHED) == "Figure 2. MLM beats CLM on SC and QA"
    assert heading(figure, miniature) == figure.heading


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
        assert heading(figure, alone) == (f"{figure.label}. {found}" if found else figure.heading)


def test_the_api_draws_the_title_too(tmp_path: Path) -> None:
    texts = {text.get_text() for text in draw("2").texts}  # type: ignore[union-attr]
    assert "Figure 2. MLM beats CLM on SC and QA" in texts
    assert any(text.get_text().startswith("MINIATURE. ") for text in draw("2", "miniature").texts)  # type: ignore[union-attr]
