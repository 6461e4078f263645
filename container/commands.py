"""Build, run and check the Apptainer images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.errors import UserError
from container import image as images
from container.check_lines import report_lines
from container.image import IMAGES, Image, ImageName
from container.runtime import launch, stream


def build(
    image: ImageName,
    /,
    *,
    mirror: Annotated[str | None, Parameter(metavar="URL")] = None,
    relock: bool = False,
) -> None:
    """Build an image in build/; any old image is kept until the new one is complete.

    examples:
      clm-or-mlm build analysis
      clm-or-mlm build full --relock

    Args:
        image: analysis or full
        mirror: Debian mirror (default: $DEBIAN_MIRROR, or this machine's), with {snapshot} for the lock's date
        relock: lock the Debian packages that the mirror has today, instead of requiring those in the lock
    """
    path = images.build(Image(name=image), mirror=mirror, relock=relock)
    sys.stdout.write(f"{path}  {path.stat().st_size / 1e6:.0f} MB\n")


def run(
    image: str,
    /,
    *words: Annotated[str, Parameter(metavar="COMMAND", allow_leading_hyphen=True)],
    bind: Annotated[tuple[str, ...], Parameter(metavar="DIR", show_default=False)] = (),
) -> None:
    """Run a command in an image, without your home folder and most of your environment variables.

    Secrets such as HF_TOKEN are passed only if CLM_OR_MLM_PASS names them.

    examples:
      clm-or-mlm container run analysis reproduce-figure3 --source published
      clm-or-mlm container run analysis -- table --help

    Args:
        image: analysis, full, or an image file
        words: the command to run in the image; put -- before it if it has options such as --help
        bind: another folder to mount in the image (may be repeated)
    """
    # The name of one of the two images, or the path of any image file.
    path = Path(image)
    for known in IMAGES:
        if known.name == image:
            path = known.path
    launch(path.resolve(), words, bind)


def test(image: ImageName, /) -> None:
    """Run an image's own tests: imports, a figure and, in the full image, training.

    example: clm-or-mlm test analysis

    Args:
        image: analysis or full
    """
    path = Image(name=image).path
    if not path.is_file():
        raise UserError(
            f"{path} does not exist; build it with `clm-or-mlm build {image}`"
        )
    # As in `run`, the image sees neither the user's home nor the user's variables.
    for line in stream(["test", "--no-home", "--cleanenv", str(path)]):
        sys.stdout.write(line)


def verify(
    image: ImageName,
    /,
    *,
    file: Annotated[Path | None, Parameter(metavar="FILE")] = None,
) -> int:
    """Compare an image with its build record, the locks and the commit; exit code 1 if they differ.

    example: clm-or-mlm container verify analysis --file elsewhere/analysis.sif

    Args:
        image: analysis or full
        file: the image file (default: build/IMAGE.sif)
    """
    text, code = report_lines(images.verify_image(Image(name=image), file))
    sys.stdout.write(text)
    return code
