"""By how much the pretrainings of an arm differ, next to the fine-tuning seeds of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.comparisons.contestants import ALL, Place
from analysis.evidence.cells import seed_scores
from analysis.statistics.nested_spreads import Array, NestedSpreads, nested_spreads
from benchmarks.protocol import AVERAGE


@dataclass(frozen=True, kw_only=True)
class ArmScores:
    """The scores of models that were pretrained several times, by pretraining and fine-tuning seed."""

    members: Mapping[str, Sequence[str]]
    """By arm the names of its pretrainings."""
    scores: Mapping[tuple[str, str, str], Array]
    """By pretraining, task and dataset or `average` the (n_seeds,) scores in percent, nan where a seed has none."""

    @classmethod
    def of(
        cls, runs: pd.DataFrame, members: Mapping[str, Sequence[str]], selection: str
    ) -> ArmScores:
        """Return the scores of a runs table's arms at the learning rates that the rule `selection` chooses."""
        names = [name for arm in members.values() for name in arm]
        table = seed_scores(runs[runs["model"].isin(names)], selection)
        scores = dict(zip(table.index, table.to_numpy(), strict=True))
        return cls(members=members, scores=scores)

    def spreads(
        self, models: Iterable[str], place: Place, tasks: Sequence[str]
    ) -> NestedSpreads | None:
        """Return the spreads between pretrainings and between seeds on one scope, pooled over the models that are arms.

        Of each pretraining as many seeds count as the pretraining with the fewest has. None: no arm has two
        pretrainings there, or a pretraining has one seed.

        Args:
            models: names; those that are no arms do not count.
            place: what a score is over.
            tasks: those that the mean over all tasks is over.
        """
        parts = [(place.task, place.dataset)]
        if place.task == ALL:
            parts = [(task, AVERAGE) for task in tasks]
        arms: list[list[Array]] = []
        counts: list[int] = []
        for model in models:
            if model not in self.members:
                continue
            scores = list(self._by_seed(model, parts))
            if len(scores) > 1:
                arms.append(scores)
                counts += map(len, scores)
        n_seeds = min(counts, default=0)
        if n_seeds < 2:
            return None
        samples = [[scores[:n_seeds] for scores in arm] for arm in arms]
        return nested_spreads([np.array(sample) for sample in samples])

    def _by_seed(self, model: str, parts: Sequence[tuple[str, str]]) -> Iterator[Array]:
        """Yield for each pretraining of an arm the mean over the parts at each of its seeds that has every part."""
        for name in self.members[model]:
            cells = [self.scores.get((name, *part)) for part in parts]
            known = [cell for cell in cells if cell is not None]
            if len(known) == len(parts):
                mean = np.mean(known, axis=0)
                yield mean[np.isfinite(mean)]
