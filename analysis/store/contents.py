"""What a runs table holds: a name by its content, and test sets that are not the paper's."""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import pandas as pd

from analysis.published_cells import TEST_INSTANCES
from analysis.records import records

__all__ = ["fingerprint", "note_unsealed", "other_sizes", "unsealed_words", "warn_of_other_sizes"]

logger = logging.getLogger(__name__)


def other_sizes(runs: pd.DataFrame) -> list[str]:
    """Return the datasets whose test sets are not the paper's, with their numbers of examples."""
    sizes = runs.dropna(subset="n_test").drop_duplicates(["dataset", "n_test"])
    return [
        f"{name} ({count:,} test examples, the paper's has {TEST_INSTANCES[name]:,})"
        for name, count in dict(records(sizes, "dataset", "n_test")).items()
        if TEST_INSTANCES.get(name, count) != count
    ]


def warn_of_other_sizes(source: str, runs: pd.DataFrame) -> None:
    """Say which datasets are not the paper's: their scores look the same next to the published ones."""
    if other := other_sizes(runs):
        logger.warning(
            "%s: some test sets are not the paper's, so scores on them are not comparable with the paper's numbers: %s",
            source, ", ".join(other),
        )  # fmt: skip


def unsealed_words(unsealed: int, runs: int) -> str:
    """Return which of so many runs nothing would show a change of, in words; empty for none."""
    if not unsealed:
        return ""
    if unsealed == runs:
        return "unsealed, like the authors' files: a changed score would go unnoticed"
    return f"{unsealed:,} of {runs:,} runs unsealed: changes in their scores would go unnoticed"


def note_unsealed(source: str, unsealed: int, runs: int) -> None:
    """Log what `unsealed_words` returns of a source."""
    if words := unsealed_words(unsealed, runs):
        logger.info("%s: %s", source, words)


def fingerprint(runs: pd.DataFrame) -> str:
    """Return a name of the runs by their content: the same wherever they are."""
    columns = ["model", "dataset", "lr", "seed", "validation_score", "test_score"]
    rows = pd.util.hash_pandas_object(runs[columns], index=False).to_numpy()
    return f"runs-{hashlib.sha256(np.sort(rows).astype('<u8').tobytes()).hexdigest()[:12]}"
