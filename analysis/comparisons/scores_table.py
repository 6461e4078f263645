"""Anybody's table of scores: by seed, tidy or with a column a seed; or means, each with its spread and number of seeds.

model, dataset           any names; without a dataset there is one, or `task` names it
seed, score              any labels; a number in any unit
mean, sd | se | ci95 | ci95-t, n    in place of these, as papers print them
task, metric             if there
lr, validation_score     if there: of several rates, the validation score chooses

What a column is for, its title says (`ROLES`), or the reader's owner; what is not read is said, and refused where it
might tell apart scores that would be taken together.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.comparisons.table_options import ROLES, SPREAD_KINDS, TableOptions
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
from common.errors import UserError, nearest
from common.plain_text import counted, first_of, name_fault
from common.reading import MOST_LARGE, PARQUET, read_bounded

_TIDY = ("model", "dataset", "seed", "score")
_OF_RUNS = {"lr", "test_score"}
"""Columns of a runs table that no other has."""
_ONLY_DATASET = "scores"
_NAMES = (*CELL, "metric")
_OF_MEAN = {"mean", "n", *(spread.replace("-", "_") for spread in SPREAD_KINDS)}
"""Roles of columns about means."""
_SEED = re.compile(r"(seed|run)_?\d+")
"""A column that says that it is a seed."""
_CONDITION = re.compile(
    r"epoch|(global_)?step|checkpoint|fold|layer|split|(n_|num_few)?shots?|folder\d+"
)
"""A column of numbers that are no measurements: where they vary, scores are of several things."""
_SUMMARY = re.compile(r"mean|std|sd|stdev|sem?|avg|average|best|median|max|min", re.I)
"""In place of a seed: what is computed from seeds."""
_AVERAGE = re.compile(
    r"((macro|micro|overall|task|total)_)?(avg|average|mean)\.?|overall"
)
_LESS_IS_BETTER = re.compile(
    r"(?<![a-z])(loss|perplexity|ppl|error|err|[wct]er|r?mse|mae|nll|bits|bp[bc]|fid|latency|runtime)(?![a-z])",
    re.I,
)
"""A word of a metric of which less is usually better."""
_PAIR = r"^([-+]?[\d.,]+ *%?) *(?:±|\+/?-|\\pm|\() *([\d.,]+ *%?)\)?$"
"""A mean with what stands beside it, without LaTeX's marks: 91.2 ± 0.4, 91.2 (0.4)."""
_MARKS = r"\\(textbf|mathbf|underline|bf)\b|[${}*_^]"
OTHER_UNIT = 20.0
"""A score in per cent is so many times one in fractions, unless one model is five times as good as the other."""
_FORM = "columns model, dataset, seed, score (or seed0, seed1...; or mean, sd, n)"


@dataclass(frozen=True, kw_only=True)
class ScoresTable:
    """A table's scores that count, and what was read of it."""

    where: str
    rows: pd.DataFrame
    """A row for each model, dataset and seed: columns `model, task, dataset, metric, lr, seed, validation_score,
    test_score, half_digit` (of its last digit; nan: not known). Or for each model and dataset `mean, error, n` in place
    of the last five. Scores are in the table's own unit; a dataset of the paper has its task."""
    read: str
    """What was read, in a sentence."""
    lower_is_better: bool = False

    @property
    def is_summary(self) -> bool:
        """Whether there are only means, each with its error and number of seeds."""
        return "error" in self.rows

    @property
    def scores(self) -> pd.Series:
        """The means of a summary, else the scores of seeds."""
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
            return None
    ending = path.suffix.lower()
    if ending in (".txt", ".json", ".jsonl", ".md", ".tex"):
        raise UserError(f"{path} is not a table; write it as CSV (.csv) with {_FORM}")
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
    """Return the scores of a table that count.

    Args:
        table: as it was read.
        options: what its columns are.
        selection: what a learning rate is chosen for, where a model has several on a dataset.
        metric: the one of the column `metric`, where a dataset has several.
        notes: what else was done to read it.

    Raises:
        UserError: it is no such table, a seed is there twice or has no score, what is not read may tell scores apart,
            scores cannot be compared, or there is a choice to make.
    """
    form = _form_of(table, options)
    without: list[str] = []
    if metric:
        form, without = _of_metric(form, metric)
    numbers = _of_seeds(form) if form.is_by_seed else _of_means(form, options.spread)
    names = {role: form.texts(role) for role in _NAMES}
    rows = pd.DataFrame(names).join(numbers)
    _refuse_faults(form, rows)
    for role in ("model", "dataset"):
        refuse_alike(form.table.where, role, rows[role])
    _refuse_unread(form, rows)
    _refuse_repeats(form, rows)
    lower_is_better = options.lower_is_better
    if lower_is_better is None:
        lower_is_better = _is_lower_better(form)
    if not lower_is_better:
        _refuse_units(form, rows)
    rows = _by_place(rows)
    if "lr" in rows and (rows.groupby(CELL)["lr"].nunique() > 1).any():
        rows = select_runs(rows, selection)
    unit = "seed"
    # lm-evaluation-harness has one seed, and an error over its test instances.
    if not form.is_by_seed and form.titles["n"] == "n_instances":
        unit = "test instance"
    read = [_counts(rows, unit), *notes]
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


@dataclass(frozen=True, kw_only=True)
class _Form:
    """A table with a row for each score or mean."""

    table: TextTable
    """Where each row is."""
    cells: pd.DataFrame
    """Texts, in columns by what they are for."""
    titles: Mapping[str, str]
    """Of the columns with a role, as `TextTable.header` has them."""
    measured: str
    """The title of the scores, before they were put in one column."""
    unread: pd.DataFrame
    """The other columns, under their titles, without those that their owner says are not to be read."""
    not_read: Sequence[str]
    """The titles of all columns without a role."""

    @property
    def is_by_seed(self) -> bool:
        """Whether a row is a seed's score, not a mean over seeds."""
        return {"seed", "score"} <= {*self.cells}

    def texts(self, role: str) -> pd.Series:
        """Return the column of a role; where there is none, all scores are alike."""
        absent = _ONLY_DATASET if role == "dataset" else ""
        return self.cells.get(role, pd.Series(absent, self.cells.index))

    def numbers(self, role: str) -> Array:
        """Return the column of a role as numbers."""
        return self.table.numbers(self.titles.get(role, role), self.cells[role])

    def need(self, role: str) -> None:
        """Refuse a table without a column of a role."""
        if role in self.cells:
            return
        header = ", ".join(filter(None, self.table.header))
        lacking = [name for name in _TIDY if name not in self.cells]
        # Every role that lacks a column is named, so that one more call is enough.
        named = ",".join(f"{name}=TITLE" for name in lacking or [role])
        raise UserError(
            f"{self.table.where}: there is no column {role} among {header:.60}; name yours with --columns {named}, "
            f"or write {_FORM}"
        )

    def refuse(self, rows: pd.DataFrame, wrong: pd.Series, fault: str) -> None:
        """Refuse the first of the rows that have a fault, if there is one."""
        if wrong.any():
            row = _first(wrong)
            names = ("model", "dataset", "metric", "seed")
            texts = [str(rows.at[row, name]) for name in names if name in rows]
            what = ", ".join(filter(None, texts))
            raise UserError(f"{self.table.at(row)} ({what:.80}) {fault}")

    def keep(self, rows: pd.Index) -> _Form:
        """Return the form with some of its rows, which may be there several times."""
        places = [self.table.places[row] for row in rows]
        table = replace(self.table, places=places)
        cells = self.cells.loc[rows].reset_index(drop=True)
        unread = self.unread.loc[rows].reset_index(drop=True)
        return replace(self, table=table, cells=cells, unread=unread)


def _form_of(table: TextTable, options: TableOptions) -> _Form:
    """Return a table with a row for each score.

    Raises:
        UserError: a title is there twice, or is of no column.
    """
    named = _named(table, options)
    titles = _titles(table, named)
    measured = titles.get("score", "") or titles.get("mean", "")
    seeds = _seed_columns(table, titles, named)
    datasets: list[str] = []
    if not (measured or seeds or "dataset" in titles):
        datasets = _columns_of_pairs(table, {*titles.values(), *named["ignore"]})
    if seeds:
        titles.pop("seed", None)
    if seeds or {"score", "seed"} <= {*titles}:  # means next to them are not read
        titles = {role: title for role, title in titles.items() if role not in _OF_MEAN}
    used = [*titles.values(), *seeds, *datasets]
    for title in used:
        if table.header.count(title) > 1:
            raise UserError(
                f"{table.where}: the header has {title!r} twice; keep one of these columns"
            )
    columns = pd.DataFrame([*table.rows], columns=table.header, dtype=object)
    columns = columns.loc[:, ~columns.columns.duplicated()]
    cells = pd.DataFrame(index=columns.index)
    for role, title in titles.items():
        # `--columns n=5` names no column: it is the number of seeds itself.
        cells[role] = columns.get(title, title)
    others = [name for name in dict.fromkeys(table.header) if name not in ("", *used)]
    # Columns that the owner says to ignore are still listed as not read.
    unread = [name for name in others if name not in named["ignore"]]
    written = dict(zip(table.header, table.titles, strict=True))
    form = _Form(
        table=table,
        cells=cells,
        titles=titles,
        measured=measured,
        unread=columns[unread],
        not_read=[written[name] for name in others],
    )
    if seeds:
        form = _long(form, columns[seeds], "seed", "score")
    if datasets:
        of_datasets = columns[datasets].rename(columns=written)
        # Papers print a dash where there is no score.
        of_datasets = of_datasets.replace(["-", "\N{EN DASH}", "\N{EM DASH}"], "")
        form = _long(form, of_datasets, "dataset", "mean")
    if form.cells.empty:
        raise UserError(f"{table.where} has a header but no scores")
    for role in {*_NAMES} & {*form.cells}:
        form.cells[role] = form.cells[role].str.replace(" +", " ", regex=True)
    return form


def _named(table: TextTable, options: TableOptions) -> dict[str, list[str]]:
    """Return by role the columns that the table's owner names."""
    named = defaultdict[str, list[str]](list)
    for role, title in options.titles:
        columns = fnmatch.filter(table.header, column_name(title))
        if role == "n" and title.isdecimal():  # the same number for all
            columns = columns or [title]
        if not columns:
            known = list(filter(None, table.titles))
            raise UserError(
                f"--columns {role}={title}: {table.where} has no such column among {first_of(known, 8):.120}"
                f"{nearest(title, known)}"
            )
        named[role] += columns
        if len(named[role]) > 1 and role not in ("seed", "ignore"):
            raise UserError(
                f"--columns {role}={title}: give one column, not {first_of(named[role], 4)}"
            )
    return named


def _titles(table: TextTable, named: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the title of each role that has a column.

    Raises:
        UserError: several have scores.
    """
    header = [title for title in table.header if title not in named["ignore"]]
    titles: dict[str, str] = {}
    for role, usual in ROLES.items():
        of_role = named[role] or [title for title in usual if title in header]
        if of_role and role != "ignore":
            titles[role] = of_role[0]
    scores = {*ROLES["score"]} & {*header} - {*titles.values()}
    if "score" in titles and scores and not named["score"]:
        several = ", ".join(sorted(scores | {titles["score"]}))
        raise UserError(
            f"{table.where} has several columns of scores, {several}; choose one: --columns score={titles['score']}"
        )
    if "score" in titles and "seed" not in titles:
        titles.setdefault("mean", titles["score"])
    return titles


def _seed_columns(
    table: TextTable, titles: Mapping[str, str], named: Mapping[str, list[str]]
) -> list[str]:
    """Return the columns that are seeds, by their titles or since the table's owner says so.

    Raises:
        UserError: they may be years or steps.
    """
    if "score" in titles:
        return []
    if "seed" in titles:
        return named["seed"] if len(named["seed"]) > 1 else []
    taken = {*titles.values(), *named["ignore"]}
    free = [name for name in table.header if name not in taken]
    named_so = [name for name in free if _SEED.fullmatch(name)]
    numbers = [name for name in free if name.isdecimal()]
    if named_so or not numbers:
        return named_so
    counts = [int(name) for name in numbers]
    are_steps = all(count >= 100 and count % 100 == 0 for count in counts)
    are_years = all(1950 <= count <= 2100 for count in counts)
    if are_steps or are_years:
        columns = ",".join(f"seed={name}" for name in numbers[:6])
        raise UserError(
            f"{table.where}: the columns {first_of(numbers, 4)} may be years or steps; if they are seeds, say so: "
            f"--columns {columns}"
        )
    return numbers


def _columns_of_pairs(table: TextTable, others: Collection[str]) -> list[str]:
    """Return the columns that are datasets, as papers print them: with means and their spreads."""
    datasets = []
    for name in table.header:
        if name in others:
            continue
        means = _pairs(pd.Series(table.texts(name), dtype=object))[0]
        if means.notna().any():
            datasets.append(name)
    return datasets


def _long(form: _Form, columns: pd.DataFrame, title: str, content: str) -> _Form:
    """Return a form with a row for each filled cell of some columns: its title has a role, and its content."""
    long = columns.melt(var_name=title, value_name=content, ignore_index=False)
    filled = long[long[content] != ""].sort_index(kind="stable")
    of_rows = form.keep(filled.index)
    return replace(of_rows, cells=of_rows.cells.join(filled.reset_index(drop=True)))


def _of_metric(form: _Form, metric: str) -> tuple[_Form, list[str]]:
    """Return a form with the rows of one metric, and the datasets that have none."""
    metrics, datasets = form.texts("metric"), form.texts("dataset")
    is_chosen = metrics == metric
    if not is_chosen.any():
        raise UserError(
            f"{form.table.where} has no metric {metric!r}{nearest(metric, set(metrics))}"
        )
    without = sorted({*datasets} - {*datasets[is_chosen]})
    return form.keep(form.cells.index[is_chosen]), without


def _of_seeds(form: _Form) -> pd.DataFrame:
    """Return a row for each score of a seed."""
    form.need("model")
    rows = form.cells[["seed"]].assign(lr=0.0, validation_score=np.nan)
    for role in ("lr", "validation_score"):
        if role in form.cells:
            rows[role] = form.numbers(role)
    rows["test_score"] = form.numbers("score")
    rows["half_digit"] = form.table.half_digits(form.cells["score"])
    return rows


def _of_means(form: _Form, spread: str) -> pd.DataFrame:
    """Return a row for each mean, with its standard error and number of seeds."""
    table, cells = form.table, form.cells
    form.need("model")
    if "seed" in cells or "mean" not in cells:
        form.need("score")
    means = cells["mean"]
    pairs = _pairs(means)
    if pairs[0].notna().any():
        _refuse_pairs(table, means, pairs, spread)
        means, widths = pairs[0], pairs[1]
    else:
        spread = _spread_of(form, spread)
        widths = cells[_role(spread)]
    if "n" not in cells:
        raise UserError(
            f"{table.where} does not say how many seeds a mean is over; give a column n, or --columns n=5"
        )
    n_seeds = form.numbers("n")
    found = table.numbers(spread, widths)
    # A spread that is printed as 0.0 may be anything below half of its last digit: the largest of this is taken.
    is_exact = np.isnan(table.half_digits(means))
    largest = np.where(is_exact, 0.0, np.nan_to_num(table.half_digits(widths)))
    found = np.where(found == 0, largest, found)
    counts = np.where(n_seeds < 2, np.nan, n_seeds)  # one seed has no error
    numbers = {
        "mean": table.numbers(form.titles.get("mean", "mean"), means),
        "error": found / _errors_in(spread, counts),
        "n": n_seeds,
    }
    return pd.DataFrame(numbers, index=cells.index)


def _spread_of(form: _Form, given: str) -> str:
    """Return the spread that has a column.

    Raises:
        UserError: none has one, or several, or another than is given.
    """
    spreads = [one for one in SPREAD_KINDS if _role(one) in form.cells]
    if not spreads:
        form.need("seed")
    others = [one for one in spreads if one != (given or spreads[0])]
    if others:
        raise UserError(
            f"{form.table.where} has {' and '.join(spreads)} of a mean, where one is meant; leave it out: --columns "
            f"ignore={form.titles[_role(others[-1])]}"
        )
    return spreads[0]


def _errors_in(spread: str, counts: Array) -> Array:
    """Return how many standard errors of a mean over so many seeds a spread is."""
    if spread == "sd":
        return np.sqrt(counts)
    if spread == "ci95-t":
        from scipy import special  # takes as long to import as a table to read

        return np.asarray(special.stdtrit(counts - 1, 0.975))
    per_error = NORMAL_QUANTILE if spread == "ci95" else 1.0
    return np.where(np.isnan(counts), counts, per_error)


def _role(spread: str) -> str:
    return spread.replace("-", "_")


def _pairs(cells: pd.Series) -> pd.DataFrame:
    """Return means and what stands beside them, missing where a cell is no such pair."""
    plain = cells.str.replace("\N{MINUS SIGN}", "-").str.replace(_MARKS, "", regex=True)
    return plain.str.strip().str.extract(_PAIR)


def _refuse_pairs(
    table: TextTable, cells: pd.Series, pairs: pd.DataFrame, spread: str
) -> None:
    """Refuse pairs of numbers if nobody says what the second is, and cells among them that are not pairs."""
    is_pair = pairs[0].notna()
    if not spread:
        row = _first(is_pair)
        raise UserError(
            f"{table.at(row)}: what is the second number of {cells[row]!r:.40}? Say --spread sd, se, ci95 (1.96 "
            "errors) or ci95-t (Student's); to compare seeds, give a row for each"
        )
    if not is_pair.all():
        row = _first(~is_pair)
        raise UserError(
            f"{table.at(row)}: {cells[row]!r:.40} is not a mean with its spread, as others in this column are"
        )


def _refuse_faults(form: _Form, rows: pd.DataFrame) -> None:
    """Refuse rows without a name or a number that counts."""
    for role in ("model", "dataset"):
        is_unfit = rows[role].map(lambda name: name_fault(name) is not None)
        fault = f"has no printable {role}, or one that begins like a formula"
        form.refuse(rows, is_unfit, fault)
    is_average = rows["dataset"].map(column_name).str.fullmatch(_AVERAGE)
    fault = "is a mean over datasets; delete such rows: the mean is computed"
    form.refuse(rows, is_average, fault)
    if not form.is_by_seed:
        counts = rows["n"]
        is_count = (counts >= 1) & (counts % 1 == 0)
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


def _refuse_repeats(form: _Form, rows: pd.DataFrame) -> None:
    """Refuse several rows for one score: repeats, several metrics, or runs among which nothing chooses."""
    place = ["task", "dataset"]
    key = ["model", *place]
    metrics = first_of(sorted(set(rows["metric"])), 4)
    usual = rows.groupby(place)["metric"].transform("first")
    fault = f"has another metric than the dataset's first row; choose one with --metric ({metrics:.60})"
    form.refuse(rows, rows["metric"] != usual, fault)
    remedy = "; keep one of them"
    titles = map(str, form.unread)
    varying = [title for title in titles if form.unread[title].nunique() > 1]
    if varying:
        roles = f"--columns seed={varying[0]} or dataset={varying[0]}"
        remedy = (
            f"; if {first_of(varying, 3)} (not read) tells them apart, say what it is, {roles}, or keep one value of "
            "it"
        )
    if not form.is_by_seed:
        form.refuse(rows, rows.duplicated(key), f"is there in an earlier row{remedy}")
        return
    is_repeat = rows.duplicated([*key, "lr", "seed"])
    form.refuse(rows, is_repeat, f"is the same seed as an earlier row{remedy}")
    is_tuned = rows.groupby(key)["lr"].transform("nunique") > 1
    has_no_choice = is_tuned & ~np.isfinite(rows["validation_score"])
    fault = (
        "has no validation_score to choose among several learning rates; keep one rate, or give one (a run that "
        "diverged: any that is lower than all others)"
    )
    form.refuse(rows, has_no_choice, fault)


def _first(wrong: pd.Series) -> int:
    """Return the first row that is wrong."""
    return int(wrong.index[int(wrong.to_numpy().argmax())])


def _refuse_unread(form: _Form, rows: pd.DataFrame) -> None:
    """Refuse a column that is not read, but tells scores of a dataset apart."""
    datasets = rows["dataset"]
    for name, cells in form.unread.items():
        # Other measurements, such as a second metric, differ from row to row and tell nothing apart.
        is_measured = cells.str.fullmatch(r"[-+\d.,%eE\s]*").all()
        if is_measured and not _CONDITION.fullmatch(str(name)):
            continue
        groups = datasets
        role = "dataset" if datasets.nunique() == 1 else "model"
        # A folder is often named after the model.
        if str(name).startswith("folder"):
            groups = datasets + "\n" + rows["model"]
            role = "seed"
        differs = cells.groupby(groups).transform("nunique") > 1
        if not differs.any():
            continue
        place = datasets[_first(differs)]
        values = sorted(set(cells[datasets == place]))
        title = form.table.titles[form.table.header.index(str(name))]
        differing = f"differs on {place:.26} ({first_of(values, 2):.30})"
        raise UserError(
            f"{form.table.where}: column {title!r:.26} is not read, but {differing}; say what it is, --columns "
            f"{role}={title:.26}, or leave it out, --columns ignore={title:.26}"
        )


def refuse_alike(where: str, what: str, names: Iterable[str]) -> None:
    """Refuse names of models or datasets that only a computer tells apart."""
    spellings: dict[str, str] = {}
    for name in sorted(set(names)):
        usual = unicodedata.normalize("NFKC", name).casefold().strip()
        other = spellings.setdefault(usual, name)
        if other != name:
            raise UserError(
                f"{where}: the {what}s {other!r:.60} and {name!r:.60} differ in case or Unicode form alone; write both "
                "in one way, or give them names that differ"
            )


def _is_lower_better(form: _Form) -> bool:
    """Return whether the better score is the lower one, as the table says.

    Raises:
        UserError: metrics of both kinds, or one that sounds so and of which nobody says it.
    """
    where = form.table.where
    for role in ("lower_is_better", "higher_is_better"):
        texts = {*form.texts(role)} - {""}
        answers = {text.lower() in ("true", "yes", "1", "1.0") for text in texts}
        if len(answers) > 1:
            raise UserError(
                f"{where}: of some scores less is better, of others more ({form.titles[role]}); compare them apart: "
                "--metric chooses one"
            )
        if answers:
            [is_so] = answers
            return is_so == (role == "lower_is_better")
    for name in sorted({*form.texts("metric"), form.measured}):
        if _LESS_IS_BETTER.search(name.replace("_", " ")):
            raise UserError(
                f"{where}: the better {name!r:.40} is usually the lower one; say --lower-is-better, or "
                "--lower-is-better=false if it is not so"
            )
    return False


def _refuse_units(form: _Form, rows: pd.DataFrame) -> None:
    """Refuse a model in fractions beside one in per cent, unless per cent signs say the unit."""
    written = form.cells["score" if form.is_by_seed else "mean"]
    if written.str.contains("%").any():
        return
    for place, on_place in _measured(rows).abs().groupby(rows["dataset"]):
        of_models = on_place.groupby(rows["model"])
        largest, means = of_models.max(), of_models.mean()
        low, high = str(largest.idxmin()), str(means.idxmax())
        may_be_fractions = 0 < largest[low] <= 1 < means[high]
        # Losses of 0.9 and 1.2 are in one unit: only a far larger mean is in per cent.
        if may_be_fractions and means[high] >= OTHER_UNIT * means[low]:
            raise UserError(
                f"{form.table.where}: on {place!s:.40}, {low:.40} seems to be in fractions and {high:.40} in per "
                "cent; write both in one unit, in per cent with % signs"
            )


def _measured(rows: pd.DataFrame) -> pd.Series:
    """Return the means of rows that have them, else their scores."""
    return rows["mean" if "error" in rows else "test_score"]


def seeds_in_order(labels: Iterable[str]) -> list[str]:
    """Return labels of seeds as a reader counts them: 9 before 10."""
    return sorted(labels, key=lambda seed: (len(seed), seed))


def _by_place(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the task of the paper's datasets; one name in two tasks is two datasets."""
    if (rows.groupby("dataset")["task"].nunique() > 1).any():
        rows = rows.assign(dataset=rows["task"] + " " + rows["dataset"])
    tasks = {name: dataset.task for name, dataset in DATASETS.items()}
    # `all` is the mean over datasets (`analysis.comparisons.contestants.ALL`)
    own = rows["task"].replace("all", "")
    return rows.assign(task=rows["dataset"].map(tasks).fillna(own))


def _counts(rows: pd.DataFrame, unit: str) -> str:
    """Return how many datasets, models and seeds, or other units, there are."""
    datasets = counted(rows["dataset"].nunique(), "dataset")
    models = counted(rows["model"].nunique(), "model")
    places = rows.groupby(CELL)
    counts = places["n"].first() if "error" in rows else places.size()
    fewest, most = int(counts.min()), int(counts.max())
    seeds = f"{counted(most, unit)} each"
    if fewest < most:
        seeds = f"{fewest} to {counted(most, unit)}"
    if "seed" in rows:
        labels = seeds_in_order(set(rows["seed"]))
        seeds += f" ({first_of(labels, 5)})"
    return f"{datasets}, {models}, {seeds}"
