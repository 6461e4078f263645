"""The room on top: the commands, the report, and the package's Python names.

    import clm_or_mlm as cm
    cm.scores("published")                          # a frame: mean and interval of each model and dataset
    cm.figure("3", "results/", task="SC", ax=ax)    # a panel of Figure 3 from your own runs, on your own axes

Each name is imported when it is used; `clm_or_mlm.api` has them all:

- `load`, `Source`: open a source of scores by name, path or frame
- `runs`, `scores`, `table`: frames of fine-tunings, of means with intervals, of one of the paper's tables
- `claims`, `findings`, `explain`: a verdict for each finding of the paper; the parts of one; every number behind it
- `audit`: every published cell against the source's runs
- `sensitivity`: what would overturn each verdict
- `compare`: two models or more, on every dataset
- `compare_scores`: anybody's two lists of scores by seed
- `figure`: any of the figures, or one panel on axes of your own
- `models`, `plan`, `datasets`: what was trained, what that takes, and what it was measured on
- `UserError`: what every mistake of a caller raises, in a sentence that says what to do
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "Source",
    "UserError",
    "audit",
    "claims",
    "compare",
    "compare_scores",
    "datasets",
    "explain",
    "figure",
    "findings",
    "load",
    "models",
    "plan",
    "runs",
    "scores",
    "sensitivity",
    "table",
]

__version__ = "0.2.0"
"""The package's version, the one place where it is written."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("clm_or_mlm.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
