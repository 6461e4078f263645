"""`clm-or-mlm compare`: models against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.comparisons.table_options import TableOptions
from analysis.evidence.settings import Settings
from analysis.options import OutFile, SourceOptions
from common.errors import UserError
from common.tables import PRINTED, write
from pretraining.names import ModelNames
from pretraining.paper_models import MODELS

_HOW = "how they are compared"


def compare(
    models: ModelNames = (),
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    table: TableOptions = TableOptions(),
    replicates: Annotated[
        tuple[str, ...], Parameter(metavar="PATTERN", group=_HOW, show_default=False)
    ] = (),
    margin: Annotated[float | None, Parameter(metavar="POINTS", group=_HOW)] = None,
    full: bool = False,
    format: Annotated[str, Parameter(choices=(*PRINTED, "latex"))] = "text",
    out: OutFile = None,
) -> None:
    """Compare two models, or many with the best of them.

    For two models, it prints which is ahead, and the difference on every dataset, on every task and over all tasks.
    Each comes with its interval and p-value, and whether the models are practically equal; with --full, the number
    of seeds needed to detect the difference, too. More models are printed in the order of their mean over all tasks,
    each with the difference between the first and it. For a model without runs in the source, the paper's printed
    cells are used. With --replicates, an arm's spread is that between pretrainings, each averaged over its
    fine-tuning seeds; two columns show how far pretrainings differ, and the seeds of one. Intervals and p-values come
    from the pooled bootstrap t for runs and from Welch's t for printed cells, unless --interval names another method
    (crossed covers seeds and test instances).

    A table with columns model, dataset, seed and score, a column for each seed, or model, dataset, mean, sd and n is
    compared in its own unit: any number of models, and the mean over its datasets. So are folders of results that
    lm-evaluation-harness, MTEB or the Trainer of transformers wrote.

    examples:
      clm-or-mlm compare 610m-mlm40-42k 610m-clm-42k
      clm-or-mlm compare mine 610m-mlm40-42k --source results/
      clm-or-mlm compare '*' --source released
      clm-or-mlm compare mine baseline --source scores.csv
      clm-or-mlm compare 610m-clm-42k --replicates mine --source results/

    Args:
        models: two or more models in the source (one with --replicates), as names or shell patterns
        replicates: models whose pretrainings (NAME, NAME-s1, NAME-s2) are one arm
        margin: models that differ by less are practically equal (default: SC 0.5, TC 0.25, QA 1, IR 0.5; none else)
        full: show all columns and, of many models, every task
        format: output format
    """
    # With `not`, since a margin may be nan, for which every comparison is false.
    if margin is not None and not margin > 0:
        raise UserError(
            f"--margin {margin:g}: a region of practical equivalence must be wider than 0"
        )

    from analysis.comparisons.comparison import compare as compared
    from analysis.comparisons.comparison import compare_table
    from analysis.comparisons.comparison_report import comparison_document
    from analysis.comparisons.result_folders import table_of_folder
    from analysis.comparisons.scores_table import read_scores, scores_table_in
    from analysis.sources import NAMES

    # A path may be anybody's table of scores or folder of results; what is neither is opened as runs. The argument
    # `table` has only the options by which such a table is read.
    path = Path(source.source)
    scores_as_text = None  # the table of scores; None where the source has runs
    notes: list[str] = []
    if source.source not in NAMES:
        # None for a folder, and for a file with runs.
        scores_as_text = scores_table_in(path)
        # The results as a table, and sentences on what was chosen in reading them. None for a folder without
        # results of another tool, and for a run store.
        folder_as_table = table_of_folder(path, table) if path.is_dir() else None
        if folder_as_table is not None:
            scores_as_text, notes = folder_as_table

    # A table of scores.
    if scores_as_text is not None:
        if replicates:
            raise UserError(
                "--replicates is for runs; in a table of scores a pretraining can be a seed"
            )

        if source.study is not None:
            raise UserError(
                "--study is for runs; a table of scores may have any models"
            )

        scores = read_scores(
            scores_as_text,
            table,
            selection=score.selection,
            metric=source.metric,
            notes=notes,
        )
        result = compare_table(scores, models, score, margin=margin)
        write(comparison_document(result, full=full), format, out)
        return

    # Runs, or the paper's printed cells. An option of tables that was given differs from its default.
    if table != TableOptions():
        raise UserError(
            f"--columns, --spread and --lower-is-better are for a table of scores, and {source.source} is none"
        )

    # If all models are named as the paper's, the released runs of those that the cache lacks are fetched. A pattern or
    # another name stands for runs that are there already. With --replicates all models are opened, since the arms are
    # compared as well, and `models` does not name their pretrainings.
    are_paper_models = bool(models) and set(models) <= set(MODELS)
    opened = source.open(
        # None: nothing is fetched, and the source has what is there.
        models if are_paper_models and not replicates else None,
        need_instances=score.method.needs_instances,
    )
    settings = opened.with_interval(score)
    result = compared(opened, models, settings, replicates=replicates, margin=margin)
    write(comparison_document(result, full=full), format, out)
