"""`python -m analysis table N`: the paper's tables, published and recomputed values side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.sources import PUBLISHED
from analysis.tables.build import build_table, table_numbers
from analysis.tables.render import FORMATS
from clm_or_mlm.options import BootstrapScoreOptions, SourceOptions
from common.cli import MANY
from common.errors import UserError
from common.files import write_text
from pretraining.study import TABLES

__all__ = ["table"]


def table(
    number: Annotated[tuple[str, ...], MANY],
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: BootstrapScoreOptions = BootstrapScoreOptions(),
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "markdown",
    out: Annotated[Path | None, Parameter(metavar="DIR")] = None,
) -> int:
    """Print the paper's tables.

    Each cell has the published value and, where the source holds runs, the recomputed one with its interval (a
    bootstrap over seeds unless --interval names another).

    Args:
        number: 1 to 17, or all
        format: how they are written
        out: write table01.md, ... there instead of printing
    """
    numbers = _numbers(number)
    models = [name for one in numbers for name in TABLES.get(one, ())]
    opened = source.open(models, need_instances=score.needs_instances) if models else PUBLISHED
    scores = None if opened.is_published else opened.scores(score.settings())
    form = FORMATS[format]
    for one in numbers:
        text = form.show(build_table(one, scores, source=opened))
        if out is None:
            sys.stdout.write(text + ("\n" if one != numbers[-1] else ""))
        else:
            path = out / f"table{one:02d}.{form.ending}"
            write_text(path, text)
            sys.stdout.write(f"{path}\n")
    return 0


def _numbers(words: tuple[str, ...]) -> list[int]:
    if words == ("all",):
        return list(table_numbers())
    for word in words:
        if not word.isdecimal():
            raise UserError(f"{word!r} is no table; give numbers from 1 to {max(table_numbers())}, or all")
    return [int(word) for word in words]
