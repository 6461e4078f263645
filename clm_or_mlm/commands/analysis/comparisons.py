"""`clm-or-mlm compare`, `best`, `sizes`, `certify`: models against each other, runs against a reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.comparisons import best_report, report
from analysis.comparisons.best import best_of
from analysis.comparisons.comparison import compare as compared
from analysis.comparisons.replication import replication_document, replication_of
from analysis.comparisons.sizes import sizes_document
from analysis.sources import open_source
from clm_or_mlm.names import ModelNames
from clm_or_mlm.options import OutFile, ScoreOptions, SourceOptions
from common.cli import MANY
from common.errors import UserError
from common.tables import PRINTED, write
from pretraining.model_names import MODELS

__all__ = ["best", "certify", "compare", "sizes"]

_HOW = "how they are compared"


def compare(
    models: ModelNames = (),
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: ScoreOptions = ScoreOptions(),
    replicates: Annotated[tuple[str, ...], Parameter(metavar="PATTERN", group=_HOW)] = (),
    margin: Annotated[float | None, Parameter(metavar="POINTS", group=_HOW)] = None,
    rho: Annotated[float, Parameter(group=_HOW)] = 0.0,
    format: Annotated[str, Parameter(choices=(*PRINTED, "latex"))] = "text",
    out: OutFile = None,
) -> None:
    """Compare two models, or rank many.

    For two: the difference on every dataset, every task and over all tasks, with interval, p, P(A > B), the region of
    practical equivalence and the seeds that are needed. For more: mean ranks with Friedman's test and Nemenyi's
    critical difference, and every pair. A model without runs in the source takes the paper's printed cells.
    Intervals and p's are by the pooled bootstrap t for runs and by Welch's t for printed cells, unless --interval names
    another (crossed: over seeds and test instances).

    examples:
      clm-or-mlm compare 610m-mlm40-42k 610m-clm-42k
      clm-or-mlm compare mine 610m-mlm40-42k --source results/ --add-model mine
      clm-or-mlm compare '*' --source released
      clm-or-mlm compare 610m-clm-42k --replicates mine --source results/ --add-model 'mine*'

    Args:
        models: names, or shell patterns of models of the source
        replicates: a model that is compared with its other pretrainings (NAME with NAME-s1, NAME-s2) as one arm, or a
            shell pattern of such: its spread is over pretrainings, each the mean of its fine-tuning seeds
        margin: differences below it are practically nil (default: 0.5 SC, 0.25 TC, 1 QA, 0.5 IR)
        rho: correlation between seeds that the posterior allows for
        format: how it is written
    """
    if margin is not None and not margin > 0:
        raise UserError(f"--margin {margin:g}: a region of practical equivalence is wider than nothing")
    if not 0 <= rho < 1:
        raise UserError(f"--rho {rho:g}: a correlation between seeds is from 0 to below 1")
    known = set(models) <= set(MODELS) and not replicates  # patterns take what is there
    opened = source.open(models if known else None, need_instances=score.needs_instances())
    settings = score.settings(opened)
    result = compared(opened, models, settings, replicates=replicates, margin=margin, rho=rho)
    write(report.comparison_document(result), format, out)


def best(
    question: Annotated[tuple[str, ...], MANY] = (),
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: ScoreOptions = ScoreOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how likely each split, masking ratio, objective or model is the best, on every dataset and task.

    By draws of every model's mean whose middle 95 % are the source's interval (pooled for runs, t for the published
    cells, unless --interval names another; crossed is over test instances too).

    examples:
      clm-or-mlm best split
      clm-or-mlm best --source released --format csv

    Args:
        question: split, ratio, objective or model (default: all)
        format: how it is written
    """
    opened = source.open(need_instances=score.needs_instances())
    answer = best_of(opened, score.settings(opened), question)
    write(best_report.best_document(answer), format, out)


def sizes(
    *,
    source: SourceOptions = SourceOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how often a smaller model orders two recipes as the larger one does, by dataset.

    Of the four masking ratios and CLM at 210M, 610M and 1B; and which three datasets keep the decisions of all. The
    figure: clm-or-mlm figure sizes.

    example: clm-or-mlm sizes

    Args:
        format: how it is written
    """
    write(sizes_document(source.open()), format, out)


def certify(
    *,
    source: SourceOptions = SourceOptions(),
    reference: Annotated[str, Parameter(metavar="NAME|PATH")] = "released",
    pretrained: bool = False,
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> int:
    """Print whether runs are a replication of a reference; exit code 1 if they are not.

    The mean of each cell, at every learning rate, has to be within what the reference's seeds predict, and the last
    validation losses within what its pretrainings do; Holm's adjustment lets one honest replication in twenty fail.

    examples:
      clm-or-mlm certify --source results/ --reference released
      clm-or-mlm certify --source mini/store --reference miniature --pretrained --logs mini/pretrained

    Args:
        reference: released, miniature, a run store or a runs table
        pretrained: the models were pretrained again, not downloaded
        logs: training logs of the models
        format: how it is written
    """
    opened, known = source.open(), open_source(reference)
    theirs = None if known.stand_ins is None else known.stand_ins.logs
    if logs is not None and theirs is None:
        raise UserError(f"--logs {logs}: {known.label} has no training logs to compare with; leave it out")
    folders = [logs, theirs] if logs is not None and theirs is not None else []
    found = replication_of(opened, known, pretrained=pretrained, logs=folders)
    write(replication_document(found, opened, known), format, out)
    return int(bool(found.faults))
