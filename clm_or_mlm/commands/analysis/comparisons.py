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
from analysis.evidence.evidence import Settings
from analysis.options import OutFile, SourceOptions
from analysis.sources import open_source
from clm_or_mlm.names import ModelNames
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
    score: Settings = Settings(),
    replicates: Annotated[tuple[str, ...], Parameter(metavar="PATTERN", group=_HOW, show_default=False)] = (),
    margin: Annotated[float | None, Parameter(metavar="POINTS", group=_HOW)] = None,
    rho: Annotated[float, Parameter(group=_HOW)] = 0.0,
    format: Annotated[str, Parameter(choices=(*PRINTED, "latex"))] = "text",
    out: OutFile = None,
) -> None:
    """Compare two models, or rank many.

    For two models, it prints the difference on every dataset, on every task and over all tasks. Each comes with its
    interval and p-value, P(A > B), the probability of practical equivalence, and the number of seeds needed to detect
    the difference. For more models, it prints mean ranks with Friedman's test and Nemenyi's critical difference, and
    the difference between the top-ranked model and each of the others. For a model without runs in the source, the
    paper's printed cells are used. Intervals and p-values come from the pooled bootstrap t for runs and from Welch's t
    for printed cells, unless --interval names another method (crossed covers seeds and test instances).

    examples:
      clm-or-mlm compare 610m-mlm40-42k 610m-clm-42k
      clm-or-mlm compare mine 610m-mlm40-42k --source results/ --add-model mine
      clm-or-mlm compare '*' --source released
      clm-or-mlm compare 610m-clm-42k --replicates mine --source results/ --add-model 'mine*'

    Args:
        models: two or more models in the source (one with --replicates), as names or shell patterns
        replicates: treat this model's pretrainings (NAME, NAME-s1, NAME-s2) as one arm; its spread is that between
            pretrainings, each averaged over its fine-tuning seeds (name or shell pattern)
        margin: models that differ by less count as practically equivalent (default: SC 0.5, TC 0.25, QA 1, IR 0.5)
        rho: assumed correlation between seeds in the posterior, from 0 to below 1
        format: output format
    """
    if margin is not None and not margin > 0:
        raise UserError(f"--margin {margin:g}: a region of practical equivalence must be wider than 0")
    if not 0 <= rho < 1:
        raise UserError(f"--rho {rho:g}: a correlation between seeds must be at least 0 and below 1")
    known = set(models) <= set(MODELS) and not replicates  # patterns take what is there
    opened = source.open(models if known else None, need_instances=score.method.needs_instances)
    settings = opened.with_interval(score)
    result = compared(opened, models, settings, replicates=replicates, margin=margin, rho=rho)
    write(report.comparison_document(result), format, out)


def best(
    question: Annotated[tuple[str, ...], MANY] = (),
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print how likely each CLM-MLM split, masking ratio, objective or model is to be best on each dataset and task.

    For the probabilities, each model's mean is drawn at random so that the middle 95 % of the draws match its interval:
    pooled for runs, t for the published cells, or the one that --interval names (crossed also covers test instances).

    examples:
      clm-or-mlm best split
      clm-or-mlm best --source released --format csv

    Args:
        question: split, ratio, objective or model (default: all)
        format: output format
    """
    opened = source.open(need_instances=score.method.needs_instances)
    answer = best_of(opened, opened.with_interval(score), question)
    write(best_report.best_document(answer), format, out)


def sizes(
    *,
    source: SourceOptions = SourceOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
    out: OutFile = None,
) -> None:
    """Print, by dataset, how often smaller and larger models agree on which of two pretraining recipes is better.

    It compares the four masking ratios and CLM at 210M, 610M and 1B, and finds the three datasets that most often lead
    to the same decisions as all datasets together. `clm-or-mlm figure sizes` draws the result.

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
    """Print whether a source's runs replicate a reference; exit code 1 if they do not.

    At every learning rate, the mean of each cell must be in the prediction interval computed from the reference's
    seeds (with --pretrained, from its pretrainings). With --logs, each validation loss must be in the interval from
    the reference's pretrainings. With Holm's adjustment, at most one genuine replication in twenty fails by chance.

    examples:
      clm-or-mlm certify --source results/ --reference released
      clm-or-mlm certify --source mini/store --reference miniature --pretrained --logs mini/pretrained

    Args:
        reference: released, miniature, a run store or a runs table
        pretrained: compare pretrainings: the models were pretrained again, not downloaded
        logs: training logs of the models (default: losses are not compared)
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
