"""Measure encoders on the paper's twelve datasets."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY

__all__ = ["DATA", "Definitions"]

DATA = Path("data")
"""Folder of the datasets where none is named."""

Definitions = Annotated[tuple[Path, ...], MANY, Parameter(metavar="FILE")]
"""Files with datasets of one's own, or names of ready ones."""
