"""Evaluate encoders on the paper's twelve datasets."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY

__all__ = ["DATA", "Definitions"]

DATA = Path("data")
"""Default folder of the datasets."""

Definitions = Annotated[tuple[Path, ...], MANY, Parameter(metavar="FILE")]
"""Files that define datasets, or names of ready-made ones."""
