"""The room on top: the commands, the report, and everything a source allows in one go.

What a script or a notebook needs most; each name is imported when it is used:

- `open_source("published")`, or `"released"` or a path: a source, with `.scores(Settings(interval="bootstrap"))`
- `published_scores()`: the paper's printed cells as a table
- `build_table(10)`: one of the paper's tables
- `assess(source, Settings(interval="t"))`: a verdict for each finding of the paper
- `audit(source)`: every published cell against the source's runs
- `compare(source, ["610m-mlm40-42k", "610m-clm-42k"], Settings(interval="t"))`: two models, or many
- `draw_figures([FIGURES["3"].load()], Inputs(source=source), folder)`: the paper's figures
"""

import importlib
from typing import Any

_MODULES = {
    "FIGURES": "paper_figures.registry",
    "Inputs": "paper_figures.inputs",
    "Settings": "analysis.statistics.scores",
    "assess": "analysis.claims.assessment",
    "audit": "analysis.tables.audit",
    "build_table": "analysis.tables.build",
    "compare": "analysis.comparisons.comparison",
    "draw_figures": "paper_figures.output.results",
    "open_source": "analysis.sources",
    "published_scores": "analysis.statistics.scores",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
