"""Options that are models' names: any text, of which the shell's completion offers the paper's models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from common.cli import MANY, offered
from pretraining.paper_models import MODELS

if TYPE_CHECKING:
    ModelName = str
    ModelNames = tuple[str, ...]
else:
    ModelName = offered(MODELS)
    # Repeated for the option: a parameter that annotates the items does not count for the tuple.
    ModelNames = Annotated[tuple[ModelName, ...], MANY, Parameter(show_choices=False)]
