"""Anybody's table of scores: by seed, tidy or with a column a seed; or means, each with its spread and number of seeds.

model, dataset           any names; without a dataset there is one, or `task` names it
seed, score              any labels; a number in any unit
mean, sd | se | ci95 | ci95-t, n    in place of these, as papers print them
task, metric             if there
lr, validation_score     if there: of several rates, the validation score chooses

What a column is for is its role. The column's title says it (`ROLES`), or the table's owner does (`--columns`). Columns
that are not read are listed, and refused where they might tell apart scores that would be taken together.

`analysis.comparisons.table_form` brings every table into one form, as texts; here it becomes numbers that are checked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.comparisons.table_form import (
    EXPECTED,
    NAME_ROLES,
    Form,
    first_row,
    form_of,
    of_metric,
    pairs_in,
)
from analysis.comparisons.table_options import SPREAD_KINDS, TableOptions
from analysis.published_cells import NORMAL_QUANTILE
from analysis.statistics.crossed import Array
from analysis.statistics.learning_rate_selection import CELL, select_runs
from analysis.store.text_table import (
    ENDINGS,
    TextTable,
    column_name,
    read_text_table,
    text_table_of,
)
from benchmarks.protocol import DATASETS
from common.errors import UserError
from common.plain_text import counted, first_of, name_fault
from common.reading import MOST_LARGE, PARQUET, read_bounded

_OF_RUNS = {"lr", "test_score"}
"""Columns that only a runs table has."""
_CONDITION = re.compile(
    r"epoch|(global_)?step|checkpoint|fold|layer|split|(n_|num_few)?shots?|folder\d+"
)
"""The title of a column of numbers that are no measurements: where they vary, scores are of several things."""
_SUMMARY = re.compile(r"mean|std|sd|stdev|sem?|avg|average|best|median|max|min", re.I)
"""The cell of a seed in a row that is computed from other rows: mean, std."""
_AVERAGE = re.compile(
    r"((macro|micro|overall|task|total)_)?(avg|average|mean)\.?|overall"
)
"""The name of a dataset in a row that is a mean over datasets: average, macro_avg."""
_LESS_IS_BETTER = re.compile(
    r"(?<![a-z])(loss|perplexity|ppl|error|err|[wct]er|r?mse|mae|nll|bits|bp[bc]|fid|latency|runtime)(?![a-z])",
    re.I,
)
"""A word in the name of a metric of which less is usually better."""
OTHER_UNIT = 20.0
"""A score in per cent is at least so many times as large as one in fractions, unless the second model is five times as
good: their numbers differ by a factor of 100."""


@dataclass(frozen=True, kw_only=True)
class ScoresTable:
    """A table's scores that count, and what was read of it."""

    where: str
    """What the table is called in sentences."""
    rows: pd.DataFrame
    """The scores, in the table's own unit; a dataset of the paper has its task.

    By seed there is a row for each model, dataset and seed, with columns `model, task, dataset, metric, lr, seed,
    validation_score, test_score, half_digit` (half of the last digit that is written; nan: not known). A summary has a
    row for each model and dataset, with `mean, error, n` (standard error and number of seeds) in place of the last
    five."""
    read: str
    """A sentence on what was read."""
    lower_is_better: bool = False
    """Whether the better score is the lower one, as of a loss."""

    @property
    def is_summary(self) -> bool:
        """Whether there are only means, each with its error and number of seeds."""
        return "error" in self.rows

    @property
    def scores(self) -> pd.Series:
        """The means of a summary, else the scores of seeds; one for each row."""
        return _measured(self.rows)


def scores_table_in(path: Path) -> TextTable | None:
    """Return the table of scores in a file; None for other files and for a runs table (`analysis.store.runs_table`).

    Raises:
        UserError: the file cannot be read.
    """
    if not path.is_file():
        return None
    content = read_bounded(path, MOST_LARGE)
    if content.startswith(PARQUET):
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            if {*file.schema_arrow.names} >= _OF_RUNS:
                return None
            return text_table_of(file.read().to_pandas(), str(path))
        except (pa.ArrowException, OSError, ValueError, MemoryError):
            # A damaged file: the reader of runs tables, which is tried next, says what is wrong with it.
            return None

    ending = path.suffix.lower()
    if ending in (".txt", ".json", ".jsonl", ".md", ".tex"):
        raise UserError(
            f"{path} is not a table; write it as CSV (.csv) with {EXPECTED}"
        )

    if ending not in ENDINGS:
        return None
    table = read_text_table(path, content)
    return None if {*table.header} >= _OF_RUNS else table


def read_scores(
    table: TextTable,
    options: TableOptions,
    *,
    selection: str = "seed",
    metric: str = "",
    notes: Sequence[str] = (),
) -> ScoresTable:
    """Return the scores of a table that count: those of the chosen metric, at the chosen learning rates.

    Args:
        table: the cells as texts.
        options: what its columns are.
        selection: the rule that chooses a learning rate, where a model has several on a dataset.
        metric: which one of the column `metric` counts, where a dataset has several; empty: the only one.
        notes: what else was done to read it, for the sentence on what was read.

    Raises:
        UserError: it is no such table, a seed is there twice or has no score, a column that is not read may tell scores
            apart, scores cannot be compared, or there is a choice to make.
    """
    # The numbers, with their names.
    form = form_of(table, options)
    without: list[str] = []  # datasets without a score by the metric
    if metric:
        form, without = of_metric(form, metric)
    numbers = _of_seeds(form) if form.is_by_seed else _of_means(form, options.spread)
    names = {role: form.texts(role) for role in NAME_ROLES}
    # Joined by the number of the row, which both have as their index.
    rows = pd.DataFrame(names).join(numbers)

    # What cannot be compared is refused: rows with a fault, then names, columns that are not read, several
    # rows for one score, and units. After the first refusal every row has its names and a finite score or
    # mean.
    _refuse_faults(form, rows)
    for role in ("model", "dataset"):
        refuse_alike(form.table.where, role, rows[role])
    _refuse_unread(form, rows)
    _refuse_repeats(form, rows)
    lower_is_better = options.lower_is_better
    if lower_is_better is None:
        lower_is_better = _is_lower_better(form)

    # Fractions beside per cent are looked for among scores, not among losses, which may differ by any factor.
    if not lower_is_better:
        _refuse_units(form, rows)

    # Which scores count, and a sentence on what was read.
    rows = _by_place(rows)
    # Where a model has several learning rates on a dataset, only scores at the chosen one count.
    if "lr" in rows and (rows.groupby(CELL)["lr"].nunique() > 1).any():
        rows = select_runs(rows, selection)
    counted_unit = "seed"

    # A folder of lm-evaluation-harness has one seed, and errors over test instances: there n counts instances.
    if not form.is_by_seed and form.titles["n"] == "n_instances":
        counted_unit = "test instance"
    read = [_counts(rows, counted_unit), *notes]
    if without:
        read.append(f"without {metric}: {first_of(without, 4)}")
    if form.not_read:
        read.append(f"columns not read: {first_of(form.not_read, 8)}")

    # Names in one order, so that no number depends on the order of the rows.
    rows = rows.sort_values(["model", "dataset"], kind="stable", ignore_index=True)
    return ScoresTable(
        where=table.where,
        rows=rows,
        read=f"Read: {'; '.join(read)}.",
        lower_is_better=lower_is_better,
    )


def _of_seeds(form: Form) -> pd.DataFrame:
    """Return the numbers of each score of a seed: columns seed, lr, validation_score, test_score and half_digit.

    Without a learning rate it is 0 for all, so that there is no choice between rates.
    """
    form.need("model")
    rows = form.cells[["seed"]].assign(lr=0.0, validation_score=np.nan)
    for role in ("lr", "validation_score"):
        if role in form.cells:
            rows[role] = form.numbers(role)
    rows["test_score"] = form.numbers("score")
    rows["half_digit"] = form.table.half_digits(form.cells["score"])
    return rows


def _of_means(form: Form, spread: str) -> pd.DataFrame:
    """Return the numbers of each mean: columns mean, error (its standard error) and n (its number of seeds).

    Args:
        form: the table.
        spread: which of `SPREAD_KINDS` stands beside a mean; empty: the table's owner does not say it.
    """
    table, cells = form.table, form.cells
    form.need("model")
    # A column of seeds belongs to scores, and a table without means has to have scores: a table without a
    # column of scores is refused here.
    if "seed" in cells or "mean" not in cells:
        form.need("score")
    means = cells["mean"]
    pairs = pairs_in(means)

    # The spread is in the same cell as its mean, or in a column of its own.
    if pairs[0].notna().any():
        _refuse_pairs(table, means, pairs, spread)
        means, spread_texts = pairs[0], pairs[1]
    else:
        spread = _spread_of(form, spread)
        spread_texts = cells[_role(spread)]

    if "n" not in cells:
        raise UserError(
            f"{table.where} does not say how many seeds a mean is over; give a column n, or --columns n=5"
        )

    n_seeds = form.numbers("n")
    spreads = table.numbers(spread, spread_texts)
    # A spread that is printed as 0.0 may be anything below half of its last digit: the largest such spread is
    # taken. Where the digits of the means were not rounded by a person, 0 is 0; such means have no known half
    # of a digit (nan). Where that of a spread is not known, 0 is 0 as well.
    is_exact = np.isnan(table.half_digits(means))
    half_digits = np.nan_to_num(table.half_digits(spread_texts))
    largest = np.where(is_exact, 0.0, half_digits)
    spreads = np.where(spreads == 0, largest, spreads)
    counts = np.where(n_seeds < 2, np.nan, n_seeds)  # one seed has no error
    # Means that were in several columns, one for each dataset, have no title: refusals call them `mean`.
    numbers = {
        "mean": table.numbers(form.titles.get("mean", "mean"), means),
        "error": spreads / _errors_in(spread, counts),
        "n": n_seeds,
    }
    return pd.DataFrame(numbers, index=cells.index)


def _spread_of(form: Form, given: str) -> str:
    """Return the kind of spread that has a column.

    Args:
        form: the table.
        given: the kind that the table's owner says it is; empty: the owner does not say it.

    Raises:
        UserError: no kind has a column, or several have one, or another kind than is given.
    """
    kinds = [kind for kind in SPREAD_KINDS if _role(kind) in form.cells]
    if not kinds:
        # Means without a spread cannot be compared: the refusal asks for the scores of seeds. It always
        # comes, since means are read only from a table without a column of seeds (`_of_means`).
        form.need("seed")

    meant = given or kinds[0]
    # If the given kind has no column, all kinds are others. So the only kind that is left is the one meant.
    others = [kind for kind in kinds if kind != meant]
    if others:
        raise UserError(
            f"{form.table.where} has {' and '.join(kinds)} of a mean, where one is meant; leave it out: --columns "
            f"ignore={form.titles[_role(others[-1])]}"
        )

    return kinds[0]


def _errors_in(spread: str, counts: Array) -> Array:
    """Return how many standard errors of a mean a spread is: what it has to be divided by.

    Args:
        spread: one of `SPREAD_KINDS`.
        counts: the seeds that each mean is over; nan for one seed, whose mean has no standard error.
    """
    if spread == "sd":
        return np.sqrt(counts)
    if spread == "ci95-t":
        from scipy import special  # takes as long to import as a table to read

        # Student's quantile of 97.5 %: an interval of 95 % leaves out 2.5 % on each side.
        return np.asarray(special.stdtrit(counts - 1, 0.975))
    # The same for any number of seeds; nan stays nan.
    per_error = NORMAL_QUANTILE if spread == "ci95" else 1.0
    return np.where(np.isnan(counts), counts, per_error)


def _role(spread: str) -> str:
    """Return the role of the column with a spread: `ci95_t` for `ci95-t`."""
    return spread.replace("-", "_")


def _refuse_pairs(
    table: TextTable, cells: pd.Series, pairs: pd.DataFrame, spread: str
) -> None:
    """Refuse pairs of numbers if the table's owner does not say what the second is, and cells that are not pairs.

    Args:
        table: the table, for the place of a row.
        cells: the column with a mean and its spread in each cell.
        pairs: the two numbers of each cell, missing where it is no pair.
        spread: what the second number is; empty: the table's owner does not say it.
    """
    is_pair = pairs[0].notna()
    if not spread:
        row = first_row(is_pair)
        raise UserError(
            f"{table.at(row)}: what is the second number of {cells[row]!r:.40}? Say --spread sd, se, ci95 (1.96 "
            "errors) or ci95-t (Student's); to compare seeds, give a row for each"
        )

    if not is_pair.all():
        row = first_row(~is_pair)
        raise UserError(
            f"{table.at(row)}: {cells[row]!r:.40} is not a mean with its spread, as others in this column are"
        )


def _refuse_faults(form: Form, rows: pd.DataFrame) -> None:
    """Refuse rows that lack a name or number, and rows that are computed from others."""
    for role in ("model", "dataset"):
        is_unfit = rows[role].map(lambda name: name_fault(name) is not None)
        fault = f"has no printable {role}, or one that begins like a formula"
        form.refuse(rows, is_unfit, fault)

    # `column_name` writes names as `_AVERAGE` has them: in small letters, with _ between words.
    is_average = rows["dataset"].map(column_name).str.fullmatch(_AVERAGE)
    fault = "is a mean over datasets; delete such rows: the mean is computed"
    form.refuse(rows, is_average, fault)
    if not form.is_by_seed:
        counts = rows["n"]
        is_count = (counts >= 1) & (counts % 1 == 0)
        # A mean over one seed needs no error.
        is_error = (rows["error"] >= 0) | (counts == 1)
        form.refuse(rows, ~np.isfinite(rows["mean"]), "has no finite mean")
        form.refuse(rows, ~is_count, "has no whole number of seeds")
        form.refuse(rows, ~is_error, "has no spread from 0 on")
        return

    is_summary = rows["seed"].str.fullmatch(_SUMMARY)
    fault = "is computed from seeds, and is none; delete such rows"
    form.refuse(rows, is_summary, fault)
    fault = (
        "has no finite score; of a run that diverged give the score of its last checkpoint, or delete it and say so "
        "where you report the others"
    )
    form.refuse(rows, ~np.isfinite(rows["test_score"]), fault)
    fault = "has no learning rate; give one, or leave the column out"
    form.refuse(rows, ~np.isfinite(rows["lr"]), fault)


def _refuse_repeats(form: Form, rows: pd.DataFrame) -> None:
    """Refuse several rows for one score: another metric, a repeat, or a learning rate that nothing chooses."""
    place = ["task", "dataset"]
    cell = ["model", *place]
    # Another metric than the first of its dataset.
    metrics = first_of(sorted(set(rows["metric"])), 4)
    first_metric = rows.groupby(place)["metric"].transform("first")
    fault = f"has another metric than the dataset's first row; choose one with --metric ({metrics:.60})"
    form.refuse(rows, rows["metric"] != first_metric, fault)
    remedy = "; keep one of them"

    # A column that is not read may say what the repeated rows differ in, such as a fold. `form.unread` has
    # these columns by title.
    titles = map(str, form.unread)
    varying = [title for title in titles if form.unread[title].nunique() > 1]
    if varying:
        roles = f"--columns seed={varying[0]} or dataset={varying[0]}"
        remedy = (
            f"; if {first_of(varying, 3)} (not read) tells them apart, say what it is, {roles}, or keep one value of "
            "it"
        )

    if not form.is_by_seed:
        form.refuse(rows, rows.duplicated(cell), f"is there in an earlier row{remedy}")
        return

    is_repeat = rows.duplicated([*cell, "lr", "seed"])
    form.refuse(rows, is_repeat, f"is the same seed as an earlier row{remedy}")
    has_several_rates = rows.groupby(cell)["lr"].transform("nunique") > 1
    has_no_choice = has_several_rates & ~np.isfinite(rows["validation_score"])
    fault = (
        "has no validation_score to choose among several learning rates; keep one rate, or give one (a run that "
        "diverged: any that is lower than all others)"
    )
    form.refuse(rows, has_no_choice, fault)


def _refuse_unread(form: Form, rows: pd.DataFrame) -> None:
    """Refuse a column that is not read, but tells scores of a dataset apart, such as a column of languages."""
    datasets = rows["dataset"]
    for name, cells in form.unread.items():
        # Numbers are other measurements, such as a second metric: they differ from row to row and tell nothing apart.
        are_numbers = cells.str.fullmatch(r"[-+\d.,%eE\s]*").all()
        if are_numbers and not _CONDITION.fullmatch(str(name)):
            continue

        # Within these groups of rows the column should have one value.
        groups = datasets
        # What the refusal proposes: rows of a single dataset may be of several that the column names.
        likely_role = "dataset" if datasets.nunique() == 1 else "model"

        # A folder is often named after the model: then it may differ between models, but not within one.
        if str(name).startswith("folder"):
            # A line break is in no name: names that cannot be printed have been refused.
            groups = datasets + "\n" + rows["model"]
            likely_role = "seed"

        differs = cells.groupby(groups).transform("nunique") > 1
        if not differs.any():
            continue
        dataset = datasets[first_row(differs)]
        values = sorted(set(cells[datasets == dataset]))

        # As it is written in the table.
        title = form.table.titles[form.table.header.index(str(name))]
        differing = f"differs on {dataset:.26} ({first_of(values, 2):.30})"
        raise UserError(
            f"{form.table.where}: column {title!r:.26} is not read, but {differing}; say what it is, --columns "
            f"{likely_role}={title:.26}, or leave it out, --columns ignore={title:.26}"
        )


def refuse_alike(where: str, what: str, names: Iterable[str]) -> None:
    """Refuse names of models or datasets that only a computer tells apart: `BERT` and `bert`.

    `where` and `what` are words of the refusal: the table or source, and whether names are of a model or dataset.
    """
    name_of: dict[str, str] = {}  # by what a person reads
    for name in sorted(set(names)):
        as_read = unicodedata.normalize("NFKC", name).casefold().strip()
        other = name_of.setdefault(as_read, name)
        if other != name:
            raise UserError(
                f"{where}: the {what}s {other!r:.60} and {name!r:.60} differ in case or Unicode form alone; write both "
                "in one way, or give them names that differ"
            )


def _is_lower_better(form: Form) -> bool:
    """Return whether the better score is the lower one, as the table says; without a word of it, no.

    Raises:
        UserError: scores of both kinds, or a metric whose name sounds like a loss where the table does not say it.
    """
    where = form.table.where
    # First what a column says. Without such a column, or in an empty cell, the text is empty, and says
    # nothing.
    for role in ("lower_is_better", "higher_is_better"):
        texts = {*form.texts(role)} - {""}
        answers = {text.lower() in ("true", "yes", "1", "1.0") for text in texts}
        if len(answers) > 1:
            raise UserError(
                f"{where}: of some scores less is better, of others more ({form.titles[role]}); compare them apart: "
                "--metric chooses one"
            )

        if answers:
            [is_true] = answers
            return is_true if role == "lower_is_better" else not is_true

    # Then the names of the metric and of the column with the scores. That a loss is better lower is not
    # guessed: the table's owner is asked.
    for name in sorted({*form.texts("metric"), form.measured}):
        if _LESS_IS_BETTER.search(name.replace("_", " ")):
            raise UserError(
                f"{where}: the better {name!r:.40} is usually the lower one; say --lower-is-better, or "
                "--lower-is-better=false if it is not so"
            )

    return False


def _refuse_units(form: Form, rows: pd.DataFrame) -> None:
    """Refuse a model in fractions beside one in per cent, unless per cent signs say the unit."""
    written = form.cells["score" if form.is_by_seed else "mean"]
    if written.str.contains("%").any():
        return
    for dataset, on_dataset in _measured(rows).abs().groupby(rows["dataset"]):
        of_models = on_dataset.groupby(rows["model"])
        largest, means = of_models.max(), of_models.mean()
        # The model whose largest score is the lowest, and the one with the highest mean. A model is in
        # fractions only if all of its scores are at most 1, and so the largest; it is in per cent by its
        # mean, which one score near 1 does not change much.
        low, high = str(largest.idxmin()), str(means.idxmax())
        may_be_fractions = 0 < largest[low] <= 1 < means[high]

        # 0.9 and 1.2 are in one unit: only a far larger mean is in per cent.
        if may_be_fractions and means[high] >= OTHER_UNIT * means[low]:
            raise UserError(
                f"{form.table.where}: on {dataset!s:.40}, {low:.40} seems to be in fractions and {high:.40} in per "
                "cent; write both in one unit, in per cent with % signs"
            )


def _measured(rows: pd.DataFrame) -> pd.Series:
    """Return the means of a summary, whose rows have errors, else the scores of seeds."""
    return rows["mean" if "error" in rows else "test_score"]


def seeds_in_order(labels: Iterable[str]) -> list[str]:
    """Return labels of seeds as a reader counts them: 9 before 10, since the shorter label comes first."""
    return sorted(labels, key=lambda seed: (len(seed), seed))


def _by_place(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the paper's task for the paper's datasets, and one task for each name of a dataset.

    Where a name is in two tasks, the names of all datasets begin with their task.
    """
    if (rows.groupby("dataset")["task"].nunique() > 1).any():
        rows = rows.assign(dataset=rows["task"] + " " + rows["dataset"])
    papers_tasks = {name: dataset.task for name, dataset in DATASETS.items()}
    # A task of the table must not be called `all`: that is the mean (`analysis.comparisons.contestants.ALL`).
    own_tasks = rows["task"].replace("all", "")
    return rows.assign(task=rows["dataset"].map(papers_tasks).fillna(own_tasks))


def _counts(rows: pd.DataFrame, unit: str) -> str:
    """Return how much there is: `2 datasets, 3 models, 5 seeds each (0, 1, 2, 3, 4)`.

    `unit` is what a mean is over: `seed` or `test instance`.
    """
    datasets = counted(rows["dataset"].nunique(), "dataset")
    models = counted(rows["model"].nunique(), "model")
    by_cell = rows.groupby(CELL)  # a model on a dataset

    # A summary says how many seeds a mean is over; else each seed has a row.
    counts = by_cell["n"].first() if "error" in rows else by_cell.size()
    fewest, most = int(counts.min()), int(counts.max())
    units = f"{counted(most, unit)} each"
    if fewest < most:
        units = f"{fewest} to {counted(most, unit)}"
    if "seed" in rows:
        labels = seeds_in_order(set(rows["seed"]))
        units += f" ({first_of(labels, 5)})"

    return f"{datasets}, {models}, {units}"
