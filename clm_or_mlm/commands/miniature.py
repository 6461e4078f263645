"""The commands of `python -m miniature`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from common.cli import shared_options
from common.errors import UserError
from miniature.data_source import get_data_source
from miniature.forms import FORMS

__all__ = ["random", "run", "sample", "show"]


@shared_options("the miniature")
@dataclass(frozen=True, kw_only=True)
class MiniatureOptions:
    """Which miniature, from what, and where."""

    form: Annotated[str, Parameter(metavar="|".join(FORMS))] = "cpu"
    """quick: one size and the models that the checks need, minutes; seeds: quick with five pretrainings of MLM and of
    CLM; cpu: the paper's design at three sizes, on two idle cores; long: one size, ten times as many steps; gpu: the
    design of cpu at 10 to 60 M parameters"""
    data: Annotated[str | None, Parameter(metavar="DIR|hub")] = None
    """folder of original files (docs/miniature.md), or hub, with network; made-up ones without"""
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("build/miniature")
    """folder that holds one folder a form"""
    example: Annotated[Path | None, Parameter(metavar="DIR")] = None
    """write runs table and curves there too, small enough to keep"""
    until: Literal["report", "runs"] = "report"
    """runs: no tables and figures"""


def run(*, workers: int = 2, options: MiniatureOptions = MiniatureOptions()) -> None:
    """Make a miniature, or resume it: pretrain, fine-tune, analyse and draw at toy scale.

    Args:
        workers: jobs side by side
    """
    form, source = FORMS[options.form], get_data_source(options.data)
    if workers < 1:
        raise UserError(f"--workers {workers}: at least one process is needed")
    from miniature.pipeline import make_miniature

    report = options.until == "report"
    summary = make_miniature(
        form, source, options.out, workers=workers, report=report, example=options.example
    )
    sys.stdout.write(summary)


def show(*, options: MiniatureOptions = MiniatureOptions()) -> None:
    """Analyse what has been made of a miniature so far, all of its runs or not."""
    from miniature.pipeline import show_miniature

    form, source = FORMS[options.form], get_data_source(options.data)
    report = options.until == "report"
    sys.stdout.write(show_miniature(form, source, options.out, report=report, example=options.example))


def random(
    *,
    study: Annotated[Path, Parameter(metavar="FILE")],
    data: Annotated[Path, Parameter(metavar="DIR")],
    out: Annotated[Path, Parameter(metavar="DIR")],
) -> None:
    """Write the middle size with the initial weights that all its models start from, untrained.

    Args:
        study: study file
        data: shards, for the tokenizer
        out: model folder
    """
    from miniature.untrained import write_random

    write_random(study, data, out)


def sample(
    dataset: str,
    /,
    *,
    form: Annotated[str, Parameter(metavar="|".join(FORMS))],
    data: Annotated[Path, Parameter(metavar="DIR")],
    out: Annotated[Path, Parameter(metavar="DIR")],
) -> None:
    """Take as many rows of a dataset as a form needs.

    Args:
        dataset: the dataset's name
        form: the miniature's form
        data: folder with the whole dataset
        out: folder of the samples
    """
    from miniature.sample import write_sample

    write_sample(FORMS[form], dataset, data, out)
