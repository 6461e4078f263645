"""Options that several commands share: where scores come from, which rule counts, where the output goes.

How runs become scores is `Settings` (`analysis.evidence.settings`). What opens a source is imported when one is opened,
so that help is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import STANDARD
from common.cli import MANY, shared_options
from pretraining.models import Model
from pretraining.paper_models import find_model

if TYPE_CHECKING:
    from analysis.sources import Source

SOURCES = """\
Where scores come from (--source):

  published        the paper's printed tables, without a download (default)
  released         the authors' runs, which `clm-or-mlm fetch-released` fetches
  miniature        the package's toy study, whose models are not the paper's
  curves           the same at three lengths, each model pretrained five times
  PATH             a run store of your own, or a runs table that `ingest` wrote
                   (with scores of single instances in `instances` next to it)
  standard:PATH    the same runs by the field's usual metrics, not the paper's

--add-model NAME   accepts models outside the paper's naming scheme whose runs
                   have no run.json, by name or pattern, several times
--study FILE       accepts a study file's models, shown by their stages
--metric NAME      takes another metric recorded in run.json

How runs become scores:

--selection        seed: each seed takes the learning rate with its best
                   validation score (the paper's rule); mean: one rate for a
                   model and dataset
--interval         pooled: a bootstrap t over the seeds of all models (the
                   default for runs); t: Student's (the default for printed
                   cells); bootstrap: percentile; crossed: seeds and test
                   instances; paper: the paper's 1.96 sd / sqrt(n)

More: docs/run-store.md, docs/claims.md."""
"""What `clm-or-mlm help sources` prints."""

_RULE = "what the learning rate is chosen for"
SelectionRule = Annotated[str, Parameter(choices=tuple(SELECTIONS), help=_RULE)]
"""A rule for the learning rate."""

OutFile = Annotated[
    Path | None,
    Parameter(metavar="FILE", help="write to this file instead of standard output"),
]
"""Where a command writes instead of to standard output."""


@shared_options("where the scores come from")
@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Where the scores come from."""

    source: Annotated[str, Parameter(metavar="SOURCE")] = "published"
    """published, released, miniature, curves or a path (`clm-or-mlm help sources`)"""
    add_model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = ()
    """also accept models outside the paper's naming scheme whose runs have no run.json, by name or pattern"""
    study: Annotated[Path | None, Parameter(metavar="FILE", show_default=False)] = None
    """also accept the models of this study file (TOML)"""
    metric: Annotated[str, Parameter(metavar="NAME", show_default=False)] = ""
    """another metric of run.json, such as your own (default: the source's)"""

    def open(
        self, models: Sequence[str] | None = None, *, need_instances: bool = False
    ) -> Source:
        """Return the source; `models` and `need_instances` as in `analysis.sources.open_source`."""
        from analysis.sources import open_source
        from analysis.store.runs_table import model_error

        prefix = f"{STANDARD}:"
        # A metric's name is a protocol of its own (`Source.protocol`), and counts before the prefix `standard:`. None:
        # the source decides.
        protocol = self.metric or None
        if protocol is None and self.source.startswith(prefix):
            protocol = STANDARD
        # By name, the models of the file `self.study`; empty without one.
        study: Mapping[str, Model] = {}
        if self.study is not None:
            # Imported here: only a study of one's own needs it.
            from pretraining.plan.study_plan import load_study

            study = load_study(self.study).models

        # Models whose stages only the study's file knows; the other names say theirs (`610m-clm-10k-mlm40-42k`).
        own_models = {}
        add_models = list(self.add_model)
        for name, model in study.items():
            # `find_model` reads the stages from a name, and knows nothing of a name that does not say them.
            if find_model(name) is None:
                own_models[name] = model
            # A run store refuses names outside the paper's scheme (`model_error` says why), unless they are added. Such
            # a name may still say its stages, as one with another size does.
            if model_error(name) is not None:
                # The pattern adds the other pretrainings of the model: NAME-s1, NAME-s2 and so on.
                add_models += [name, f"{name}-s[1-9]*"]

        opened = open_source(
            self.source.removeprefix(prefix),
            need_instances=need_instances,
            add_models=add_models,
            models=models,
            protocol=protocol,
        )

        # `added_models` has only what the user gave as --add-model: whoever opens the source again with --study gets
        # the models of the study's file from there.
        return replace(
            opened,
            study=self.study,
            study_models=own_models,
            added_models=self.add_model,
        )
