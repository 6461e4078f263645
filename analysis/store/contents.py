"""What a runs table holds: a name by its content, and test sets that are not the paper's."""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import pandas as pd

from analysis.published_cells import TEST_INSTANCES
from analysis.records import records

__all__ = ["fingerprint", "warn_of_other_sizes"]

logger = logging.getLogger(__name__)


def warn_of_other_sizes(source: str, runs: pd.DataFrame) -> None:
    """Say which datasets are not the paper's: their scores look the same next to the published ones."""
    sizes = runs.dropna(subset="n_test").drop_duplicates(["dataset", "n_test"])
    other = [
        f"{name} ({count:,} test examples, the paper's has {TEST_INSTANCES[name]:,})"
        for name, count in dict(records(sizes, "dataset", "n_test")).items()
        if TEST_INSTANCES.get(name, count) != count
    ]
    if other:
        logger.warning(
            "%s: not the paper's test sets, so these scores are not comparable with the paper's numbers: %s",
            source, ", ".join(other),
        )  # fmt: skip


def fingerprint(runs: pd.DataFrame) -> str:
    """Return a name of the runs by their content: the same wherever they are."""
    columns = ["model", "dataset", "lr", "seed", "validation_score", "test_score"]
    rows = pd.util.hash_pandas_object(runs[columns], index=False).to_numpy()
    return f"runs-{hashlib.sha256(np.sort(rows).astype('<u8').tobytes()).hexdigest()[:12]}"
