"""Options that several commands share: where scores come from, and how runs become scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from analysis.sources import Source, open_source
from analysis.statistics.intervals import DEFAULT_SEED, INTERVALS, RESAMPLES
from analysis.statistics.scores import Settings
from analysis.statistics.selection import SELECTIONS
from common.cli import MANY, shared_options

__all__ = [
    "BootstrapScoreOptions",
    "ClaimScoreOptions",
    "FigureScoreOptions",
    "ScoreOptions",
    "Selection",
    "SourceOptions",
]

_SCORES = "from runs to scores"

Selection = Annotated[str, Parameter(choices=tuple(SELECTIONS))]
"""A rule for the learning rate."""


@shared_options("where the scores come from")
@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the scores come from."""

    source: Annotated[str, Parameter(metavar="published|released|miniature|PATH")] = "published"
    """the paper's tables, the authors' released runs, the miniature that comes with the package, or the path of a
    run store or runs table"""
    protocol: Literal["paper", "standard"] | None = None
    """of a run store, whose metrics: the paper's (default), or the field's (standard); docs/run-store.md"""
    add_model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = ()
    """take a model whose name is outside the released scheme (a shell pattern, may be repeated)"""
    instances: Annotated[Path | None, Parameter(metavar="PATH")] = None
    """per-instance scores that belong to a runs table"""

    def open(self, models: Sequence[str] | None = None, *, need_instances: bool = False) -> Source:
        """Return the source; `models` and `need_instances` as in `analysis.sources.open_source`."""
        return open_source(
            self.source,
            instances=self.instances,
            need_instances=need_instances,
            add_models=self.add_model,
            models=models,
            protocol=self.protocol,
        )


@shared_options(_SCORES)
@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How runs become scores."""

    selection: Selection = "seed"
    """how the learning rate is chosen by validation score: for each seed on its own (seed, the paper's rule), one for
    a model and dataset (mean), or one for a model and task (pooled)"""
    interval: Annotated[str, Parameter(choices=tuple(INTERVALS))] = "paper"
    """kind of 95 % interval"""
    resamples: int = RESAMPLES
    """resamples of a bootstrap"""
    seed: int = DEFAULT_SEED
    """seed of a bootstrap's generator"""

    @property
    def needs_instances(self) -> bool:
        """Whether the interval, as named, is made of per-instance scores."""
        return not self.interval or INTERVALS[self.interval].needs_instances

    def settings(self, default_interval: str = "") -> Settings:
        """Return the settings of these options, with `default_interval` where none is named."""
        return Settings(
            selection=self.selection,
            interval=self.interval or default_interval,
            resamples=self.resamples,
            seed=self.seed,
        )


@shared_options(_SCORES)
@dataclass(frozen=True, kw_only=True)
class BootstrapScoreOptions(ScoreOptions):
    """The same with a bootstrap interval where none is named."""

    interval: Annotated[str, Parameter(choices=tuple(INTERVALS))] = "bootstrap"
    """kind of 95 % interval"""


@shared_options(_SCORES)
@dataclass(frozen=True, kw_only=True)
class ClaimScoreOptions(ScoreOptions):
    """The same with the interval left open (empty): claims are tested with the best that the source allows."""

    interval: Annotated[str, Parameter(choices=tuple(INTERVALS), show_default=False)] = ""
    """test and 95 % interval: paper (normal), t, bootstrap or bca (over seeds), hierarchical (seeds and instances);
    default: hierarchical where instances are known, else t"""


@shared_options(_SCORES)
@dataclass(frozen=True, kw_only=True)
class FigureScoreOptions(ScoreOptions):
    """The same with the interval left open (empty): to the paper's, or to what suits a supplementary figure."""

    interval: Annotated[str, Parameter(choices=tuple(INTERVALS), show_default=False)] = ""
    """kind of 95 % interval (default: paper; of claims, multiverse and coverage the one that suits the source)"""
