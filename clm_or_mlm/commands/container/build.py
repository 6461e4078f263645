"""`python -m container build`: everything pinned, downloaded here, checked, then built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from container.build import build as build_image
from container.build import get_image

__all__ = ["build"]


def build(
    image: str,
    /,
    *,
    mirror: Annotated[str | None, Parameter(metavar="URL")] = None,
    relock: bool = False,
    flash_attn: Annotated[str | None, Parameter(metavar="WHEEL")] = None,
    no_test: bool = False,
    compression: str = "zstd",
    out: Annotated[Path | None, Parameter(metavar="FILE")] = None,
) -> None:
    """Build an image into build/; the old one stays until the new one is whole.

    Args:
        image: analysis or full
        mirror: Debian mirror ({snapshot} is replaced by the date)
        relock: record the Debian packages the mirror has today
        flash_attn: a flash-attn wheel to put into the full image
        no_test: leave the image's own test out
        compression: zstd, or gzip for a site whose Apptainer or kernel is too old for it
        out: where it goes (build/IMAGE.sif)
    """
    path = build_image(
        get_image(image),
        mirror=mirror,
        relock=relock,
        flash_attn=flash_attn,
        test=not no_test,
        compression=compression,
        target=out,
    )
    sys.stdout.write(f"{path}  {path.stat().st_size / 1e6:.0f} MB\n")
