"""By how much the pretrainings of an arm differ, and the fine-tuning seeds of one pretraining.

An arm is a model that was pretrained several times; each pretraining was fine-tuned with several seeds.
"""

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
    """The scores of arms, by pretraining and fine-tuning seed."""

    members: Mapping[str, Sequence[str]]
    """By arm the names of its pretrainings."""
    scores: Mapping[tuple[str, str, str], Array]
    """By pretraining, task and dataset (or `average`) the scores of the seeds, (n_seeds,) in percent; nan where a seed
    has none."""

    @classmethod
    def of(
        cls, runs: pd.DataFrame, members: Mapping[str, Sequence[str]], selection: str
    ) -> ArmScores:
        """Return the scores of arms at the learning rates that a selection rule chooses.

        Args:
            runs: a runs table, with each pretraining under its own name.
            members: by arm the names of its pretrainings.
            selection: name of the rule that chooses learning rates.
        """
        pretrainings = [name for names in members.values() for name in names]
        table = seed_scores(runs[runs["model"].isin(pretrainings)], selection)
        # The rows are cells (model, task, dataset), the columns seeds.
        scores = dict(zip(table.index, table.to_numpy(), strict=True))
        return cls(members=members, scores=scores)

    def spreads(
        self, models: Iterable[str], place: Place, tasks: Sequence[str]
    ) -> NestedSpreads | None:
        """Return the spreads between pretrainings and between seeds of the scores on one place, pooled over the arms.

        None where no arm has two pretrainings there, or a pretraining has only one seed.

        Args:
            models: names; models that are no arms do not count.
            place: what a score is over.
            tasks: the tasks that the mean over all tasks is over.
        """
        parts = [(place.task, place.dataset)]
        if place.task == ALL:
            parts = [(task, AVERAGE) for task in tasks]

        # For each arm the scores by seed of each pretraining.
        arms: list[list[Array]] = []
        counts: list[int] = []  # seeds of every pretraining
        for model in models:
            if model not in self.members:
                continue
            pretrainings = list(self._by_seed(model, parts))
            if len(pretrainings) > 1:
                arms.append(pretrainings)
                counts += map(len, pretrainings)

        n_seeds = min(counts, default=0)
        if n_seeds < 2:
            return None

        # The estimate takes the same number of seeds of every pretraining: as many as the one with the fewest has.
        balanced = []
        for pretrainings in arms:
            balanced.append(np.array([scores[:n_seeds] for scores in pretrainings]))
        return nested_spreads(balanced)

    def _by_seed(self, arm: str, parts: Sequence[tuple[str, str]]) -> Iterator[Array]:
        """Yield for each pretraining of an arm its (n_seeds,) means over the parts (task, dataset).

        A pretraining without some part is left out, and so is a seed that has no score on some part.
        """
        for name in self.members[arm]:
            cells = [self.scores.get((name, *part)) for part in parts]
            known = [cell for cell in cells if cell is not None]
            if len(known) == len(parts):
                means = np.mean(known, axis=0)  # nan where a part has none
                yield means[np.isfinite(means)]
