"""`python -m container test` and `verify`: whether an image works, and whether it is what the locks say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.errors import UserError
from container import verify as verification
from container.apptainer import stream
from container.build import get_image

__all__ = ["test", "verify"]


def test(image: str, /) -> None:
    """Run an image's own test: imports, a figure, training.

    Args:
        image: analysis or full
    """
    path = get_image(image).path
    if not path.is_file():
        raise UserError(f"{path} does not exist; build it: python -m container build {image}")
    for line in stream(["test", "--no-home", "--cleanenv", str(path)]):
        sys.stdout.write(line)


def verify(
    image: str,
    /,
    *,
    file: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    against: Annotated[Path | None, Parameter(metavar="FILE")] = None,
) -> int:
    """Compare an image with its record, the locks and the commit; exit code 1 when it is another one.

    Args:
        image: analysis or full
        file: the image file (build/IMAGE.sif)
        against: another build, for equal package sets
    """
    one = get_image(image)
    path = file or one.path
    findings = verification.verify(one, path)
    if against is not None:
        findings.append(verification.compare(path, against))
    sys.stdout.write(verification.report(findings))
    return int(any(finding.problems and finding.fatal for finding in findings))
