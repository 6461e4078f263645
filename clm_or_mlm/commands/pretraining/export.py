"""`python -m pretraining export`: a checkpoint as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["export"]


def export(
    checkpoint: Annotated[Path, Parameter(metavar="CHECKPOINT")],
    /,
    *,
    out: Annotated[Path, Parameter(metavar="DIR")],
    data: Annotated[Path, Parameter(metavar="DIR")],
) -> None:
    """Write a checkpoint as a Hugging Face folder.

    Args:
        checkpoint: a step-... folder of a stage
        out: the folder
        data: its shards, for the tokenizer
    """
    from pretraining.training.train import export_checkpoint

    export_checkpoint(checkpoint, data, out)
