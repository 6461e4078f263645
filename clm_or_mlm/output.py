"""Where a command puts what it has to say: a file, or standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.files import write_bytes

__all__ = ["OutFile", "write_or_print"]

OutFile = Annotated[Path | None, Parameter(metavar="FILE")]
"""Where a command writes instead of to standard output."""


def write_or_print(content: str | bytes, out: Path | None) -> None:
    """Write a file, or without one the text to standard output."""
    content = content.encode("utf-8") if isinstance(content, str) else content
    if out is not None:
        write_bytes(out, content)
    else:
        sys.stdout.write(content.decode("utf-8"))
