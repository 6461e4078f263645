"""`python -m container run IMAGE WORDS...`: a room in an image; the words after the image are the command's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clm_or_mlm.commands.container import WORD
from container.build import get_image
from container.launch import launch

__all__ = ["run"]


def run(
    image: str,
    /,
    *,
    bind: Annotated[tuple[str, ...], Parameter(metavar="DIR")] = (),
    words: Annotated[tuple[str, ...], Parameter(name=WORD, show=False)] = (),
) -> None:
    """Run a room in an image with nothing of the user's leaking in.

    example: python -m container run analysis reproduce-figure3 --source published

    Args:
        image: analysis, full, or an image file; its command follows
        bind: another folder to show inside (may be repeated)
    """
    file = Path(image)
    path = file if file.suffix == ".sif" else get_image(image).path
    launch(path.resolve(), words, bind)
