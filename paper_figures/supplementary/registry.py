"""Figures that the paper does not have: the claims, the multiverse of analyses, the coverage of intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paper_figures.figure_data import Inputs

if TYPE_CHECKING:  # so that the command line can set matplotlib up before it is imported
    import pandas as pd
    from matplotlib.figure import Figure

    from paper_figures.output.save import Drawing

__all__ = ["EXTRAS", "write_extra"]


def _claims(inputs: Inputs) -> Drawing:
    from analysis.claims.assessment import assess
    from analysis.claims.wording import how_tested
    from paper_figures.supplementary.claims import claims_data, describe_claims, draw_claims

    data = claims_data(assess(inputs.source, inputs.settings, second_opinion=False))
    tests = " ".join(how_tested(inputs.settings.interval, published=inputs.source.is_published))
    line = (
        f"{_from(inputs)}{_rule(inputs)} {tests} "
        "Large mark: the comparison the verdict hangs on, with its interval; dotted: ends of the claimed region other "
        "than 0; small dots: the claim's other comparisons. The axis is linear near 0 and logarithmic far from it. "
        "Rules: docs/claims.md."
    )
    return _drawing(inputs, "claims", "Which findings survive a test", data, draw_claims(data, line), line,
                    describe_claims(data))  # fmt: skip


def _multiverse(inputs: Inputs) -> Drawing:
    from analysis.claims.multiverse import explore
    from analysis.sources import standard_of
    from paper_figures.supplementary.multiverse import describe_multiverse, draw_multiverse, multiverse_data

    standard = standard_of(inputs.source) if inputs.source.comparable else None
    found = explore(inputs.source, inputs.settings, standard=standard)
    data = multiverse_data(found)
    line = (
        f"{_from(inputs)} A column is an analysis: rule for the learning rate / interval; mixed: the "
        "mixed-effects model (F1-F4). Supporting: of the analyses in which the claim can be decided, the share that "
        "supports it; verdicts after Holm's adjustment within one analysis, not over the analyses. Rules: "
        "docs/claims.md."
    )
    return _drawing(inputs, "multiverse", "Does the answer depend on the analyst?", data,
                    draw_multiverse(data, found.gaps, line), line, describe_multiverse(data, found.gaps))  # fmt: skip


def _coverage(inputs: Inputs) -> Drawing:
    from analysis.precision.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, simulate
    from paper_figures.supplementary.coverage import describe_coverage, draw_coverage

    settings = inputs.settings
    data = simulate(
        inputs.source, trials=COVERAGE_TRIALS, resamples=COVERAGE_RESAMPLES, seed=settings.seed,
        selection=settings.selection,
    )  # fmt: skip
    line = (
        f"{_from(inputs)}{_rule(inputs)} Five-seed cells simulated with their variances: {COVERAGE_TRIALS:,} cells a "
        "dataset, "
        f"{COVERAGE_RESAMPLES:,} resamples. Black line: the nominal 95 %. What the intervals are: docs/intervals.md."
    )
    return _drawing(inputs, "coverage", "Coverage of nominal 95 % intervals", data, draw_coverage(data, line), line,
                    describe_coverage(data))  # fmt: skip


def _from(inputs: Inputs) -> str:
    """Return whose numbers these are and where they come from."""
    where = "published cells of arXiv 2507.00994v4" if inputs.source.is_published else inputs.name
    return f"{inputs.source.own_words} Source: {where}.".lstrip()


def _rule(inputs: Inputs) -> str:
    """Return how the learning rate was chosen, where that was up to us."""
    words = inputs.settings.rule.words
    return "" if inputs.source.is_published else f" {words[0].upper()}{words[1:]}."


def _drawing(
    inputs: Inputs, name: str, title: str, data: pd.DataFrame, figure: Figure, line: str, description: str
) -> Drawing:
    from paper_figures.output.save import Drawing, entitle

    return Drawing(
        name=name, title=entitle(figure, title, inputs.source), data=data, figure=figure, caption=line,
        description=f"{inputs.source.own_words} {description}".lstrip(), source=inputs.name,
        given_as=inputs.source.label, settings=inputs.settings,
    )  # fmt: skip


EXTRAS: dict[str, Callable[[Inputs], Drawing]] = {
    "claims": _claims,
    "multiverse": _multiverse,
    "coverage": _coverage,
}
"""By the word that asks for it."""


def write_extra(
    name: str, inputs: Inputs, folder: Path, formats: Sequence[str], *, interval: str | None
) -> list[Path]:
    """Draw one of `EXTRAS` and write `NAME.pdf`, `.png`, `.svg`, `.csv`, `.txt` and `.json` into `folder`.

    Args:
        name: a key of `EXTRAS`.
        inputs: from what.
        folder: made when absent.
        formats: of the picture.
        interval: what the claims are tested with; None: what suits the source (`assessment.default_interval`).

    Returns:
        The files in the order written.

    Raises:
        UserError: the inputs do not allow the figure.
    """
    from analysis.claims.assessment import default_interval
    from paper_figures.drawing.style import paper_style
    from paper_figures.output.save import write_drawing

    settings = replace(inputs.settings, interval=interval or default_interval(inputs.source))
    with paper_style():
        drawing = EXTRAS[name](Inputs(source=inputs.source, settings=settings))
        return write_drawing(drawing, folder / name, formats)
