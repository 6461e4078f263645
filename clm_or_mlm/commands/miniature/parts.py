"""`python -m miniature random` and `sample`: commands of single jobs of a miniature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from miniature.forms import FORMS, get_form

__all__ = ["random", "sample"]


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

    write_sample(get_form(form), dataset, data, out)
