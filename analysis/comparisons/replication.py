"""Is a run store a replication of another? Prediction intervals for its cells, bands for its loss curves.

A fine-tuning study is compared with the seeds of the reference, a study that pretrained its models again with the
reference's pretrainings (`NAME`, `NAME-s1`, ...). Shares are compared on the arcsine scale, where their spread does not
depend on their level; scores of a dataset with a negative one, as correlations have, as they are. All tests are
adjusted together by Holm, so that at most one honest replication in twenty fails
where seeds are about normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.sources import Source
from analysis.statistics.inference import ALPHA, holm
from common.errors import UserError
from common.tables import Grid, TableDocument
from pretraining.models import arm_of
from pretraining.training.log import LOG, read_log

Array = npt.NDArray[np.float64]

_Row = dict[str, Any]
_Log = dict[int, _Row]
"""A stage's log by step: `loss` and `predicted` of validation, `lr` of training."""

_CELL = ["model", "task", "dataset", "lr"]
_OTHER_SHARE = 0.2
"""By how much the number of tokens predicted in validation may differ: masks and lengths are drawn."""
_PRIOR = 4
"""Degrees of freedom by which a cell's own variance is drawn towards that of the others on its dataset and rate."""


@dataclass(frozen=True, kw_only=True)
class Replication:
    """What a store says next to its reference."""

    cells: pd.DataFrame
    """`model, task, dataset, lr, mean, expected, low, high` (percent; 95 % prediction interval), `p, p_holm`."""
    curves: pd.DataFrame
    """`stage, step, loss, expected, low, high` (nats), `p, p_holm` of the validation losses."""
    settings: tuple[str, ...]
    """What the logs say of learning rates and masking that the reference's do not, a sentence each."""
    exact: float
    """Share of the runs whose score is the reference's to the last digit."""
    shifted: tuple[str, ...]
    """Models whose scores are the reference's of other seeds."""

    @property
    def faults(self) -> list[str]:
        """A sentence for everything that an honest replication does not show; empty: it is one."""
        off = self.cells[self.cells["p_holm"] < ALPHA]
        lost = self.curves[self.curves["p_holm"] < ALPHA]
        return [
            *self.settings,
            *(f"{name}: its scores are the reference's scores at other seeds" for name in self.shifted),
            *(
                f"{row['model']} on {row['dataset']} at {row['lr']:g}: {row['mean']:.2f}, outside "
                f"[{row['low']:.2f}, {row['high']:.2f}] (p {row['p_holm']:.2g})"
                for row in off.to_dict("records")
            ),
            *(
                f"{row['stage']} at step {row['step']}: validation loss {row['loss']:.3f}, outside "
                f"[{row['low']:.3f}, {row['high']:.3f}] (p {row['p_holm']:.2g})"
                for row in lost.to_dict("records")
            ),
        ]


def replication_of(
    source: Source, reference: Source, *, pretrained: bool = False, logs: Sequence[Path] = ()
) -> Replication:
    """Compare all runs of a source with those of a reference, at every learning rate that both have.

    Args:
        source: whose runs are judged.
        reference: whose runs say what to expect.
        pretrained: whether the source's models were pretrained again, so that what is predicted is another pretraining.
        logs: folders of training logs, of the source and of the reference; none: losses are not compared.

    Raises:
        UserError: no cell in common, or no spread to expect anything from.
    """
    runs, known = source.need_runs("certify"), reference.need_runs("--reference")
    negative = {name for table in (runs, known) for name in table.loc[table["test_score"] < 0, "dataset"]}
    units, known_units = (_units(table, pretrained, negative) for table in (runs, known))
    cells = pd.DataFrame(
        _cells(units, known_units, lambda name: _percent_of_score if name in negative else _percent_of_angle)
    )
    if cells.empty:
        again = "two pretrainings" if pretrained else "two seeds"
        raise UserError(
            f"{source.label} and {reference.label} share no combination of model, dataset and learning rate for which "
            f"{reference.label} has {again}"
        )
    judged_logs, known_logs = map(_read_logs, logs) if logs else ({}, {})
    losses = _curves(judged_logs, known_logs)
    curves = pd.DataFrame(losses, columns=["stage", "step", "loss", "expected", "low", "high", "p"])
    # What cannot be compared is no replication.
    adjusted = holm([0.0 if math.isnan(p) else p for p in (*cells["p"], *curves["p"])])
    columns = [*_CELL, "seed", "test_score"]
    both = runs[columns].merge(known[columns], on=_CELL, suffixes=("", "_reference"))
    both["same"] = both["test_score"] == both["test_score_reference"]
    return Replication(
        cells=cells.assign(p_holm=adjusted[: len(cells)]), curves=curves.assign(p_holm=adjusted[len(cells) :]),
        settings=tuple(_settings(judged_logs, known_logs)),
        exact=float((both["same"] & (both["seed"] == both["seed_reference"])).sum() / len(runs)),
        shifted=tuple(_shifted(both)),
    )  # fmt: skip


def _units(runs: pd.DataFrame, pretrained: bool, negative: set[str]) -> pd.DataFrame:
    """Return the scores that are exchangeable: runs, or the means of pretrainings, of one model each.

    They are angles, but of datasets with negative scores the scores themselves.
    """
    scores = runs["test_score"]
    table = runs.assign(
        score=scores.where(runs["dataset"].isin(negative), np.arcsin(np.sqrt(scores.clip(0))))
    )
    if not pretrained:
        return table
    means: pd.DataFrame = table.groupby(_CELL, as_index=False, observed=True)[["score"]].mean()
    return means.assign(model=[arm_of(name)[0] for name in means["model"]])


def _cells(
    judged: pd.DataFrame, known: pd.DataFrame, percent_of: Callable[[str], Callable[[float], float]]
) -> Iterator[dict[str, object]]:
    """Yield a row for each cell; the spread is its own, drawn towards that of the others on its dataset and rate."""
    observed, expected = (_by_cell(units) for units in (judged, known))
    for dataset, lr in sorted({(dataset, lr) for _, _, dataset, lr in expected}):
        percent = percent_of(dataset)
        pool = {key: scores for key, scores in expected.items() if key[2:] == (dataset, lr)}
        squares = {key: float(((scores - scores.mean()) ** 2).sum()) for key, scores in pool.items()}
        freedom = sum(len(scores) - 1 for scores in pool.values())
        for key, scores in pool.items():
            freedom_of_others = freedom - (len(scores) - 1)
            prior = min(_PRIOR, freedom_of_others)
            df = prior + len(scores) - 1
            if key not in observed or not df:
                continue
            # Its own squares are not in the others', or they would count twice.
            squares_of_others = sum(squares.values()) - squares[key]
            variance_of_others = squares_of_others / freedom_of_others if freedom_of_others else 0.0
            variance = (prior * variance_of_others + squares[key]) / df
            mean = float(observed[key].mean())
            p, ends = _predicted(mean, float(scores.mean()), variance, len(observed[key]), len(scores), df)
            row = {name: percent(value) for name, value in {"mean": mean, **ends}.items()}
            yield {**dict(zip(_CELL, key, strict=True)), **row, "p": p}


def _by_cell(units: pd.DataFrame) -> dict[tuple[str, str, str, float], Array]:
    """Return the scores of every cell, cells ascending."""
    scores = units["score"].to_numpy()
    places = units.groupby(_CELL, observed=True).indices
    return {cast("tuple[str, str, str, float]", key): scores[rows] for key, rows in places.items()}


def _percent_of_score(score: float) -> float:
    return 100 * min(max(score, -1.0), 1.0)


def _percent_of_angle(angle: float) -> float:
    return 100 * math.sin(min(max(angle, 0.0), math.pi / 2)) ** 2


def _predicted(
    value: float, expected: float, variance: float, count: int, known_count: int, df: float
) -> tuple[float, dict[str, float]]:
    """Return the p of a value, and what is expected with the ends of its prediction interval.

    The value is the mean of `count` draws, what is expected that of `known_count` of the reference.
    """
    error = math.sqrt(variance * (1 / count + 1 / known_count))
    half = float(special.stdtrit(df, 0.975)) * error
    p = 2 * float(special.stdtr(df, -abs(value - expected) / error)) if error else float(value == expected)
    return p, {"expected": expected, "low": expected - half, "high": expected + half}


def _shifted(both: pd.DataFrame) -> Iterator[str]:
    """Yield the models with a seed nearly all of whose runs have, to the last digit, another seed's of the reference.

    Args:
        both: every run of each cell next to every run that the reference has of it, and whether they score the `same`.
    """
    # Scores of 0 and 1, as of a model that answers all alike, are equal by chance.
    both = both[both["test_score"].between(0, 1, inclusive="neither")]
    same = both.groupby(["model", "seed", "seed_reference"], observed=True)["same"]
    # A tenth of the runs may have been made again; one or two may be equal by chance.
    alike = same.mean().index[(same.mean() > 0.9) & (same.sum() >= 3)]
    yield from dict.fromkeys(model for model, seed, reference in alike if seed != reference)


def _read_logs(folder: Path) -> dict[str, _Log]:
    """Return by stage what its log says at the steps that have a validation loss."""
    logs = {}
    for path in sorted(folder.rglob(LOG)):
        rows = read_log(path)
        log: _Log = {row["step"]: dict(row) for row in rows if row["split"] == "validation"}
        for row in rows:
            if row["split"] == "train" and row["step"] in log and "lr" in row:
                log[row["step"]]["lr"] = row["lr"]
        if log:
            logs[path.parent.name] = log
    return logs


def _pairs(
    judged: Mapping[str, _Log], known: Mapping[str, _Log]
) -> Iterator[tuple[str, int, _Row, list[_Row]]]:
    """Yield every stage and step that the reference has, with the study's row and one of each reference pretraining."""
    arms: dict[str, list[_Log]] = {}
    for stage, log in known.items():
        arms.setdefault(arm_of(stage)[0], []).append(log)
    for stage, log in judged.items():
        for step, row in log.items():
            others = [other[step] for other in arms.get(arm_of(stage)[0], []) if step in other]
            if others:
                yield stage, step, row, others


def _settings(judged: Mapping[str, _Log], known: Mapping[str, _Log]) -> Iterator[str]:
    """Yield what is not left to chance and differs: the learning rate, and how many tokens are predicted.

    Of each stage and setting only the first step is reported.
    """
    reported: set[tuple[str, str]] = set()
    for stage, step, row, others in _pairs(judged, known):
        for name, words, tolerance in (
            ("lr", "learning rate", 1e-6),
            ("predicted", "tokens predicted", _OTHER_SHARE),
        ):
            theirs = [other[name] for other in others if name in other]
            if name not in row or not theirs or (stage, name) in reported:
                continue
            low, high = min(theirs) * (1 - tolerance), max(theirs) * (1 + tolerance)
            if not low <= row[name] <= high:
                reported.add((stage, name))
                yield f"{stage} at step {step}: {words} {row[name]:,g}, but the reference has {theirs[0]:,g}"


def _curves(judged: Mapping[str, _Log], known: Mapping[str, _Log]) -> Iterator[dict[str, object]]:
    """Yield a row for each validation loss; the spread is over the reference's pretrainings."""
    for stage, step, row, others in _pairs(judged, known):
        values = np.array([other["loss"] for other in others])
        if len(values) > 1:
            p, ends = _predicted(
                row["loss"], float(values.mean()), float(values.var(ddof=1)), 1, len(values), len(values) - 1
            )
            yield {"stage": stage, "step": step, "loss": row["loss"], **ends, "p": p}


def replication_document(found: Replication, source: Source, reference: Source) -> TableDocument:
    """Return the certificate: whether it is one, what is off, and the cells that are farthest from what is expected."""
    worst = found.cells.sort_values("p").head(10)
    rows = [["model", "dataset", "lr", "mean", "expected", "95 % prediction", "p", "Holm p"]]
    for row in worst.to_dict("records"):
        rows.append([
            row["model"], row["dataset"], f"{row['lr']:g}", f"{row['mean']:.2f}", f"{row['expected']:.2f}",
            f"[{row['low']:.2f}, {row['high']:.2f}]", f"{row['p']:.2g}", f"{row['p_holm']:.2g}",
        ])  # fmt: skip
    verdict = "is NOT a replication" if found.faults else "is a replication"
    return TableDocument(
        body=[
            f"{source.label} {verdict} of {reference.label}: {len(found.cells)} cells and {len(found.curves)} losses "
            f"compared, {found.exact:.0%} of its runs equal to the last digit.",
            *(f"- {fault}" for fault in found.faults),
            "",
            "The cells farthest from what the reference predicts:",
            "",
            Grid(rows, numbers=range(3, 8)),
        ],
        records=found.cells, digits="%.6g", data={
            "replication": not found.faults, "faults": found.faults, "exact": found.exact,
            "cells": found.cells.to_dict("records"), "curves": found.curves.to_dict("records"),
        },
    )  # fmt: skip
