"""Options that several commands share: where scores come from, how runs become scores, where the output goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.evidence.intervals import INTERVALS
from analysis.evidence.settings import DEFAULT_SEED, RESAMPLES, Settings
from analysis.sources import Source, open_source
from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import STANDARD
from common.cli import MANY, shared_options

__all__ = ["BootstrapOptions", "OutFile", "ScoreOptions", "Selection", "SourceOptions"]

_RULE = "choice of the learning rate: one per seed (seed), per model and dataset (mean), or per model and task (pooled)"
Selection = Annotated[str, Parameter(choices=tuple(SELECTIONS), help=_RULE)]
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

    metric: Annotated[str, Parameter(metavar="NAME", show_default=False)] = ""
    """score the runs by another metric recorded in run.json, such as your own (default: the source's usual metric)"""

    def open(self, models: Sequence[str] | None = None, *, need_instances: bool = False) -> Source:
        """Return the source; `models` and `need_instances` as in `analysis.sources.open_source`."""
        is_standard = self.source.startswith(prefix := f"{STANDARD}:")
        return open_source(
            self.source.removeprefix(prefix),
            need_instances=need_instances,
            add_models=self.add_model,
            models=models,
            protocol=self.metric or (STANDARD if is_standard else None),
        )


@shared_options("from runs to scores")
@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How runs become scores."""

    selection: Annotated[str, Parameter(choices=tuple(SELECTIONS))] = "seed"
    """how the learning rate is chosen on validation scores: one per seed (seed, the paper's rule), per model and
    dataset (mean), or per model and task (pooled)"""
    interval: Annotated[str, Parameter(choices=tuple(INTERVALS), show_default=False)] = ""
    """kind of 95 % interval (docs/intervals.md); default: pooled for runs, t for the published cells; crossed covers
    seeds and test instances, the others only seeds"""

    def needs_instances(self) -> bool:
        """Return whether an interval is named that is made of per-instance scores; the defaults are not."""
        return bool(self.interval) and INTERVALS[self.interval].needs_instances

    def settings(self, source: Source) -> Settings:
        """Return the settings of these options, with the source's default interval where none is named.

        Raises:
            UserError: a selection rule that the source cannot give.
        """
        return source.settled(Settings(**dataclasses.asdict(self)))


@shared_options("from runs to scores")
@dataclass(frozen=True, kw_only=True)
class BootstrapOptions(ScoreOptions):
    """How runs become scores, and how a bootstrap draws."""

    resamples: int = RESAMPLES
    """number of bootstrap resamples"""
    seed: int = DEFAULT_SEED
    """random seed of the bootstrap"""
