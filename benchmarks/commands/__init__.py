"""Evaluate encoders on the paper's twelve datasets; here is what several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from benchmarks.protocol import DATASETS, TASKS
from common.cli import MANY, offered

__all__ = ["DATA", "DatasetName", "Definitions"]

DATA = Path("data")
"""Default folder of the datasets."""

Definitions = Annotated[tuple[Path, ...], MANY, Parameter(metavar="FILE")]
"""Files that define datasets, or names of ready-made ones."""

if TYPE_CHECKING:
    DatasetName = str
else:
    DatasetName = offered([*DATASETS, *TASKS])
