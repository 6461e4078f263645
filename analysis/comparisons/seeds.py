"""Anybody's seeds: two models' scores by seed on each dataset, of any names and in any unit."""

from __future__ import annotations

import fnmatch
import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.claims.wording import format_p
from analysis.comparisons.differences import AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN
from analysis.comparisons.scores_table import scores_by_seed
from analysis.evidence.intervals import POOLED, T, caption_of
from analysis.evidence.pooled import ResidualPools
from analysis.evidence.settings import Settings
from analysis.precision.design import seeds_needed
from analysis.records import records
from analysis.statistics.estimates import Student, Studentised, is_flat, welch_estimate
from analysis.statistics.inference import ALPHA, holm
from analysis.store.text_table import text_table_of
from common.errors import UserError, nearest
from common.plain_text import counted
from common.tables import Grid, TableDocument

logger = logging.getLogger(__name__)

Array = npt.NDArray[np.float64]
Seeds = Sequence[float] | Mapping[str, Sequence[float]]
"""Scores by seed, or by dataset the scores by seed."""
_COLUMNS = [
    "dataset",
    "mine",
    "baseline",
    "effect",
    "low",
    "high",
    "p",
    "p_holm",
    "outcome",
    "p_equal",
    "p_exceeds",
    "interval",
    "seeds",
    "seeds_to_find",
]
_WORDS = {
    AHEAD: "A ahead",
    BEHIND: "B ahead",
    EQUAL: "practically equal",
    OPEN: "open",
    UNKNOWN: "not tested",
}


def compare_scores(
    mine: Seeds | pd.DataFrame,
    baseline: Seeds | None = None,
    *,
    models: Sequence[str] = (),
    margin: float = 0.0,
    metric: str = "",
) -> pd.DataFrame:
    """Return the differences of two models' seeds, a row for each dataset; seeds are not paired.

    Columns: mine, baseline (means), effect (their difference, in the scores' unit), low, high (95 %), p, p_holm (over
    the datasets), outcome (ahead, behind, equal, open, unknown), p_equal (two one-sided tests against the margin),
    p_exceeds (probability that the difference exceeds the margin: t, flat prior), interval (`pooled`: the bootstrap t,
    whose pool is a dataset's models, where at least five of them have four seeds or more, and these two have; `t`:
    Welch's, elsewhere), seeds, seeds_to_find (seeds of each model that find this effect with a power of 0.8).

    Args:
        mine: one sequence of scores, or a mapping of datasets to sequences; or both models' scores as a frame with
            columns model, dataset, seed, score (and task, metric, lr, validation_score if there), or with a column for
            each seed. One seed gives the effect alone.
        baseline: the same of the model that it is held against; none of a frame.
        models: of a frame, the two that are compared; by default the only two.
        margin: models that differ by less are practically equal; 0: none are called so.
        metric: of a frame with several of a dataset, the one to compare.

    Raises:
        UserError: different datasets, no scores, a score that is not a finite number, or a margin below 0.
    """
    if isinstance(mine, pd.DataFrame):
        if baseline is not None:
            raise UserError(
                "a frame holds both models: give it alone, their names as models=(mine, baseline)"
            )
        frame = mine
    else:
        ours, theirs = _rows(mine, "mine"), _rows(baseline, "baseline")
        if apart := sorted({row[1] for row in ours} ^ {row[1] for row in theirs}):
            raise UserError(
                f"only one of mine and baseline has {', '.join(map(repr, apart))}; give both the same datasets"
            )
        models = ("mine", "baseline")
        frame = pd.DataFrame(
            ours + theirs, columns=["model", "dataset", "seed", "score"]
        )
    rows = scores_by_seed(text_table_of(frame), metric=metric)
    return differences(rows, two_models(rows, models), margin=margin)


def _rows(given: Seeds | None, name: str) -> list[tuple[str, str, int, float]]:
    """Return the scores of the model `name` as rows (model, dataset, seed, score)."""
    by_dataset = (
        given
        if isinstance(given, Mapping)
        else {"scores": () if given is None else given}
    )
    try:
        rows = [
            (name, str(dataset), seed, float(score))
            for dataset, scores in by_dataset.items()
            for seed, score in enumerate(scores)
        ]
    except (TypeError, ValueError):
        raise UserError(
            f"{name}: give a sequence of numbers, a score for each seed"
        ) from None
    if not rows:
        raise UserError(f"{name} is empty; give a score for each seed")
    return rows


def two_models(rows: pd.DataFrame, wanted: Sequence[str]) -> tuple[str, str]:
    """Return the two models that names or shell patterns mean; all of a table of two where none are wanted."""
    known = [*dict.fromkeys(rows["model"])]
    found: list[str] = []
    for name in wanted or ["*"]:
        matching = [name] if name in known else fnmatch.filter(known, name)
        if not matching:
            raise UserError(
                f"there are no scores of {name!r}; the models are {_listed(known)}{nearest(name, known)}"
            )
        found += [one for one in matching if one not in found]
    if len(found) != 2:
        raise UserError(
            f"two models are compared, not {len(found)}; name two of {_listed(known)}"
        )
    return found[0], found[1]


def differences(
    rows: pd.DataFrame,
    models: tuple[str, str],
    *,
    margin: float = 0.0,
    settings: Settings | None = None,
) -> pd.DataFrame:
    """Return what `compare_scores` does, of rows as `scores_by_seed` returns them.

    All models of the rows lend each other the shape of their errors, the two that are compared and the others.
    """
    settings = settings or Settings()
    if not 0 <= margin < math.inf:
        raise UserError(f"margin {margin:g}: give a finite number from 0 on")
    if settings.interval not in ("", POOLED.name, T.name):
        raise UserError(
            f"--interval {settings.interval}: scores by seed have {POOLED.name} or {T.name}"
        )
    wide = rows.pivot(index=["model", "dataset"], columns="seed", values="test_score")
    wide.index = pd.MultiIndex.from_tuples(
        [(model, "", dataset) for model, dataset in wide.index]
    )
    pools = (
        None
        if settings.interval == T.name
        else ResidualPools(wide, settings.resamples, settings.seed)
    )
    scores = {
        model: {
            str(name): one.to_numpy()
            for name, one in group.groupby("dataset", sort=False)["test_score"]
        }
        for model, group in rows.groupby("model")
        if model in models
    }
    first, second = (scores[model] for model in models)
    if not (shared := [name for name in first if name in second]):
        raise UserError(f"{models[0]} and {models[1]} have no dataset in common")
    if alone := [*(first.keys() ^ second.keys())]:
        logger.warning(
            "left out, since only one of the two models has scores: %s",
            _listed(sorted(alone)),
        )
    estimates = {
        name: _estimate(name, (first[name], second[name]), pools) for name in shared
    }
    raw = {
        name: min(1.0, 2 * min(one.p_above(0), one.p_below(0)))
        for name, one in estimates.items()
        if one
    }
    adjusted = dict(zip(raw, holm([*raw.values()]), strict=True))
    found = []
    for name, estimate in estimates.items():
        means = [scores[model][name].mean() for model in models]
        counts = [len(scores[model][name]) for model in models]
        effect = means[0] - means[1]
        row = {
            "dataset": name,
            "mine": means[0],
            "baseline": means[1],
            "effect": effect,
        }
        row |= {"outcome": UNKNOWN, "seeds": "/".join(map(str, counts))}
        if estimate is not None:
            student = Student(effect=effect, error=estimate.error, df=estimate.df)
            p_equal = (
                max(estimate.p_above(-margin), estimate.p_below(margin))
                if margin
                else math.nan
            )
            row |= dict(zip(("low", "high"), estimate.interval(), strict=True)) | {
                "p": raw[name],
                "p_holm": adjusted[name],
                "p_equal": p_equal,
                "p_exceeds": student.p_below(margin),
                "outcome": EQUAL if p_equal <= ALPHA else OPEN,
                "interval": T.name if isinstance(estimate, Student) else POOLED.name,
                "seeds_to_find": seeds_needed(
                    max(abs(effect), margin), estimate.error, min(counts)
                ),
            }
            if adjusted[name] <= ALPHA:
                row["outcome"] = AHEAD if effect > 0 else BEHIND
        found.append(row)
    return pd.DataFrame(found, columns=_COLUMNS).set_index("dataset")


def scores_document(
    found: pd.DataFrame,
    models: tuple[str, str],
    where: str,
    *,
    margin: float = 0.0,
    full: bool = False,
) -> TableDocument:
    """Return the differences of two models under which is ahead on how many datasets."""
    counts = found["outcome"].value_counts()
    said = "; ".join(
        f"{_WORDS[name]} on {counts[name]}" for name in _WORDS if name in counts
    )
    titles = ["", "A", "B", "A - B", "95 % interval", "p", "p (Holm)", "outcome"]
    rows = [[*titles, *(["P(A - B > margin)", "seeds", "needed"] if full else [])]]
    for name, row in found.iterrows():
        ends = (
            "-"
            if math.isnan(row["low"])
            else f"[{row['low']:+#.4g}, {row['high']:+#.4g}]"
        )
        needed = (
            "-" if pd.isna(row["seeds_to_find"]) else f"{row['seeds_to_find']:,.0f}"
        )
        more = [format_p(row["p_exceeds"]), row["seeds"], needed] if full else []
        rows.append(
            [
                str(name),
                f"{row['mine']:#.5g}",
                f"{row['baseline']:#.5g}",
                f"{row['effect']:+#.4g}",
                ends,
                format_p(row["p"]),
                format_p(row["p_holm"]),
                _WORDS[row["outcome"]],
                *more,
            ]
        )
    tested = found[found["outcome"] != UNKNOWN]
    seen = {
        (min(map(int, n.split("/"))), name)
        for n, name in records(tested, "seeds", "interval")
    }
    about = [
        f"Of {counted(len(found), 'dataset')}: {said}.",
        f"A: {models[0]}. B: {models[1]}. In the unit of the scores; above 0, A is better. Source: {where}.",
    ]
    equal = (
        f" Practically equal: by two one-sided tests, within ±{margin:g}."
        if margin
        else ""
    )
    body: list[str | Grid] = [
        *about,
        "",
        Grid(rows, caption=" ".join(about), label="compare"),
        "",
        *([f"Intervals: {caption_of(seen)}."] if seen else []),
        f"p: two-sided, then after Holm's over the datasets; A or B is ahead if that is at most 0.05.{equal}",
    ]
    frame = found.reset_index().assign(first=models[0], second=models[1])
    return TableDocument(body=body, records=frame, digits="%.10g")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _estimate(
    dataset: str, pair: tuple[Array, Array], pools: ResidualPools | None
) -> Student | Studentised | None:
    """Return the difference of means; None where there is one seed alone, or no spread."""
    counts = np.array([len(one) for one in pair])
    if counts.min() < 2 or all(map(is_flat, pair)):
        return None
    means = np.array([one.mean() for one in pair])
    errors = np.array([one.std(ddof=1) for one in pair]) / np.sqrt(counts)
    weights, places = np.array([1.0, -1.0]), [("", dataset)] * 2
    pooled = (
        None
        if pools is None
        else pools.estimate(places, weights, means, errors, counts)
    )
    return welch_estimate(means, errors, counts, weights) if pooled is None else pooled
