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
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import POOLED, T, caption_of
from analysis.evidence.pooled import ResidualPools
from analysis.precision.design import seeds_needed
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
_NAMES = ("mine", "baseline")


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
    p_exceeds (probability that the difference exceeds the margin: t, flat prior), interval (`pooled`: the bootstrap t
    over a dataset's models, from five of four seeds on; `t`: Welch's), seeds, seeds_to_find (a model, for a power of
    0.8).

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
                "a frame holds both models: give it alone, and with models=(mine, baseline) their names"
            )
        rows = scores_by_seed(text_table_of(mine), metric=metric)
        return differences(rows, two_models(rows, models), margin=margin)
    given = {name: _by_dataset(one, name) for name, one in zip(_NAMES, (mine, baseline), strict=True)}
    if apart := sorted(given["mine"].keys() ^ given["baseline"].keys()):
        raise UserError(
            f"only one of mine and baseline has {', '.join(map(repr, apart))}; give both the same datasets"
        )
    rows = pd.DataFrame(
        [
            (name, "", dataset, seed, score)
            for name, of in given.items()
            for dataset, scores in of.items()
            for seed, score in enumerate(scores)
        ],
        columns=["model", "task", "dataset", "seed", "test_score"],
    )
    return differences(rows, _NAMES, margin=margin)


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
        raise UserError(f"two models are compared, not {len(found)}; name two of {_listed(known)}")
    return found[0], found[1]


def differences(
    rows: pd.DataFrame, models: tuple[str, str], *, margin: float = 0.0, settings: Settings | None = None
) -> pd.DataFrame:
    """Return what `compare_scores` does, of rows as `scores_by_seed` returns them.

    All models of the rows lend each other the shape of their errors, the two that are compared and the others.
    """
    settings = settings or Settings()
    if not 0 <= margin < math.inf:
        raise UserError(f"margin {margin:g}: give a finite number from 0 on")
    if settings.interval not in ("", POOLED.name, T.name):
        raise UserError(f"--interval {settings.interval}: scores by seed have {POOLED.name} or {T.name}")
    wide = rows.set_index(["model", "dataset", "seed"])["test_score"].unstack("seed")
    wide.index = pd.MultiIndex.from_tuples([(model, "", dataset) for model, dataset in wide.index])
    pools = None if settings.interval == T.name else ResidualPools(wide, settings.resamples, settings.seed)
    of = {
        (model, dataset): one.to_numpy()
        for (model, dataset), one in rows.groupby(["model", "dataset"])["test_score"]
    }
    datasets = [*dict.fromkeys(rows["dataset"])]
    shared = [name for name in datasets if all((model, name) in of for model in models)]
    if not shared:
        raise UserError(f"{models[0]} and {models[1]} have no dataset in common")
    if alone := [
        name for name in datasets if name not in shared and any((model, name) in of for model in models)
    ]:
        logger.warning("left out, since only one of the two models has scores on them: %s", _listed(alone))
    pairs = {name: (of[models[0], name], of[models[1], name]) for name in shared}
    estimates = {name: _estimate(name, pair, pools) for name, pair in pairs.items()}
    raw = {
        name: min(1.0, 2 * min(one.p_above(0), one.p_below(0)))
        for name, one in estimates.items()
        if one is not None
    }
    adjusted = dict(zip(raw, holm([*raw.values()]), strict=True))
    found = []
    for name, one in estimates.items():
        first, second = pairs[name]
        effect = float(first.mean() - second.mean())
        row = {
            "dataset": name,
            "mine": float(first.mean()),
            "baseline": float(second.mean()),
            "effect": effect,
        }
        row |= dict.fromkeys(("low", "high", "p", "p_holm"), math.nan) | {"outcome": UNKNOWN}
        row |= dict.fromkeys(("p_equal", "p_exceeds"), math.nan) | {"interval": ""}
        row |= {"seeds": f"{len(first)}/{len(second)}", "seeds_to_find": None}
        if one is not None:
            row["low"], row["high"] = one.interval()
            row["p"], row["p_holm"] = raw[name], adjusted[name]
            if margin:
                row["p_equal"] = max(one.p_above(-margin), one.p_below(margin))
            row["p_exceeds"] = Student(effect=effect, error=one.error, df=one.df).p_below(margin)
            row["outcome"] = EQUAL if margin and row["p_equal"] <= ALPHA else OPEN
            if adjusted[name] <= ALPHA:
                row["outcome"] = AHEAD if effect > 0 else BEHIND
            row["interval"] = T.name if isinstance(one, Student) else POOLED.name
            count = min(len(first), len(second))
            row["seeds_to_find"] = seeds_needed(max(abs(effect), margin), one.error, count)
        found.append(row)
    return pd.DataFrame(found).set_index("dataset")


def scores_document(
    found: pd.DataFrame, models: tuple[str, str], where: str, *, full: bool = False
) -> TableDocument:
    """Return the differences of two models under which is ahead on how many datasets."""
    counts = found["outcome"].value_counts()
    words = {
        AHEAD: "A ahead",
        BEHIND: "B ahead",
        EQUAL: "practically equal",
        OPEN: "open",
        UNKNOWN: "not tested",
    }
    said = "; ".join(f"{words[name]} on {counts[name]}" for name in words if name in counts)
    titles = ["", "A", "B", "A - B", "95 % interval", "p", "p (Holm)", "outcome"]
    rows = [[*titles, *(["P(A - B > margin)", "seeds", "needed"] if full else [])]]
    for name, row in found.iterrows():
        ends = "-" if math.isnan(row["low"]) else f"[{row['low']:+.4g}, {row['high']:+.4g}]"
        needed = "-" if pd.isna(row["seeds_to_find"]) else f"{row['seeds_to_find']:,.0f}"
        more = [format_p(row["p_exceeds"]), row["seeds"], needed] if full else []
        rows.append([
            str(name), f"{row['mine']:.5g}", f"{row['baseline']:.5g}", f"{row['effect']:+.4g}", ends,
            format_p(row["p"]), format_p(row["p_holm"]), words[row["outcome"]], *more,
        ])  # fmt: skip
    seen = {
        (min(map(int, row["seeds"].split("/"))), row["interval"])
        for _, row in found.iterrows()
        if row["interval"]
    }
    body: list[str | Grid] = [
        f"Of {counted(len(found), 'dataset')}: {said}.",
        f"A: {models[0]}. B: {models[1]}. In the unit of the scores; above 0, A is better. Source: {where}.", "",
        Grid(rows), "",
        *([f"Intervals: {caption_of(seen)}."] if seen else []),
        "p: two-sided, then after Holm's adjustment over the datasets; A or B is ahead if that is at most 0.05.",
    ]  # fmt: skip
    records = found.reset_index().assign(first=models[0], second=models[1])
    return TableDocument(body=body, records=records, digits="%.10g")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _by_dataset(given: Seeds | None, name: str) -> dict[str, Array]:
    found = {}
    for dataset, scores in (given if isinstance(given, Mapping) else {"scores": given}).items():
        try:
            found[str(dataset)] = values = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError):
            raise UserError(f"{name}, {dataset}: give a sequence of numbers, a score for each seed") from None
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise UserError(f"{name}, {dataset}: give a sequence of finite numbers, a score for each seed")
    if not found:
        raise UserError(f"{name} is empty; give a score for each seed")
    return found


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
    pooled = None if pools is None else pools.estimate(places, weights, means, errors, counts)
    return welch_estimate(means, errors, counts, weights) if pooled is None else pooled
