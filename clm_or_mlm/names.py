"""Arguments that may be any text, of which the shell's completion offers the names that the package knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from benchmarks.protocol import DATASETS, TASKS
from common.cli import MANY
from pretraining.models import FIGURES, MODELS, TABLES

__all__ = ["DatasetName", "ModelName", "ModelNames", "ReleasedName", "TableNumber", "offered"]


def offered(names: Iterable[object]) -> Any:
    """Return the type of such an argument."""
    return Annotated[Literal[tuple(map(str, names))] | str, Parameter(show_choices=False)]


if TYPE_CHECKING:
    ModelName = str
    ModelNames = tuple[str, ...]
    DatasetName = str
    TableNumber = str
    ReleasedName = str
else:
    ModelName = offered(MODELS)
    # What the items are annotated with is not the option's.
    ModelNames = Annotated[tuple[ModelName, ...], MANY, Parameter(show_choices=False)]
    DatasetName = offered([*DATASETS, *TASKS])
    TableNumber = offered([*TABLES, "all"])
    ReleasedName = offered([
        *(f"figure{number}" for number in FIGURES), *(f"table{number}" for number in TABLES), "all", *MODELS
    ])  # fmt: skip
