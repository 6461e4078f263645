"""A table of scores in one form, whatever its own: a row for each score or mean, columns called by their roles.

The roles and their usual titles are in `analysis.comparisons.table_options.ROLES`.
"""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.comparisons.table_options import ROLES, SPREAD_KINDS, TableOptions
from analysis.statistics.crossed import Array
from analysis.statistics.learning_rate_selection import CELL
from analysis.store.text_table import TextTable, column_name
from common.errors import UserError, nearest
from common.plain_text import first_of

_TIDY = ("model", "dataset", "seed", "score")
"""Roles of the columns of a tidy table, with a row for each score."""
_ONLY_DATASET = "scores"
"""Name of the dataset where a table names none."""
NAME_ROLES = (*CELL, "metric")
"""Roles of columns with names."""
_OF_MEAN = {"mean", "n", *(spread.replace("-", "_") for spread in SPREAD_KINDS)}
"""Roles of columns about means."""
_SEED = re.compile(r"(seed|run)_?\d+")
"""The title of a column that says that it is a seed: seed0, run_1."""
_PAIR = r"^([-+]?[\d.,]+ *%?) *(?:±|\+/?-|\\pm|\() *([\d.,]+ *%?)\)?$"
"""A mean and the spread beside it, as two groups: 91.2 ± 0.4, 91.2 +- 0.4, 91.2 (0.4). Marks of LaTeX and Markdown
(`_MARKS`) have to be removed before."""
_MARKS = r"\\(textbf|mathbf|underline|bf)\b|[${}*_^]"
"""Commands and characters by which LaTeX and Markdown print a number in bold, in mathematics or underlined."""
EXPECTED = "columns model, dataset, seed, score (or seed0, seed1...; or mean, sd, n)"
"""What a refusal says that a table should have."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A table of scores in one form, whatever its own: a row for each score or mean, columns called by their roles.

    Rows are numbered from 0 in every field. `table.places` follows these numbers; `table.rows` stays as it was written.
    """

    table: TextTable
    """The table as it was written, with the place of each row for refusals."""
    cells: pd.DataFrame
    """The cells as texts, in columns called by their roles: `model`, `score` and so on."""
    titles: Mapping[str, str]
    """By role the title of its column, as `TextTable.header` has it."""
    measured: str
    """The title of the column with the scores or means; empty where the scores of a row were in several columns."""
    unread: pd.DataFrame
    """The columns without a role, under their titles, except those that the owner says to ignore."""
    not_read: Sequence[str]
    """The titles of all columns without a role, as they are written."""

    @property
    def is_by_seed(self) -> bool:
        """Whether a row is a seed's score, not a mean over seeds."""
        return {"seed", "score"} <= {*self.cells}

    def texts(self, role: str) -> pd.Series:
        """Return the column of a role; where there is none, a column with one name for all rows."""
        same_name = _ONLY_DATASET if role == "dataset" else ""
        return self.cells.get(role, pd.Series(same_name, self.cells.index))

    def numbers(self, role: str) -> Array:
        """Return the column of a role as numbers, nan where one is missing."""
        return self.table.numbers(self.titles.get(role, role), self.cells[role])

    def need(self, role: str) -> None:
        """Refuse a table without a column of a role."""
        if role in self.cells:
            return
        header = ", ".join(filter(None, self.table.header))
        # Every role of a tidy table that lacks a column is named, so that the user's next call can name them
        # all. Where none does, it is the role itself.
        lacking = [name for name in _TIDY if name not in self.cells]
        option = ",".join(f"{name}=TITLE" for name in lacking or [role])
        raise UserError(
            f"{self.table.where}: there is no column {role} among {header:.60}; name yours with --columns {option}, "
            f"or write {EXPECTED}"
        )

    def refuse(self, rows: pd.DataFrame, is_wrong: pd.Series, fault: str) -> None:
        """Refuse the first of the rows that have a fault, if there is one.

        Args:
            rows: the scores with their names, in the order of `cells`.
            is_wrong: which of the rows have the fault.
            fault: the end of a sentence that begins with the row: `has no finite score`.
        """
        if is_wrong.any():
            row = first_row(is_wrong)
            names = ("model", "dataset", "metric", "seed")
            texts = [str(rows.at[row, name]) for name in names if name in rows]
            what = ", ".join(filter(None, texts))
            raise UserError(f"{self.table.at(row)} ({what:.80}) {fault}")

    def keep(self, rows: pd.Index) -> Form:
        """Return the form with these rows, by their numbers, of which one may be there several times."""
        # Refusals print the places.
        places = [self.table.places[row] for row in rows]
        table = replace(self.table, places=places)
        cells = self.cells.loc[rows].reset_index(drop=True)
        unread = self.unread.loc[rows].reset_index(drop=True)
        return replace(self, table=table, cells=cells, unread=unread)


def form_of(table: TextTable, options: TableOptions) -> Form:
    """Return a table in the form with a row for each score or mean.

    Raises:
        UserError: a title that is needed is there twice, one that the owner names is of no column, or there are no
            scores.
    """
    # Which columns have a role, as the owner says or by their titles.
    named = _named(table, options)
    titles = _titles(table, named)
    measured = titles.get("score", "") or titles.get("mean", "")

    # Scores may stand in several columns of a row: one for each seed or, as papers print them, for each
    # dataset.
    seeds = _seed_columns(table, titles, named)
    datasets: list[str] = []
    if not (measured or seeds or "dataset" in titles):
        datasets = _columns_of_pairs(table, {*titles.values(), *named["ignore"]})
    if seeds:
        # The titles of these columns become the column of seeds (`_long`), in place of any that the table
        # has: where the owner names several columns as seeds, `titles` has the first of them.
        titles.pop("seed", None)

    # Where there are scores of seeds, means next to them are not read.
    if seeds or {"score", "seed"} <= {*titles}:
        titles = {role: title for role, title in titles.items() if role not in _OF_MEAN}
    used = [*titles.values(), *seeds, *datasets]
    for title in used:
        if table.header.count(title) > 1:
            raise UserError(
                f"{table.where}: the header has {title!r} twice; keep one of these columns"
            )

    # The cells in columns called by their roles, and what is left.
    columns = pd.DataFrame([*table.rows], columns=table.header, dtype=object)
    # Of columns with one title, none of which has a role, the first stands for all.
    columns = columns.loc[:, ~columns.columns.duplicated()]
    cells = pd.DataFrame(index=columns.index)
    for role, title in titles.items():
        # `--columns n=5` names no column: it is the number of seeds itself.
        cells[role] = columns.get(title, title)

    others = [name for name in dict.fromkeys(table.header) if name not in ("", *used)]
    # Columns that the owner says to ignore are still listed as not read.
    unread = [name for name in others if name not in named["ignore"]]

    # By title, in small letters, the title as it is written.
    written = dict(zip(table.header, table.titles, strict=True))
    form = Form(
        table=table,
        cells=cells,
        titles=titles,
        measured=measured,
        unread=columns[unread],
        not_read=[written[name] for name in others],
    )

    # A row for each score or mean, where a row has several.
    if seeds:
        form = _long(form, columns[seeds], "seed", "score")
    if datasets:
        # A dataset is called as the title of its column is written.
        of_datasets = columns[datasets].rename(columns=written)
        # Papers print a dash where there is no score.
        of_datasets = of_datasets.replace(["-", "\N{EN DASH}", "\N{EM DASH}"], "")
        form = _long(form, of_datasets, "dataset", "mean")

    if form.cells.empty:
        raise UserError(f"{table.where} has a header but no scores")
    # Names that differ only in the number of blanks are one.
    for role in {*NAME_ROLES} & {*form.cells}:
        form.cells[role] = form.cells[role].str.replace(" +", " ", regex=True)
    return form


def _named(table: TextTable, options: TableOptions) -> dict[str, list[str]]:
    """Return by role the columns that the table's owner names, as `TextTable.header` has their titles.

    Raises:
        UserError: a title of no column, or several columns for a role that has one.
    """
    named = defaultdict[str, list[str]](list)
    for role, title in options.titles:
        columns = fnmatch.filter(table.header, column_name(title))
        # `n=5` without a column of that title is the number of seeds of all means itself.
        if role == "n" and title.isdecimal():
            columns = columns or [title]
        if not columns:
            known = list(filter(None, table.titles))
            raise UserError(
                f"--columns {role}={title}: {table.where} has no such column among {first_of(known, 8):.120}"
                f"{nearest(title, known)}"
            )

        # Several columns may be seeds, each with the scores of one seed, and several may be ignored.
        named[role] += columns
        if len(named[role]) > 1 and role not in ("seed", "ignore"):
            raise UserError(
                f"--columns {role}={title}: give one column, not {first_of(named[role], 4)}"
            )

    return named


def _titles(table: TextTable, named: Mapping[str, list[str]]) -> dict[str, str]:
    """Return by role the title of its column; roles without a column are absent.

    Raises:
        UserError: several columns may be the scores.
    """
    header = [title for title in table.header if title not in named["ignore"]]
    titles: dict[str, str] = {}
    for role, usual_titles in ROLES.items():
        # A role that the owner does not name has an empty list in `named`, which is a `defaultdict`. Of
        # several titles the first counts.
        of_role = named[role] or [title for title in usual_titles if title in header]
        if of_role and role != "ignore":
            titles[role] = of_role[0]

    without_role = {*header} - {*titles.values()}
    other_scores = {*ROLES["score"]} & without_role
    if "score" in titles and other_scores and not named["score"]:
        several = ", ".join(sorted(other_scores | {titles["score"]}))
        raise UserError(
            f"{table.where} has several columns of scores, {several}; choose one: --columns score={titles['score']}"
        )

    # Scores without seeds are means. The column then has both roles, and is read as that of means, since it
    # takes both a seed and a score to be read by seed (`Form.is_by_seed`).
    if "score" in titles and "seed" not in titles:
        titles.setdefault("mean", titles["score"])
    return titles


def _seed_columns(
    table: TextTable, titles: Mapping[str, str], named: Mapping[str, list[str]]
) -> list[str]:
    """Return the columns that have the scores of one seed each, by their titles or since the table's owner says so.

    Raises:
        UserError: their titles may be years or steps.
    """
    # A column of scores has the scores of all seeds.
    if "score" in titles:
        return []
    # One column is the seeds of the rows; several that the owner names are the scores of a seed each.
    if "seed" in titles:
        return named["seed"] if len(named["seed"]) > 1 else []
    with_role = {*titles.values(), *named["ignore"]}
    without_role = [name for name in table.header if name not in with_role]
    called_seeds = [name for name in without_role if _SEED.fullmatch(name)]
    numbers = [name for name in without_role if name.isdecimal()]
    if called_seeds or not numbers:
        return called_seeds
    values = [int(name) for name in numbers]
    may_be_steps = all(value >= 100 and value % 100 == 0 for value in values)
    may_be_years = all(1950 <= value <= 2100 for value in values)
    if may_be_steps or may_be_years:
        columns = ",".join(f"seed={name}" for name in numbers[:6])
        raise UserError(
            f"{table.where}: the columns {first_of(numbers, 4)} may be years or steps; if they are seeds, say so: "
            f"--columns {columns}"
        )

    return numbers


def _columns_of_pairs(table: TextTable, others: Collection[str]) -> list[str]:
    """Return the columns that are datasets, as papers print them: their cells are means with spreads, `91.2 ± 0.4`.

    `others` are columns that are something else.
    """
    datasets = []
    for name in table.header:
        if name in others:
            continue
        means = pairs_in(pd.Series(table.texts(name), dtype=object))[0]
        # A single pair is enough: the other cells may be empty or a dash.
        if means.notna().any():
            datasets.append(name)
    return datasets


def _long(
    form: Form, columns: pd.DataFrame, title_role: str, content_role: str
) -> Form:
    """Return the form with a row for each filled cell of some columns, in place of a row with all of them.

    Args:
        form: the form with the cells of the other columns.
        columns: the columns to split, under their titles.
        title_role: role of the titles, such as `seed`.
        content_role: role of the cells, such as `score`.
    """
    long = columns.melt(
        var_name=title_role, value_name=content_role, ignore_index=False
    )
    # The index still says which row a cell was in: cells of one row come together again.
    filled = long[long[content_role] != ""].sort_index(kind="stable")
    repeated = form.keep(filled.index)
    cells = repeated.cells.join(filled.reset_index(drop=True))
    return replace(repeated, cells=cells)


def of_metric(form: Form, metric: str) -> tuple[Form, list[str]]:
    """Return the form with the rows of one metric, and the datasets that have no such row.

    Raises:
        UserError: the table does not have the metric.
    """
    metrics, datasets = form.texts("metric"), form.texts("dataset")
    is_chosen = metrics == metric
    if not is_chosen.any():
        raise UserError(
            f"{form.table.where} has no metric {metric!r}{nearest(metric, set(metrics))}"
        )
    without = sorted({*datasets} - {*datasets[is_chosen]})
    return form.keep(form.cells.index[is_chosen]), without


def pairs_in(cells: pd.Series) -> pd.DataFrame:
    """Return means (column 0) and the spreads beside them (column 1), both missing where a cell is no such pair."""
    plain = cells.str.replace("\N{MINUS SIGN}", "-").str.replace(_MARKS, "", regex=True)
    return plain.str.strip().str.extract(_PAIR)


def first_row(is_wrong: pd.Series) -> int:
    """Return the number of the first row that is wrong; at least one is."""
    first = int(is_wrong.to_numpy().argmax())  # the first of the largest, which is True
    return int(is_wrong.index[first])
