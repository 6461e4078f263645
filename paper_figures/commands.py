"""Draw the paper's figures as PDF, PNG and SVG, each with its data and alt text."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from analysis.evidence.settings import Settings
from analysis.options import SourceOptions
from common.cli import offered
from common.errors import UserError
from common.plain_text import counted
from paper_figures.figure import (
    FIGURES,
    PICTURE_FORMATS,
    FigureInputs,
    figures_named,
    formats_named,
    names_in_words,
)

_WRITTEN = "what is written"
"""Heading of a group of options in the command's help."""
_FORMATS = ",".join(PICTURE_FORMATS)
# A type checker does not accept as a type what a call returns.
if TYPE_CHECKING:
    FigureName = str
else:
    FigureName = offered([*FIGURES, "all"])


def draw(
    *figures: Annotated[FigureName, Parameter(metavar="N", help=names_in_words())],
    source: SourceOptions = SourceOptions(),
    scores: Settings = Settings(),
    logs: Annotated[Path | None, Parameter(metavar="DIR", group=_WRITTEN)] = None,
    out: Annotated[Path, Parameter(metavar="DIR", group=_WRITTEN)] = Path(
        "build/figures"
    ),
    formats: Annotated[
        str, Parameter(name="--format", metavar=_FORMATS, group=_WRITTEN)
    ] = _FORMATS,
) -> int:
    """Draw the paper's figures as PDF, PNG and SVG, each with its data and alt text.

    Figures 5 and 7 need individual runs (--source released or PATH); Figure 12 needs training logs (--logs). Each
    figure is written as figureN.pdf, .png, .svg, .csv (the numbers drawn), .txt (alt text), .json (caption, source,
    settings) and .provenance.json (code, versions, command, hashes). The exit code is 2 if a figure you named cannot be
    drawn.

    examples:
      clm-or-mlm figure 3
      clm-or-mlm figure all --source runs.parquet --interval t
      clm-or-mlm figure 12 --logs build/pretraining
      clm-or-mlm figure answer claims      (not in the paper)

    Args:
        logs: folder with the training logs, for Figure 12
        out: output folder
        formats: image formats, separated by commas
    """
    chosen = [figure.load() for figure in figures_named(figures)]
    forms = formats_named(name for name in formats.lower().split(",") if name)
    # Imported here, since it needs pandas, which the command's help does not.
    from paper_figures.save import draw_figures

    has_all = "all" in map(str.lower, figures)
    has_supplementary = any(figure.supplementary for figure in chosen)
    # With `--source released` only the files of these models are downloaded. None, for `all` as well, means all
    # models: a supplementary figure is about all of them.
    models: list[str] | None = None
    if not has_all and not has_supplementary:
        models_of_figures = (figure.models for figure in chosen)
        models = list(dict.fromkeys(itertools.chain.from_iterable(models_of_figures)))

    # Scores of single test instances are read if the interval needs them, and for supplementary figures, which show
    # findings.
    need_instances = scores.method.needs_instances or has_supplementary
    opened = source.open(models, need_instances=need_instances)
    inputs = FigureInputs(source=opened, settings=scores, logs=logs)

    # `draw_figures` adds to `problems` why a figure could not be drawn, and goes on with the next.
    problems: list[UserError] = []
    written: list[Path] = []
    for figure in draw_figures(chosen, inputs, problems):
        written += figure.save(out, forms)
    # With a single figure, nothing else was asked for: its error is the error of the command.
    if problems and len(chosen) == 1:
        raise problems[0]

    # A figure's files differ in their endings only: figure3.pdf, figure3.provenance.json.
    files_of_stem: Counter[str] = Counter()
    for path in written:
        stem, _, _ = path.name.partition(".")
        files_of_stem[stem] += 1

    for stem, count in files_of_stem.items():
        sys.stdout.write(f"{out / stem}.* ({counted(count, 'file')})\n")
    for problem in problems:
        sys.stdout.write(f"not drawn: {problem}\n")

    # With `all` it is not a mistake that a source does not allow some figures: no one asked for 5, 7 or 12 by name.
    is_complete = has_all or not problems
    return 0 if written and is_complete else 2
