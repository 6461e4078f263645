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
    replicates: Annotated[tuple[str, ...], Parameter(metavar="PATTERN", group=_HOW, show_default=False)] = (),
    margin: Annotated[float | None, Parameter(metavar="POINTS", group=_HOW)] = None,
    rho: Annotated[float, Parameter(group=_HOW)] = 0.0,
    format: Annotated[str, Parameter(choices=(*PRINTED, "latex"))] = "text",
    out: OutFile = None,
) -> None:
    """Compare two models, or rank many.

    For two models, it prints the difference on every dataset and task and over all tasks, with its interval and
    p-value, P(A > B), the probability of practical equivalence and the number of seeds needed to detect it. For more
    models, it prints mean ranks with Friedman's test and Nemenyi's critical difference, and the top-ranked model minus
    each of the others. For a model without runs in the source, the paper's printed cells are used. Intervals and
    p-values come from the pooled bootstrap t for runs and from Welch's t for printed cells, unless --interval names
    another (crossed covers seeds and test instances).

    examples:
      clm-or-mlm compare 610m-mlm40-42k 610m-clm-42k
      clm-or-mlm compare mine 610m-mlm40-42k --source results/ --add-model mine
      clm-or-mlm compare '*' --source released
      clm-or-mlm compare 610m-clm-42k --replicates mine --source results/ --add-model 'mine*'

    Args:
        models: names or shell patterns of models in the source
        replicates: treat this model's pretrainings (NAME, NAME-s1, NAME-s2) as one arm, whose spread is over
            pretrainings, each averaged over its fine-tuning seeds; name or shell pattern
        margin: smaller differences count as practically equivalent (default: 0.5 SC, 0.25 TC, 1 QA, 0.5 IR)
        rho: correlation between seeds that the posterior allows for
        format: output format
    """
    if margin is not None and not margin > 0:
        raise UserError(f"--margin {margin:g}: a region of practical equivalence must be wider than 0")
    if not 0 <= rho < 1:
        raise UserError(f"--rho {rho:g}: a correlation between seeds must be at least 0 and below 1")
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
    """Print how likely each split, masking ratio, objective or model is to be the best, on every dataset and task.

    The probabilities come from draws of every model's mean whose middle 95 % match the model's interval (pooled for
    runs, t for the published cells, unless --interval names another; crossed covers test instances, too).

    examples:
      clm-or-mlm best split
      clm-or-mlm best --source released --format csv

    Args:
        question: split, ratio, objective or model (default: all)
        format: output format
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
    """Print how often smaller and larger models agree on the better of two pretraining recipes, by dataset.

    It compares the four masking ratios and CLM at 210M, 610M and 1B, and finds the three datasets that lead to the same
    decisions as all. `clm-or-mlm figure sizes` draws the result.

    example: clm-or-mlm sizes

    Args:
        format: output format
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
    """Print whether runs replicate a reference; exit code 1 if they do not.

    The mean of each cell, at every learning rate, must be in the prediction interval from the reference's seeds, and
    the last validation losses in that from its pretrainings. With Holm's adjustment, one honest replication in twenty
    fails.

    examples:
      clm-or-mlm certify --source results/ --reference released
      clm-or-mlm certify --source mini/store --reference miniature --pretrained --logs mini/pretrained

    Args:
        reference: released, miniature, a run store or a runs table
        pretrained: the models were pretrained again, not downloaded
        logs: training logs of the models
        format: output format
    """
    opened, known = source.open(), open_source(reference)
    theirs = None if known.stand_ins is None else known.stand_ins.logs
    if logs is not None and theirs is None:
        raise UserError(
            f"--logs {logs}: {known.label} has no training logs to compare with; leave --logs out"
        )
    folders = [logs, theirs] if logs is not None and theirs is not None else []
    found = replication_of(opened, known, pretrained=pretrained, logs=folders)
    write(replication_document(found, opened, known), format, out)
    return int(bool(found.faults))
