"""How often the answer is right: sources whose true differences are known, each of them answered.

python -m tests.analysis.claims.test_answer_simulated [--sources 200]
"""

import argparse
from functools import cache

import numpy as np
import pandas as pd
import pytest

from analysis.claims.answer import answer
from analysis.claims.assessment import SPLIT, assess
from analysis.claims.catalogue import ANSWERS
from analysis.claims.statements import comparisons
from analysis.claims.titles import ANSWER
from analysis.evidence.contrasts import Contrast
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import Source
from benchmarks.protocol import AVERAGE, DATASETS, TASKS, datasets_of

SEEDS = 5


def cells() -> pd.DataFrame:
    """Return means and standard deviations over seeds, in points, of the models that the answer compares."""
    models = dict.fromkeys(name for one in ANSWERS.values() for name in one.models)
    printed = published_values()
    found = printed[
        printed["model"].isin(list(models)) & (printed["dataset"] != AVERAGE)
    ]
    return found.assign(sd=found["ci95"] / 1.96 * SEEDS**0.5).reset_index(drop=True)


def source(rng: np.random.Generator, *, differ: bool) -> tuple[Source, int, int]:
    """Return runs of normal seeds, and in how many of the 12 comparisons the split is truly better and worse.

    Args:
        rng: of the seeds.
        differ: whether true means are the printed ones; else every model has the mean of MLM alone at its dataset.
    """
    held = cells()
    if not differ:
        held["mean"] = held.groupby("dataset")["mean"].transform("first")
    rows = held.loc[held.index.repeat(SEEDS)].reset_index(drop=True)
    scores = np.clip(rng.normal(rows["mean"], rows["sd"]) / 100, 0, 1)
    runs = pd.DataFrame(
        {
            "model": rows["model"],
            "task": rows["dataset"].map(
                {name: one.task for name, one in DATASETS.items()}
            ),
            "dataset": rows["dataset"],
            "lr": 1e-4,
            "seed": np.tile(np.arange(SEEDS), len(held)),
            "validation_score": scores,
            "test_score": scores,
            "n_validation": 1000,
            "n_test": 1000,
        }
    ).astype({"n_validation": "Int64", "n_test": "Int64"})
    means = held.set_index(["model", "dataset"])["mean"]
    gaps = []
    for one in comparisons(ANSWERS[SPLIT].body):
        assert isinstance(one, Contrast)
        (task,) = one.tasks
        better, worse = (
            np.mean([means[name, data] for data in datasets_of(task)])
            for name in one.models
        )
        gaps.append(better - worse)
    return (
        Source(label="simulated", runs=runs),
        sum(np.array(gaps) > 0),
        sum(np.array(gaps) < 0),
    )


@cache
def shares(sources: int, *, differ: bool) -> dict[str, float]:
    """Return the shares of sources that are answered, whose sentence is true, and whose mean is in its interval."""
    rng = np.random.default_rng([sources, differ])
    answered, right, covered = [], [], []
    for _ in range(sources):
        simulated, better, worse = source(rng, differ=differ)
        assessment = assess(simulated, Settings())
        main = assessment.judged[ANSWER]
        mean = main.mean
        answered.append(not answer(assessment).headline.startswith("Open"))
        assert answered[-1] == bool(main.holds_in or main.fails_in)
        right.append(main.holds_in <= better and main.fails_in <= worse)
        assert (
            mean is not None
            and isinstance(mean.comparison, Contrast)
            and len(TASKS) == 4
        )
        truth = 0.0
        if differ:
            held = cells().set_index(["model", "dataset"])["mean"]
            truth = sum(
                term.weight
                * np.mean([held[term.model, name] for name in datasets_of(term.task)])
                for term in mean.comparison.terms
            )
        covered.append(mean.low <= truth <= mean.high)
    return {
        "answered": float(np.mean(answered)),
        "true": float(np.mean(right)),
        "mean covered": float(np.mean(covered)),
    }


@pytest.mark.slow
def test_answer_is_open_in_95_percent_without_a_difference() -> None:
    none, papers = shares(200, differ=False), shares(200, differ=True)
    assert none["answered"] <= 0.05
    assert papers["answered"] >= 0.95 and papers["true"] >= 0.95


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", type=int, default=200)
    count = parser.parse_args().sources
    for differ in (False, True):
        print(
            "the paper's differences" if differ else "no difference",
            shares(count, differ=differ),
        )
