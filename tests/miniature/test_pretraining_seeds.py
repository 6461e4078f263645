"""The variances of repeated pretrainings: which runs enter, and what is said of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.protocol import DATASETS
from miniature.forms import FAMILIES, FORMS
from miniature.pretraining_seeds import spreads

FORM = FORMS["seeds"]


def runs(scores: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return runs from {dataset: (model, pretraining seed, fine-tuning seed)}, each at a worse rate as well."""
    rows = []
    for dataset, values in scores.items():
        for place, name in enumerate(FORM.repeated_models):
            copies = [name, *(copy for copy, (of, _) in FORM.copies.items() if of == name)]
            for copy, of_copy in zip(copies, values[place], strict=True):
                for seed, value in enumerate(of_copy):
                    rows += [(copy, dataset, 3e-3, seed, 0.9, value), (copy, dataset, 1e-3, seed, 0.1, 0.0)]
    names = ["model", "dataset", "lr", "seed", "validation_score", "test_score"]
    found = pd.DataFrame(rows, columns=names)
    return found.assign(task=[DATASETS[name].task for name in found["dataset"]])


def test_each_model_and_family_has_the_ratio_of_its_own_runs() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0.4, 0.6, (2, 5, 5))
    found = list(spreads(FORM, runs({"sst2": values, "nq": values[::-1]})))
    assert [(one.model, one.family) for one in found] == [
        (name, family) for name in FORM.repeated_models for family in ("SC", "IR")
    ]
    assert found[0].components.f == pytest.approx(stats.f_oneway(*values[0]).statistic)
    assert found[1].components.f == pytest.approx(stats.f_oneway(*values[1]).statistic)
    assert found[0].texts[0] == "`mini-m-mlm40-420`" and "[" in found[0].texts[4]


def test_unfinished_families_and_forms_without_repeats_have_none() -> None:
    values = np.full((2, 5, 5), 0.5) + np.random.default_rng(1).normal(0, 0.01, (2, 5, 5))
    table = runs({FAMILIES["SC"]: values})
    lacking = table.drop(table.index[-1]).drop(table.index[-2])
    assert [one.model for one in spreads(FORM, lacking)] == [FORM.repeated_models[0]]
    assert list(spreads(FORMS["quick"], table)) == []
    assert FORMS["cpu"].copies == {}
