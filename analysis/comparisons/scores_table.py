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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.comparisons.table_options import ROLES, SPREADS, TableOptions
from analysis.published_cells import NORMAL_QUANTILE
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
_ABSENT: dict[str, str | float] = {
    "dataset": "scores",
    "lr": 0.0,
    "validation_score": np.nan,
}
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
    """Return the table in a file; None of what is no table, or is one of runs (`analysis.store.runs_table`).

    Raises:
        UserError: the file cannot be read.
    """
    if not path.is_file():
        return None
    content = read_bounded(path, MOST_LARGE)
    if content.startswith(PARQUET):
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            is_runs = {*file.schema_arrow.names} >= _OF_RUNS
            return (
                None if is_runs else text_table_of(file.read().to_pandas(), str(path))
            )
        except (pa.ArrowException, OSError, ValueError, MemoryError):
            return None
    if path.suffix.lower() in (".txt", ".json", ".jsonl", ".md", ".tex"):
        raise UserError(f"{path} is not a table; write it as CSV (.csv) with {_FORM}")
    is_text = path.suffix.lower() in ENDINGS
    is_scores = (
        is_text
        and not {*read_text_table(path, content, header_alone=True).header} >= _OF_RUNS
    )
    return read_text_table(path, content) if is_scores else None


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
    unit = "seed"
    if form.titles["score"] and form.titles["seed"]:
        numbers = _of_seeds(form)
    else:
        numbers = _of_means(form, options.spread)
        if form.titles["n"] == "n_instances":
            unit = "test instance"
    names = {role: form.texts(role) for role in (*CELL, "metric")}
    rows = pd.DataFrame(names).replace(" +", " ", regex=True).join(numbers)
    left_out: list[str] = []
    if metric:
        of_metric = rows[rows["metric"] == metric]
        if of_metric.empty:
            raise UserError(
                f"{table.where} has no metric {metric!r}{nearest(metric, set(rows['metric']))}"
            )
        left_out = sorted({*rows["dataset"]} - {*of_metric["dataset"]})
        rows = of_metric
    form.cells = form.cells.loc[rows.index]
    _refuse_incomparable(form, rows)
    lower_is_better = options.lower_is_better
    if lower_is_better is None:
        lower_is_better = _is_lower_better(form, rows)
    if not lower_is_better:
        _refuse_units(form, rows)
    rows = _by_place(rows)
    if "lr" in rows and (rows.groupby(CELL)["lr"].nunique() > 1).any():
        rows = select_runs(rows, selection)
    said = [_counts(rows, unit), *notes]
    if left_out:
        said.append(f"without {metric}: {first_of(left_out, 4)}")
    if form.unread:
        written = [table.titles[table.header.index(name)] for name in form.unread]
        said.append(f"columns not read: {first_of(written, 8)}")
    return ScoresTable(
        where=table.where,
        # Names in one order, so that no number depends on that of the rows
        rows=rows.sort_values(["model", "dataset"], kind="stable", ignore_index=True),
        read=f"Read: {'; '.join(said)}.",
        lower_is_better=lower_is_better,
    )


@dataclass(kw_only=True)
class _Form:
    """A table with all scores in one column, and what its columns are for."""

    table: TextTable
    cells: pd.DataFrame
    """Its texts, each title once."""
    titles: dict[str, str]
    """By role; empty where there is none."""
    measured: str
    """The title of the scores, before they were put in one column."""
    unread: list[str]
    ignored: list[str]
    """What its owner says is not to be read."""

    def texts(self, role: str) -> Any:
        """Return the column of a role, or what stands for it where there is none."""
        title = self.titles[role]
        return self.cells[title] if title else _ABSENT.get(role, "")

    def need(self, *roles: str) -> None:
        """Refuse a table without a column of one of some roles."""
        for role in roles:
            if self.titles[role]:
                continue
            header = ", ".join(filter(None, self.table.header))
            lacking = [name for name in _TIDY if not self.titles[name]]
            named = ",".join(f"{name}=TITLE" for name in lacking or [role])
            raise UserError(
                f"{self.table.where}: there is no column {role} among {header:.60}; name yours with --columns {named}, "
                f"or write {_FORM}"
            )


def _form_of(table: TextTable, options: TableOptions) -> _Form:
    """Return a table with a row for each score.

    Raises:
        UserError: a title is there twice, or is of no column.
    """
    named = _named(table, options)
    titles = _titles(table, named)
    measured = titles["score"] or titles["mean"]
    seeds = _seed_columns(table, titles, named)
    datasets: list[str] = []
    if not (measured or seeds or titles["dataset"]):  # as papers print them
        datasets = [
            name
            for name in table.header
            if name not in {*titles.values(), *named["ignore"]}
            and _pairs(pd.Series(table.texts(name), dtype=object))[0].notna().any()
        ]
    used = [*filter(None, titles.values()), *seeds, *datasets]
    if seeds or (titles["score"] and titles["seed"]):
        of_means = {titles[role] for role in ("mean", "n", *map(_role, SPREADS))}
        used = [title for title in used if title not in of_means]
    for title in used:
        if table.header.count(title) > 1:
            raise UserError(
                f"{table.where}: the header has {title!r} twice; keep one of these columns"
            )
    cells = pd.DataFrame([*table.rows], columns=table.header, dtype=object)
    cells = cells.loc[:, ~cells.columns.duplicated()]
    for columns, roles in ((seeds, ("seed", "score")), (datasets, ("dataset", "mean"))):
        if columns:
            table, cells = _long(table, cells, columns, roles)
            titles |= {role: f"<{role}>" for role in roles}
    if cells.empty:
        raise UserError(f"{table.where} has a header but no scores")
    read = {"", *used} - {*named["ignore"]}
    return _Form(
        table=table,
        cells=cells,
        titles=titles,
        measured=measured,
        unread=[name for name in cells if name in table.header and name not in read],
        ignored=named["ignore"],
    )


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
    """Return the title of each role, empty where there is none.

    Raises:
        UserError: several have scores.
    """
    header = [title for title in table.header if title not in named["ignore"]]
    titles: dict[str, str] = {
        role: next(
            (title for title in named[role] or usual if title in header),
            "".join(named[role]),
        )
        for role, usual in ROLES.items()
    }
    scores = {*ROLES["score"]} & {*header} - {*titles.values()}
    if titles["score"] and scores and not named["score"]:
        several = ", ".join(sorted(scores | {titles["score"]}))
        raise UserError(
            f"{table.where} has several columns of scores, {several}; choose one: --columns score={titles['score']}"
        )
    if not (titles["seed"] or titles["mean"]):
        titles["mean"] = titles["score"]
    return titles


def _seed_columns(
    table: TextTable, titles: Mapping[str, str], named: Mapping[str, list[str]]
) -> list[str]:
    """Return the columns that are seeds, by their titles or since the table's owner says so.

    Raises:
        UserError: they may be years or steps.
    """
    if titles["score"]:
        return []
    if titles["seed"]:
        return named["seed"] if len(named["seed"]) > 1 else []
    taken = {*titles.values(), *named["ignore"]}
    free = [name for name in table.header if name not in taken]
    named_so = [name for name in free if _SEED.fullmatch(name)]
    numbers = [name for name in free if name.isdecimal()]
    if named_so or not numbers:
        return named_so
    counts = [int(name) for name in numbers]
    are_steps = all(count >= 100 and count % 100 == 0 for count in counts)
    if are_steps or all(1950 <= count <= 2100 for count in counts):
        raise UserError(
            f"{table.where}: the columns {first_of(numbers, 4)} may be years or steps; if they are seeds, say so: "
            f"--columns {','.join(f'seed={name}' for name in numbers[:6])}"
        )
    return numbers


def _long(
    table: TextTable,
    cells: pd.DataFrame,
    columns: Sequence[str],
    roles: tuple[str, str],
) -> tuple[TextTable, pd.DataFrame]:
    """Return a table with a row for each filled cell of some columns, whose title and content have a role."""
    title, content = (f"<{role}>" for role in roles)  # no header has these
    others = [name for name in cells if name not in columns]
    long = cells.melt(others, columns, title, content, ignore_index=False)
    long = long[long[content] != ""].sort_index(kind="stable")
    if roles[0] == "dataset":
        long = long[~long[content].isin(["-", "\N{EN DASH}", "\N{EM DASH}"])]
        written = dict(zip(table.header, table.titles, strict=True))
        long[title] = long[title].map(written)
    places = [table.places[row] for row in long.index]
    return replace(table, places=places), long.reset_index(drop=True)


def _of_seeds(form: _Form) -> pd.DataFrame:
    """Return a row for each score of a seed."""
    form.need("model")
    numbers: dict[str, Any] = {}
    for role in ("lr", "validation_score", "score"):
        numbers[role] = form.texts(role)
        if form.titles[role]:
            numbers[role] = form.table.numbers(form.titles[role], numbers[role])
    rows = pd.DataFrame({"seed": form.texts("seed"), **numbers})
    half_digits = form.table.half_digits(form.texts("score"))
    return rows.rename(columns={"score": "test_score"}).assign(half_digit=half_digits)


def _of_means(form: _Form, spread: str) -> pd.DataFrame:
    """Return a row for each mean, with its standard error and number of seeds."""
    table, titles = form.table, form.titles
    form.need("model")
    if titles["seed"] or not titles["mean"]:
        form.need("score")
    means = form.texts("mean")
    spreads = [one for one in SPREADS if titles[_role(one)]]
    pairs = _pairs(means)
    if pairs[0].notna().any():
        _refuse_pairs(table, means, pairs, spread)
        means, widths = pairs[0], pairs[1]
    else:
        if not spreads:
            form.need("seed")
        if several := [one for one in spreads if one != (spread or spreads[0])]:
            raise UserError(
                f"{table.where} has {' and '.join(spreads)} of a mean, where one is meant; leave it out: --columns "
                f"ignore={titles[_role(several[-1])]}"
            )
        [spread] = spreads
        widths = form.texts(_role(spread))
    if not titles["n"]:
        raise UserError(
            f"{table.where} does not say how many seeds a mean is over; give a column n, or --columns n=5"
        )
    n_seeds = [titles["n"]] * len(means)  # the same number for all
    if titles["n"] in form.cells:
        n_seeds = form.texts("n")
    counts, found = table.numbers("n", n_seeds), table.numbers(spread, widths)
    # What is printed as 0.0 is anything below half of its last digit; the largest of it is taken.
    is_exact = np.isnan(table.half_digits(means))
    largest = np.where(is_exact, 0.0, np.nan_to_num(table.half_digits(widths)))
    from scipy import special  # takes as long to import as a table to read

    counts = np.where(counts < 2, np.nan, counts)  # one seed has no error
    divisors = {
        "sd": np.sqrt(counts),
        "se": counts / counts,
        "ci95": NORMAL_QUANTILE * counts / counts,
        "ci95-t": special.stdtrit(counts - 1, 0.975),
    }
    numbers = {
        "mean": table.numbers(titles["mean"], means),
        "error": np.where(found == 0, largest, found) / divisors[spread],
        "n": table.numbers("n", n_seeds),
    }
    return pd.DataFrame(numbers, index=form.cells.index)


def _role(spread: str) -> str:
    return spread.replace("-", "_")


def _pairs(cells: pd.Series) -> pd.DataFrame:
    """Return means and what stands beside them, missing where a cell is no such pair."""
    plain = cells.str.replace("\N{MINUS SIGN}", "-").str.replace(_MARKS, "", regex=True)
    return plain.str.strip().str.extract(_PAIR)


def _refuse_pairs(
    table: TextTable, cells: pd.Series, pairs: pd.DataFrame, spread: str
) -> None:
    """Refuse pairs of which nobody says what the second number is, and cells that are none among them."""
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


def _faults(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return by what is wrong which rows it is of."""
    faults = {
        f"has no printable {role}, or one that begins like a formula": rows[role].map(
            lambda name: name_fault(name) is not None
        )
        for role in ("model", "dataset")
    }
    datasets = rows["dataset"].map(column_name)
    faults["is a mean over datasets; delete such rows: the mean is computed"] = (
        datasets.str.fullmatch(_AVERAGE)
    )
    if "error" in rows:
        counts = rows["n"]
        return faults | {
            "has no finite mean": ~np.isfinite(rows["mean"]),
            "has no whole number of seeds": ~((counts >= 1) & (counts % 1 == 0)),
            "has no spread from 0 on": ~(rows["error"] >= 0) & (counts > 1),
        }
    return faults | {
        "is computed from seeds, and is none; delete such rows": rows[
            "seed"
        ].str.fullmatch(_SUMMARY),
        "has no finite score; of a run that diverged give the score of its last checkpoint, or delete it and say so "
        "where you report the others": ~np.isfinite(rows["test_score"]),
        "has no learning rate; give one, or leave the column out": ~np.isfinite(
            rows["lr"]
        ),
    }


def _repeats(rows: pd.DataFrame, unread: pd.DataFrame) -> dict[str, pd.Series]:
    """Return by what is wrong which rows it is of, where rows are held against each other."""
    place = ["task", "dataset"]
    key = ["model", *place]
    metrics = first_of(sorted(set(rows["metric"])), 4)
    remedy = "; keep one of them"
    if varying := [str(name) for name in unread if unread[name].nunique() > 1]:
        remedy = (
            f"; if {first_of(varying, 3)} (not read) tells them apart, say what it is, --columns seed={varying[0]} or "
            f"dataset={varying[0]}, or keep one value of it"
        )
    faults = {
        f"has another metric than the dataset's first row; choose one with --metric ({metrics:.60})": rows[
            "metric"
        ]
        != rows.groupby(place)["metric"].transform("first"),
    }
    if "error" in rows:
        return faults | {f"is there in an earlier row{remedy}": rows.duplicated(key)}
    is_tuned = rows.groupby(key)["lr"].transform("nunique") > 1
    return faults | {
        f"is the same seed as an earlier row{remedy}": rows.duplicated(
            [*key, "lr", "seed"]
        ),
        "has no validation_score to choose among several learning rates; keep one rate, or give one (a run that "
        "diverged: any that is lower than all others)": is_tuned
        & ~np.isfinite(rows["validation_score"]),
    }


def _refuse_rows(
    table: TextTable, rows: pd.DataFrame, faults: Mapping[str, pd.Series]
) -> None:
    """Raise a `UserError` about the first row with the first fault."""
    for fault, wrong in faults.items():
        if wrong.any():
            row = _first(wrong)
            names = ("model", "dataset", "metric", "seed")
            texts = [str(rows.at[row, name]) for name in names if name in rows]
            what = ", ".join(filter(None, texts))
            raise UserError(f"{table.at(row)} ({what:.80}) {fault}")


def _first(wrong: pd.Series) -> int:
    """Return the first row that is."""
    return int(wrong.index[int(wrong.to_numpy().argmax())])


def _refuse_incomparable(form: _Form, rows: pd.DataFrame) -> None:
    """Refuse rows without a name or number, that are alike, or that a column tells apart which is not read."""
    _refuse_rows(form.table, rows, _faults(rows))
    for role in ("model", "dataset"):
        refuse_alike(form.table.where, role, rows[role])
    unread = [name for name in form.unread if name not in form.ignored]
    for name in unread:
        cells = form.cells[name]
        is_folder = name.startswith("folder")  # often named after the model
        is_measured = cells.str.fullmatch(r"[-+\d.,%eE\s]*").all()
        if is_measured and not _CONDITION.fullmatch(name):
            continue
        by = rows["dataset"] + "\n" + rows["model"] if is_folder else rows["dataset"]
        differs = cells.groupby(by).transform("nunique") > 1
        if differs.any():
            place = rows["dataset"][_first(differs)]
            values = sorted(set(cells[rows["dataset"] == place]))
            role = "dataset" if rows["dataset"].nunique() == 1 else "model"
            if is_folder:
                role = "seed"
            title = form.table.titles[form.table.header.index(name)]
            raise UserError(
                f"{form.table.where}: column {title!r:.26} is not read, but differs on {place:.26} "
                f"({first_of(values, 2):.30}); say what it is, --columns {role}={title:.26}, or leave it out, "
                f"--columns ignore={title:.26}"
            )
    _refuse_rows(form.table, rows, _repeats(rows, form.cells[unread]))


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


def _is_lower_better(form: _Form, rows: pd.DataFrame) -> bool:
    """Return whether the better score is the lower one, as the table says.

    Raises:
        UserError: metrics of both kinds, or one that sounds so and of which nobody says it.
    """
    where = form.table.where
    for role in ("lower_is_better", "higher_is_better"):
        said = {*form.texts(role)} - {""}
        are_so = {text.lower() in ("true", "yes", "1", "1.0") for text in said}
        if len(are_so) > 1:
            raise UserError(
                f"{where}: of some scores less is better, of others more ({form.titles[role]}); compare them apart: "
                "--metric chooses one"
            )
        if are_so:
            return are_so == {role == "lower_is_better"}
    for name in sorted({*rows["metric"], form.measured}):
        if _LESS_IS_BETTER.search(name.replace("_", " ")):
            raise UserError(
                f"{where}: the better {name!r:.40} is usually the lower one; say --lower-is-better, or "
                "--lower-is-better=false if it is not so"
            )
    return False


def _refuse_units(form: _Form, rows: pd.DataFrame) -> None:
    """Refuse a model in fractions beside one in per cent; where cells have per cent signs, all have."""
    values = form.texts("score" if "seed" in rows else "mean")
    if values.str.contains("%").any():
        return
    for place, on_place in _measured(rows).abs().groupby(rows["dataset"]):
        of_models = on_place.groupby(rows["model"])
        largest, means = of_models.max(), of_models.mean()
        low, high = str(largest.idxmin()), str(means.idxmax())
        is_fraction = 0 < largest[low] <= 1 < means[high]
        if is_fraction and means[high] >= OTHER_UNIT * means[low]:
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
    places = rows.groupby(CELL)
    counts = places["n"].first() if "error" in rows else places.size()
    fewest, most = int(counts.min()), int(counts.max())
    seeds = f"{counted(most, unit)} each"
    if fewest < most:
        seeds = f"{fewest} to {counted(most, unit)}"
    if "seed" in rows:
        seeds += f" ({first_of(seeds_in_order(set(rows['seed'])), 5)})"
    datasets = counted(rows["dataset"].nunique(), "dataset")
    return f"{datasets}, {counted(rows['model'].nunique(), 'model')}, {seeds}"
