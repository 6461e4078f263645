"""Traps of metric, data and protocol that change the paper's numbers, each with how large its effect is.

A trap's effect is measured where the source has what it takes (runs scored by both protocols, runs at all learning
rates); else the sentence gives what follows from the definition alone. docs/footguns.md has more of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from scipy import special

from analysis.evidence.cells import seed_scores
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE
from analysis.statistics.learning_rate_selection import select_runs
from benchmarks.protocol import AVERAGE
from common.registry import Registry

__all__ = ["TRAPS", "Trap", "measured_traps"]


Measure = Callable[[pd.DataFrame, pd.DataFrame | None], float | None]
"""From runs scored by the paper's protocol, and the same runs scored by the standard one, to an effect in points (how
far scores move), or None where these runs do not show it."""


@dataclass(frozen=True, kw_only=True)
class Trap:
    """A way in which a number is not what its name says."""

    name: str
    sentence: str
    """What it is."""
    known: str
    """What follows from the definition alone, without runs."""
    measure: Measure = lambda *_: None
    how: str = ""
    """What the measured effect is of."""

    def size(self, effect: float | None) -> str:
        """Return the effect in words, in points or as it is known from the definition."""
        return self.known if effect is None else f"{effect:.2f} points, {self.how}"


def measured_traps(
    runs: pd.DataFrame | None, standard: pd.DataFrame | None = None
) -> list[tuple[Trap, float | None]]:
    """Return every trap with its effect, those with a measured one first, the largest on top; then their own order."""
    found = [(trap, None if runs is None else trap.measure(runs, standard)) for trap in TRAPS.values()]
    return sorted(found, key=lambda one: (one[1] is None, -(one[1] or 0.0)))


def _between_protocols(task: str) -> Measure:
    """Return the mean distance of the two protocols' scores over the models and datasets of a task."""

    def measure(runs: pd.DataFrame, standard: pd.DataFrame | None) -> float | None:
        if standard is None:
            return None
        # The rate is chosen by the paper's validation score in both, so that the same fine-tunings are compared.
        chosen = select_runs(runs[runs["task"] == task], "seed")
        keys, scores = ["model", "dataset", "lr", "seed"], ["test_score", "test_score_standard"]
        both = chosen.merge(standard[[*keys, "test_score"]], on=keys, suffixes=("", "_standard"))
        means = both.groupby(["model", "dataset"], observed=True)[scores].mean()
        return 100 * float((means[scores[0]] - means[scores[1]]).abs().mean()) if len(means) else None

    return measure


def _between_rules(runs: pd.DataFrame, _: pd.DataFrame | None) -> float | None:
    if runs["lr"].nunique() < 2:
        return None
    by_seed, by_mean = (seed_scores(runs, rule).mean(axis=1) for rule in ("seed", "mean"))
    datasets = by_seed.index.get_level_values("dataset") != AVERAGE
    distance = (by_seed[datasets] - by_mean.reindex(by_seed.index)[datasets]).abs()
    return float(distance.mean()) if len(distance) else None


_T_FACTOR = float(special.stdtrit(N_SEEDS - 1, 0.975)) / NORMAL_QUANTILE
_QUERIES = 43
_SECOND_GRADE = 1 / math.log2(2) / sum(1 / math.log2(rank + 1) for rank in (1, 2, 3))

TRAPS: Registry[Trap] = Registry(
    "trap",
    [
        Trap(
            name="ner-f1",
            sentence="The NER scores are macro-F1 over word tags (O included), averaged over sentences, not entity F1.",
            known="a correctly tagged sentence without entities scores 100; missing a sentence's only entity costs "
            "half of its score or more",
            measure=_between_protocols("TC"),
            how="mean distance from entity F1",
        ),
        Trap(
            name="qa-f1",
            sentence="The QA score compares the sets of sub-token positions of the prediction and the first gold "
            "answer, unlike SQuAD's F1.",
            known="if truncation cut the answer off, abstaining scores 100",
            measure=_between_protocols("QA"),
            how="mean distance from SQuAD's F1",
        ),
        Trap(
            name="ndcg-ideal",
            sentence="NDCG@10 builds its ideal ranking from the ten retrieved documents only.",
            known=f"a query that retrieves only one of three relevant documents, at rank 1, scores 100 instead of the "
            f"usual {100 * _SECOND_GRADE:.1f}",
            measure=_between_protocols("IR"),
            how="mean distance from NDCG@10 over all judged documents",
        ),
        Trap(
            name="msmarco-queries",
            sentence=f"MS MARCO's test split has {_QUERIES} queries.",
            known=f"one query changes the score by up to {100 / _QUERIES:.1f} points",
        ),
        Trap(
            name="rate-by-seed",
            sentence="The learning rate is chosen separately for each seed, by that seed's validation score. This "
            "hides seeds that collapse.",
            known="on the released SST-2 runs of 610m-mlm40-42k, choosing one learning rate for all seeds gives 0.32 "
            "points more",
            measure=_between_rules,
            how="mean distance from one learning rate per cell",
        ),
        Trap(
            name="nq-split",
            sentence="Every run drew a random half of NQ as its test set, without a fixed seed.",
            known="differences between models include differences between random halves, and queries cannot be paired",
        ),
        Trap(
            name="interval",
            sentence=f"The printed 95 % interval is the mean of {N_SEEDS} seeds ± {NORMAL_QUANTILE} standard errors.",
            known=f"it covers the true mean 88 % of the time; Student's t interval is {_T_FACTOR:.2f} times as wide",
        ),
        Trap(
            name="bfloat16",
            sentence="Fine-tuning keeps weights, gradients and AdamW's state in bfloat16, which drops small updates.",
            known="on the test split, released SST-2 runs of 610m-mlm40-42k reach 74 to 76 at a learning rate of 1e-05 "
            "and about 92 at 1e-04. Scores with float32 weights are not released, so the effect itself is unknown",
        ),
    ],
)  # fmt: skip
"""In the order in which they matter where no effect is measured."""
