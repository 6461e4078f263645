"""Options that several commands share: where scores come from, which rule counts, where the output goes.

How runs become scores is `Settings` (`analysis.evidence.evidence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.sources import Source, open_source
from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import STANDARD
from common.cli import MANY, shared_options
from pretraining.models import OWN, Model, find_model

__all__ = ["OutFile", "SelectionRule", "SourceOptions"]

_RULE = "choice of the learning rate: one per seed (seed), per model and dataset (mean), or per model and task (pooled)"
SelectionRule = Annotated[str, Parameter(choices=tuple(SELECTIONS), help=_RULE)]
"""A rule for the learning rate."""

OutFile = Annotated[
    Path | None, Parameter(metavar="FILE", help="write to this file instead of standard output")
]
"""Where a command writes instead of to standard output."""


@shared_options("where the scores come from")
@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the scores come from."""

    source: Annotated[str, Parameter(metavar="published|released|miniature|[standard:]PATH")] = "published"
    """published: the paper's tables; released: the authors' runs, once fetched; miniature: the package's toy study;
    PATH: a run store or runs table (a table's per-instance scores come from a folder 'instances' next to it, if any);
    standard:PATH: the field's usual metrics, not the paper's (docs/run-store.md)"""
    add_model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = ()
    """also accept models of this name, even outside the paper's naming scheme (name or pattern; may be repeated)"""
    study: Annotated[Path | None, Parameter(metavar="FILE", show_default=False)] = None
    """a study file (TOML): also accept its models, drawn and tabulated by their stages (docs/pretraining.md)"""
    metric: Annotated[str, Parameter(metavar="NAME", show_default=False)] = ""
    """score the runs by another metric recorded in run.json, such as your own (default: the source's usual metric)"""

    def open(self, models: Sequence[str] | None = None, *, need_instances: bool = False) -> Source:
        """Return the source; `models` and `need_instances` as in `analysis.sources.open_source`."""
        is_standard = self.source.startswith(prefix := f"{STANDARD}:")
        study: Mapping[str, Model] = {}
        if self.study is not None:
            from pretraining.plan.study_plan import load_study  # not for those without a study of their own

            study = load_study(self.study).models
        own = {name: model for name, model in study.items() if name in OWN or find_model(name) is None}
        OWN.update(own)
        return open_source(
            self.source.removeprefix(prefix),
            need_instances=need_instances,
            add_models=(*self.add_model, *own, *(f"{name}-s[1-9]*" for name in own)),
            models=models,
            protocol=self.metric or (STANDARD if is_standard else None),
        )
