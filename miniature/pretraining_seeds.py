"""The form `seeds`: how much pretraining a model again moves its scores, next to fine-tuning it again.

The only evidence about pretraining seeds that this package can make, at toy scale: nothing of it is about the paper's
networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.statistics.learning_rate_selection import select_runs
from analysis.statistics.variance_components import Components, variance_components
from miniature.forms import FAMILIES, Form

__all__ = ["Spread", "spreads"]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A model's variances on one family."""

    model: str
    family: str
    components: Components

    @property
    def texts(self) -> list[str]:
        """A row of a table: standard deviations, the variances' ratio with its interval, p."""
        one = self.components
        return [
            f"`{self.model}`", self.family, f"{max(one.between, 0.0) ** 0.5:.2f}", f"{one.within**0.5:.2f}",
            f"{one.ratio:.2f} [{one.ratio_low:.2f}, {one.ratio_high:.2f}]", f"{one.p:.3f}",
        ]  # fmt: skip


def spreads(form: Form, runs: pd.DataFrame) -> Iterator[Spread]:
    """Yield the variances of every model that was pretrained several times, on each family that is complete.

    Args:
        form: with more than one of `pretraining_seeds`.
        runs: the runs table, under the form's own names; each seed's learning rate is the best by validation.
    """
    scores = 100 * select_runs(runs).pivot(index=["model", "dataset"], columns="seed", values="test_score")
    for name in form.repeated_models:
        copies = [name, *(copy for copy, (of, _) in form.copies.items() if of == name)]
        for family, dataset in FAMILIES.items():
            values = scores.reindex([(copy, dataset) for copy in copies]).to_numpy(dtype=np.float64)
            if values.shape[1] > 1 and np.isfinite(values).all() and values.std() > 0:
                yield Spread(model=name, family=family, components=variance_components(values))
