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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
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

_OF_RUNS = {"lr", "test_score"}
"""Columns of a runs table that no other has."""
_ABSENT: dict[str, str | float] = {
    "dataset": "scores",
    "lr": 0.0,
    "validation_score": np.nan,
}
_SEED = re.compile(r"(seed|run)_?\d+")
"""A column that says that it is a seed."""
_CONDITIONS = frozenset(
    [
        "epoch",
        "step",
        "global_step",
        "checkpoint",
        "fold",
        "layer",
        "split",
        "shots",
        "n_shot",
        "num_fewshot",
    ]
)
"""Columns of numbers that are no measurements: where they vary, scores are of several things."""
_SUMMARIES = frozenset(
    [
        "mean",
        "std",
        "sd",
        "stdev",
        "se",
        "sem",
        "avg",
        "average",
        "best",
        "median",
        "max",
        "min",
    ]
)
"""In place of a seed: what is computed from seeds."""
_AVERAGE = re.compile(
    r"((macro|micro|overall|task|total)_)?(avg|average|mean)\.?|overall"
)
_LESS_IS_BETTER = frozenset(
    [
        "loss",
        "perplexity",
        "ppl",
        "error",
        "err",
        "wer",
        "cer",
        "ter",
        "mse",
        "rmse",
        "mae",
        "nll",
        "bits",
        "bpb",
        "bpc",
        "fid",
        "latency",
        "runtime",
    ]
)
"""Words of a metric of which less is usually better."""
_PAIR = re.compile(r"([-+]?[\d.,]+ *%?) *(?:±|\+/?-|\\pm|\() *([\d.,]+ *%?)\)?")
"""A mean with what stands beside it, without LaTeX's marks: 91.2 ± 0.4, 91.2 (0.4)."""
_MARKS = re.compile(r"\\(textbf|mathbf|underline|bf)\b|[${}*_^]")
OTHER_UNIT = 20.0
"""A score in per cent is so many times one in fractions, unless one model is five times as good as the other."""
_FORM = (
    "model, dataset, seed and score, a column a seed (seed0, seed1), or model, dataset, mean, sd and n; --columns "
    "ROLE=TITLE renames"
)


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
    if path.suffix.lower() in (".json", ".jsonl", ".md", ".tex", ".html", ".yaml"):
        raise UserError(
            f"{path} is not a table; write it as CSV with the columns {_FORM}"
        )
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
    table, titles, used = _with_roles(table, options)
    if not table.rows:
        raise UserError(f"{table.where} has a header but no scores")
    used |= {title for title in titles.values() if title}
    asked = dict(titles)
    if titles["score"] or titles["seed"]:
        rows = _seed_rows(table, titles)
        used -= {titles[role] for role in ("mean", *map(_role, SPREADS), "n")}
    else:
        rows = _summary_rows(table, titles, options.spread)
    left_out: list[str] = []
    if metric:
        if metric not in set(rows["metric"]):
            raise UserError(
                f"{table.where} has no metric {metric!r}{nearest(metric, set(rows['metric']))}"
            )
        of_metric = rows[rows["metric"] == metric]
        left_out = sorted({*rows["dataset"]} - {*of_metric["dataset"]})
        rows = of_metric
    _refuse_rows(table, rows, _faults(rows))
    refuse_alike(table.where, "model", rows["model"])
    refuse_alike(table.where, "dataset", rows["dataset"])
    ignored = _given(table, options).get("ignore", [])
    unread = _unread(table, rows, used - {*ignored}, ignored)
    _refuse_rows(table, rows, _repeats(table, rows, unread))
    lower_is_better = _direction(table, rows, asked, options)
    if not lower_is_better:
        _refuse_units(table, rows, asked)
    if (rows.groupby("dataset")["task"].nunique() > 1).any():
        # One name in two tasks is two datasets
        rows = rows.assign(dataset=rows["task"] + " " + rows["dataset"])
    of_paper = rows["dataset"].isin(list(DATASETS))
    tasks = [DATASETS[name].task for name in rows["dataset"][of_paper]]
    rows.loc[of_paper, "task"] = tasks
    is_tuned = "lr" in rows and (rows.groupby(CELL)["lr"].nunique() > 1).any()
    if is_tuned:
        rows = select_runs(rows, selection)
    # Names in one order, so that no number depends on that of the rows
    rows = rows.sort_values(["model", "dataset"], kind="stable", ignore_index=True)
    is_of_instances = "error" in rows and asked["n"] == "n_instances"
    unit = "test instance" if is_of_instances else "seed"
    said = [_counts(rows, unit), *notes]
    if left_out:
        said.append(f"without {metric}: {first_of(left_out, 4)}")
    if unread:
        said.append(f"columns not read: {first_of(unread, 8)}")
    return ScoresTable(
        where=table.where,
        rows=rows,
        read=f"Read: {'; '.join(said)}.",
        lower_is_better=lower_is_better,
    )


def _with_roles(
    table: TextTable, options: TableOptions
) -> tuple[TextTable, dict[str, str], set[str]]:
    """Return the table with all scores in one column, the title of each role, and those that were seeds or datasets."""
    given = _given(table, options)
    titles = {
        role: next((title for title in spellings if title in table.header), "")
        for role, spellings in ROLES.items()
    }
    titles |= {role: names[0] for role, names in given.items()}
    taken = {title for role, title in titles.items() if title and role != "score"}
    scores = [title for title in ROLES["score"] if title in {*table.header} - taken]
    if "score" not in given and len(scores) > 1:
        raise UserError(
            f"{table.where} has several columns of scores, {', '.join(scores)}; choose one: --columns score={scores[0]}"
        )
    twice = [title for title in titles.values() if table.header.count(title) > 1]
    if twice:
        raise UserError(
            f"{table.where}: the header has {twice[0]!r} twice; keep one of these columns"
        )
    has_spread = any(titles[_role(spread)] for spread in SPREADS)
    if titles["score"] and not titles["seed"] and not titles["mean"]:
        is_mean = has_spread or options.spread or _is_paired(table, titles["score"])
        if is_mean:
            titles["mean"], titles["score"] = titles["score"], ""
    seeds = given.get("seed", [])
    if not titles["score"] and len(seeds) < 2:
        seeds = [] if titles["seed"] else _seed_columns(table, taken)
    if seeds and not titles["score"]:
        table = _long(table, seeds, "seed", "score")
        return table, titles | {"seed": "seed", "score": "score"}, {*seeds}
    is_means = not (titles["score"] or titles["seed"] or titles["mean"])
    if is_means and not titles["dataset"]:  # a column for each dataset, as papers have
        datasets = [name for name in table.header if _is_paired(table, name)]
        if datasets:
            table = _long(table, datasets, "dataset", "mean")
            return table, titles | {"dataset": "dataset", "mean": "mean"}, {*datasets}
    return table, titles, set()


def _given(table: TextTable, options: TableOptions) -> dict[str, list[str]]:
    """Return the columns that the table's owner names, by role."""
    found: dict[str, list[str]] = {}
    for role, patterns in options.titles.items():
        for pattern in patterns:
            columns = fnmatch.filter(table.header, column_name(pattern))
            if role == "n" and pattern.isdecimal() and not columns:
                columns = [pattern]  # the same number for all
            if not columns:
                titles = list(filter(None, table.titles))
                raise UserError(
                    f"--columns {role}={pattern}: {table.where} has no such column among "
                    f"{first_of(titles, 8):.150}{nearest(pattern, titles)}"
                )
            found.setdefault(role, []).extend(columns)
    several = [role for role in found if len(found[role]) > 1]
    if wrong := {*several} - {"seed", "ignore"}:
        role = min(wrong)
        raise UserError(
            f"--columns {role}={','.join(found[role])}: give one column for {role}"
        )
    return found


def _seed_columns(table: TextTable, taken: set[str]) -> list[str]:
    """Return the columns that are seeds by their titles.

    Raises:
        UserError: they may be years or steps.
    """
    free = [name for name in table.header if name not in taken]
    named = [name for name in free if _SEED.fullmatch(name)]
    numbers = [name for name in free if name.isdecimal()]
    if named or not numbers:
        return named
    counts = [int(name) for name in numbers]
    are_steps = all(count >= 100 and count % 100 == 0 for count in counts)
    if are_steps or all(1950 <= count <= 2100 for count in counts):
        raise UserError(
            f"{table.where}: the columns {first_of(numbers, 4)} may be years or steps; if they are seeds, say so: "
            f"--columns {','.join(f'seed={name}' for name in numbers[:6])}"
        )
    return numbers


def _long(table: TextTable, columns: Sequence[str], role: str, value: str) -> TextTable:
    """Return a table with a column for each seed or dataset as one with a row for each; empty cells are none."""
    places = {name: table.header.index(name) for name in columns}
    scored = [
        ((*row, table.titles[column] if role == "dataset" else name, row[column]), at)
        for row, at in zip(table.rows, table.places, strict=True)
        for name, column in places.items()
        if row[column]
    ]
    kept = [  # titles that are taken by the new columns
        f"{name}_" if name in (role, value) else name for name in table.header
    ]
    return replace(
        table,
        header=(*kept, role, value),
        titles=(*table.titles, role, value),
        rows=[row for row, _ in scored],
        places=[place for _, place in scored],
    )


def _need(table: TextTable, titles: Mapping[str, str], roles: Iterable[str]) -> None:
    """Refuse a table without a column of one of some roles."""
    if lacking := [role for role in roles if not titles[role]]:
        header = ", ".join(filter(None, table.header))
        raise UserError(
            f"{table.where}: there is no column {lacking[0]} among {header:.70}; give {_FORM}"
        )


def _names(table: TextTable, titles: Mapping[str, str]) -> dict[str, list[str] | str]:
    """Return the columns of names."""
    columns = {
        role: table.texts(titles[role]) if titles[role] else str(_ABSENT.get(role, ""))
        for role in (*CELL, "metric")
    }
    for role in ("model", "dataset"):
        texts = columns[role]
        if not isinstance(texts, str):
            columns[role] = [re.sub(" +", " ", text) for text in texts]
    return columns


def _seed_rows(table: TextTable, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return a row for each score of a seed."""
    _need(table, titles, ("model", "seed", "score"))
    numbers = {
        role: table.numbers(titles[role]) if titles[role] else _ABSENT.get(role, "")
        for role in ("lr", "validation_score", "score")
    }
    columns = {**_names(table, titles), "seed": table.texts(titles["seed"]), **numbers}
    rows = pd.DataFrame(columns).rename(columns={"score": "test_score"})
    return rows.assign(half_digit=table.half_digits(titles["score"]))


def _summary_rows(
    table: TextTable, titles: dict[str, str], spread: str
) -> pd.DataFrame:
    """Return a row for each mean, with its standard error and number of seeds."""
    if not titles["mean"]:
        _need(table, titles, ("model", "score"))
    if _is_paired(table, titles["mean"]):
        table = _apart(table, titles, spread)
    else:
        spreads = [one for one in SPREADS if titles[_role(one)]]
        if not spreads:
            _need(table, titles, ("model", "seed"))
        if len(spreads) > 1:
            raise UserError(
                f"{table.where} has several spreads of a mean, {' and '.join(spreads)}; leave one, or ignore the "
                f"others: --columns ignore={titles[_role(spreads[1])]}"
            )
        [spread] = spreads
    if titles["n"].isdecimal() and titles["n"] not in table.header:
        table = table.with_columns(n_of_all=[titles["n"]] * len(table.rows))
        titles["n"] = "n_of_all"
    if not titles["n"]:
        raise UserError(
            f"{table.where} does not say how many seeds a mean is over; give a column n, or --columns n=5"
        )
    _need(table, titles, ("model", "mean"))
    width = titles[_role(spread)]
    means, counts = table.numbers(titles["mean"]), table.numbers(titles["n"])
    widths = table.numbers(width)
    # What is printed as 0.0 is anything below half of its last digit; the largest of it is taken.
    is_exact = np.isnan(table.half_digits(titles["mean"]))
    largest = np.where(is_exact, 0.0, np.nan_to_num(table.half_digits(width)))
    widths = np.where(widths == 0, largest, widths)
    rows = pd.DataFrame({**_names(table, titles), "mean": means, "n": counts})
    return rows.assign(error=_errors(spread, widths, counts))


def _role(spread: str) -> str:
    return spread.replace("-", "_")


def _errors(
    spread: str, widths: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return standard errors; those of one seed are nan."""
    from scipy import special  # takes as long to import as a table to read

    alone = counts < 2
    divisors = {
        "sd": np.sqrt(counts),
        "se": np.ones_like(counts),
        "ci95": np.full_like(counts, NORMAL_QUANTILE),
        "ci95-t": special.stdtrit(np.where(alone, np.nan, counts - 1), 0.975),
    }
    errors: npt.NDArray[np.float64] = widths / divisors[spread]
    return np.where(alone, np.nan, errors)


def _pairs(table: TextTable, name: str) -> list[re.Match[str] | None]:
    """Return the cells of a column as means with what stands beside them; None of what is no such pair."""
    return [_PAIR.fullmatch(_MARKS.sub("", cell).strip()) for cell in table.texts(name)]


def _is_paired(table: TextTable, name: str) -> bool:
    """Return whether a column has a mean with its spread in some cell."""
    return bool(name) and any(pair is not None for pair in _pairs(table, name))


def _apart(table: TextTable, titles: dict[str, str], spread: str) -> TextTable:
    """Return the table with means and what stands beside them in columns of their own.

    Raises:
        UserError: nobody says what stands beside them, or nothing does in some rows.
    """
    pairs = _pairs(table, titles["mean"])
    texts = table.texts(titles["mean"])
    if not spread:
        row = next(row for row, pair in enumerate(pairs) if pair is not None)
        raise UserError(
            f"{table.at(row)}: what is the second number of {texts[row]!r:.40}? Say --spread sd, se, ci95 (1.96 "
            "errors) or ci95-t (Student's); to compare seeds, give a row for each"
        )
    means, widths = [], []
    for row, pair in enumerate(pairs):
        if pair is None:
            raise UserError(
                f"{table.at(row)}: {texts[row]!r:.40} is not a mean with its spread, as others in this column are"
            )
        means.append(pair[1])
        widths.append(pair[2])
    titles |= {"mean": "mean_of_pair", _role(spread): "spread_of_pair"}
    return table.with_columns(mean_of_pair=means, spread_of_pair=widths)


def _faults(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return by what is wrong which rows it is of."""
    faults = {
        "has no printable model, or one that begins like a formula": ~rows["model"].map(
            _is_name
        ),
        "has no printable dataset, or one that begins like a formula": ~rows[
            "dataset"
        ].map(_is_name),
        "is a mean over datasets; delete such rows: the mean is computed": rows[
            "dataset"
        ].map(lambda name: bool(_AVERAGE.fullmatch(column_name(name)))),
    }
    if "error" in rows:
        counts = rows["n"]
        return faults | {
            "has no finite mean": ~np.isfinite(rows["mean"]),
            "has no whole number of seeds": ~((counts >= 1) & (counts % 1 == 0)),
            "has no spread from 0 on": ~(rows["error"] >= 0) & (counts > 1),
        }
    return faults | {
        "is computed from seeds, and is none; delete such rows": rows["seed"]
        .str.lower()
        .isin(_SUMMARIES),
        "has no finite score; of a run that diverged give the score of its last checkpoint, or delete it and say so "
        "where you report the others": ~np.isfinite(rows["test_score"]),
        "has no learning rate; give one, or leave the column out": ~np.isfinite(
            rows["lr"]
        ),
    }


def _repeats(
    table: TextTable, rows: pd.DataFrame, unread: Sequence[str]
) -> dict[str, pd.Series]:
    """Return by what is wrong which rows it is of, where rows are held against each other."""
    place = ["task", "dataset"]
    metrics = first_of(sorted(set(rows["metric"])), 4)
    faults = {
        f"has another metric than the dataset's first row; choose one with --metric ({metrics:.60})": rows[
            "metric"
        ]
        != rows.groupby(place)["metric"].transform("first"),
    }
    key = ["model", *place]
    if "error" in rows:
        return faults | {
            f"is there in an earlier row{_apart_by(table, unread)}": rows.duplicated(
                key
            )
        }
    is_tuned = rows.groupby(key)["lr"].transform("nunique") > 1
    return faults | {
        f"is the same seed as an earlier row{_apart_by(table, unread)}": rows.duplicated(
            [*key, "lr", "seed"]
        ),
        "has no validation_score to choose among several learning rates; keep one rate, or give one (a run that "
        "diverged: any that is lower than all others)": is_tuned
        & ~np.isfinite(rows["validation_score"]),
    }


def _apart_by(table: TextTable, unread: Sequence[str]) -> str:
    """Return what to do about two rows that are alike in all that is read."""
    varying = [
        title
        for title in unread
        if len({row[table.titles.index(title)] for row in table.rows}) > 1
    ]
    if not varying:
        return "; keep one of them"
    return (
        f"; if {first_of(varying, 3)} (not read) tells them apart, say what it is, as in --columns "
        f"dataset={varying[0]}, or keep one value of it"
    )


def _refuse_rows(
    table: TextTable, rows: pd.DataFrame, faults: Mapping[str, pd.Series]
) -> None:
    """Raise a `UserError` about the first row with the first fault."""
    for fault, wrong in faults.items():
        if wrong.any():
            row = rows[wrong].iloc[0]
            names = [
                name for name in ("model", "dataset", "metric", "seed") if name in row
            ]
            what = ", ".join(filter(None, row[names]))
            raise UserError(f"{table.at(rows.index[wrong][0])} ({what:.80}) {fault}")


def _unread(
    table: TextTable, rows: pd.DataFrame, used: set[str], ignored: Sequence[str]
) -> list[str]:
    """Return the titles of the columns that are not read.

    Raises:
        UserError: one of them has names or conditions that differ within a dataset, and its owner does not ignore it.
    """
    unread = []
    for column, name in enumerate(table.header):
        if not name or name in used:
            continue
        title = table.titles[column]
        unread.append(title)
        cells = pd.Series([row[column] for row in table.rows])[rows.index]
        is_folder = name.startswith("folder")  # often named after the model
        is_measured = cells.str.fullmatch(r"[-+\d.,%eE\s]*").all()
        is_condition = is_folder or name in _CONDITIONS
        if name in ignored or (is_measured and not is_condition):
            continue
        by = [rows["dataset"], rows["model"]] if is_folder else [rows["dataset"]]
        differing = cells.groupby(by).transform("nunique") > 1
        if differing.any():
            place = rows["dataset"][differing].iloc[0]
            values = sorted(set(cells[rows["dataset"] == place]))
            role = "seed" if is_folder else _guess(rows)
            raise UserError(
                f"{table.where}: column {title!r:.40} is not read, but differs on {place:.30} "
                f"({first_of(values, 2):.50}); say what it is, as in --columns {role}={title:.30}, keep one "
                f"value of it, or --columns ignore={title:.30}"
            )
    return unread


def _guess(rows: pd.DataFrame) -> str:
    """Return the role that a column of names most likely has."""
    return "dataset" if rows["dataset"].nunique() == 1 else "model"


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


def _direction(
    table: TextTable,
    rows: pd.DataFrame,
    titles: Mapping[str, str],
    options: TableOptions,
) -> bool:
    """Return whether the better score is the lower one.

    Raises:
        UserError: metrics of both kinds, or one that sounds so and of which nobody says it.
    """
    if options.lower_is_better is not None:
        return options.lower_is_better
    for role in ("lower_is_better", "higher_is_better"):
        if titles[role]:
            cells = pd.Series(table.texts(titles[role]))[rows.index].str.lower()
            said = set(cells[cells != ""].isin(("true", "yes", "1", "1.0")))
            if not said:
                continue
            if len(said) > 1:
                raise UserError(
                    f"{table.where}: of some scores less is better, of others more ({titles[role]}); compare them "
                    "apart: --metric chooses one"
                )
            return said == {role == "lower_is_better"}
    for name in sorted({*rows["metric"], titles["score"], titles["mean"]}):
        words = set(re.split(r"[^a-z]+", name.lower()))
        if words & _LESS_IS_BETTER:
            raise UserError(
                f"{table.where}: the better {name!r:.40} is usually the lower one; say --lower-is-better, or "
                "--lower-is-better=false if it is not so"
            )
    return False


def _refuse_units(
    table: TextTable, rows: pd.DataFrame, titles: Mapping[str, str]
) -> None:
    """Refuse a model in fractions beside one in per cent; where cells have per cent signs, all have."""
    value = titles["score"] or titles["mean"]
    if any("%" in cell for cell in table.texts(value)):
        return
    scores = rows["mean"] if "error" in rows else rows["test_score"]
    for place, on_place in scores.abs().groupby(rows["dataset"]):
        of_models = on_place.groupby(rows["model"])
        largest, means = of_models.max(), of_models.mean()
        low, high = str(largest.idxmin()), str(means.idxmax())
        is_fraction = 0 < largest[low] <= 1 < means[high]
        if is_fraction and means[high] >= OTHER_UNIT * means[low]:
            raise UserError(
                f"{table.where}: on {place!s:.40}, {low:.40} seems to be in fractions and {high:.40} in per "
                "cent; write both in one unit, in per cent with % signs"
            )


def _counts(rows: pd.DataFrame, unit: str) -> str:
    """Return how many datasets, models and seeds, or other units, there are."""
    places = rows.groupby(CELL)
    counts = places["n"].first() if "error" in rows else places.size()
    fewest, most = int(counts.min()), int(counts.max())
    seeds = f"{counted(most, unit)} each"
    if fewest < most:
        seeds = f"{fewest} to {counted(most, unit)}"
    if "error" not in rows:
        labels = sorted(set(rows["seed"]), key=lambda seed: (len(seed), seed))
        seeds += f" ({first_of(labels, 5)})"
    datasets = counted(rows["dataset"].nunique(), "dataset")
    models = counted(rows["model"].nunique(), "model")
    return f"{datasets}, {models}, {seeds}"


def _is_name(text: str) -> bool:
    """Return whether a text can name a model or a dataset; a spreadsheet would run what begins like a formula."""
    return name_fault(text) is None
