"""`python -m container doctor`: wrong site settings, found before a job is submitted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from container.doctor import examine, report

__all__ = ["doctor"]


def doctor(*, study: Annotated[Path, Parameter(metavar="DIR")] = Path()) -> int:
    """Find wrong site settings before a job is submitted; exit code 1 when jobs would fail.

    Args:
        study: folder the study will be in
    """
    answers = examine(study)
    sys.stdout.write(report(answers))
    return int(any(answer.status == "fail" for answer in answers))
