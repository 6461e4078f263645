"""`python -m analysis scores`: the scores of a source as CSV, Markdown or Parquet."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from analysis.tables.score_list import FORMATS
from benchmarks.protocol import AVERAGE, get_dataset
from clm_or_mlm.options import ScoreOptions, SourceOptions
from clm_or_mlm.output import OutFile, write_or_print
from common.cli import MANY
from common.errors import UserError, nearest

__all__ = ["scores"]


def scores(
    *,
    source: SourceOptions = SourceOptions(),
    score: ScoreOptions = ScoreOptions(),
    model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    dataset: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "csv",
    out: OutFile = None,
) -> int:
    """Print the scores of a source: mean and 95 % interval of every model and dataset, in percent.

    Args:
        model: only these models
        dataset: only these datasets (or average)
        format: how they are written
        out: write there instead of to standard output (parquet needs it)
    """
    form = FORMATS[format]
    if out is None and not form.is_text:
        raise UserError(f"--format {form.name} is no text: name a file with --out scores.{form.ending}")
    for name in dataset:
        if name != AVERAGE:
            get_dataset(name)
    frame = source.open(need_instances=score.needs_instances).scores(score.settings())
    known = list(dict.fromkeys(frame["model"]))
    for name in model:
        if name not in known:
            raise UserError(f"{source.source} has no scores of {name!r}{nearest(name, known)}")
    if model:
        frame = frame[frame["model"].isin(model)]
    if dataset:
        frame = frame[frame["dataset"].isin(dataset)]
    write_or_print(form.content(frame), out)
    return 0
