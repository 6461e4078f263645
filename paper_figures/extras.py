"""Figures that the paper does not have: the claims, the multiverse of analyses, the coverage of intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from common.files import write_bytes, write_text
from common.provenance import provenance
from paper_figures.drawn import Inputs

if TYPE_CHECKING:  # so that the command line can set matplotlib up before it is imported
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["EXTRAS", "Drawing", "write_extra"]

_PACKAGES = ("matplotlib", "numpy", "scipy", "pandas", "statsmodels", "pillow", "fonttools")


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure, drawn."""

    title: str
    data: pd.DataFrame
    """What is drawn, for the CSV."""
    figure: Figure
    caption: str
    description: str
    """What is seen, in sentences."""


def _claims(inputs: Inputs) -> Drawing:
    from analysis.claims.assessment import assess
    from paper_figures.claims import claims_data, describe_claims, draw_claims

    data = claims_data(assess(inputs.source, inputs.settings, second_opinion=False))
    line = (
        f"Source: {inputs.name}; interval {inputs.settings.interval}, learning rates selected by "
        f"{inputs.settings.selection}. Large mark: the comparison the verdict hangs on, with its 95 % interval; "
        "dotted: ends of the claimed region other than 0; small dots: the claim's other comparisons. The axis is "
        "linear near 0 and logarithmic far from it. Rules: docs/claims.md."
    )
    return Drawing(
        title="Which findings survive a test", data=data, figure=draw_claims(data, line), caption=line,
        description=describe_claims(data),
    )  # fmt: skip


def _multiverse(inputs: Inputs) -> Drawing:
    from analysis.claims.multiverse import explore
    from analysis.sources import standard_of
    from paper_figures.multiverse import describe_multiverse, draw_multiverse, multiverse_data

    found = explore(inputs.source, inputs.settings, standard=standard_of(inputs.source))
    data = multiverse_data(found)
    line = (
        f"Source: {inputs.name}. Columns: selection rule / interval; mixed: the mixed-effects model (F1-F4). "
        "Supporting: share of the analyses that decide the claim. Rules: docs/claims.md."
    )
    return Drawing(
        title="Does the answer depend on the analyst?", data=data,
        figure=draw_multiverse(data, found.gaps, line), caption=line,
        description=describe_multiverse(data, found.gaps),
    )  # fmt: skip


def _coverage(inputs: Inputs) -> Drawing:
    from analysis.coverage import COVERAGE_RESAMPLES, COVERAGE_TRIALS, simulate
    from paper_figures.coverage import describe_coverage, draw_coverage

    settings = inputs.settings
    data = simulate(
        inputs.source, trials=COVERAGE_TRIALS, resamples=COVERAGE_RESAMPLES, seed=settings.seed,
        selection=settings.selection,
    )  # fmt: skip
    line = (
        f"Five-seed cells simulated with the variances of {inputs.name}: {COVERAGE_TRIALS:,} cells a dataset, "
        f"{COVERAGE_RESAMPLES:,} resamples. Line: the nominal 95 %. What the intervals are: docs/intervals.md."
    )
    return Drawing(
        title="Coverage of nominal 95 % intervals", data=data, figure=draw_coverage(data, line), caption=line,
        description=describe_coverage(data),
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
    from paper_figures.style import paper_style
    from paper_figures.writing import csv_text, picture

    settings = replace(inputs.settings, interval=interval or default_interval(inputs.source))
    inputs = Inputs(source=inputs.source, settings=settings)
    paths = []
    with paper_style():
        drawing = EXTRAS[name](inputs)
        for form in formats:
            path = folder / f"{name}.{form}"
            content = picture(drawing.figure, form, title=drawing.title, description=drawing.description)
            write_bytes(path, content)
            paths.append(path)
    record = {
        "figure": name,
        "title": drawing.title,
        "caption": drawing.caption,
        "source": {"name": inputs.name, "given_as": inputs.source.label},
        "settings": {
            "selection": settings.selection,
            "interval": settings.interval,
            "resamples": settings.resamples,
            "seed": settings.seed,
        },
        **provenance("analysis", _PACKAGES),
    }
    for suffix, text in (
        ("csv", csv_text(drawing.data)),
        ("txt", drawing.description + "\n"),
        ("json", json.dumps(record, indent=1, ensure_ascii=False) + "\n"),
    ):
        path = folder / f"{name}.{suffix}"
        write_text(path, text)
        paths.append(path)
    return paths
