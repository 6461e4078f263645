from __future__ import annotations

import numpy as np

from analysis.comparisons.comparison import compare
from analysis.comparisons.wording import about, difference_tables, footer, ranking_sentences
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED, Source
from common.tables import signed
from tests.analysis.comparisons.given import MADE_UP, REAL
from tests.analysis.made_up import with_instances

SETTINGS = Settings(interval="t", resamples=500)


def test_many_models_are_held_against_the_first_of_the_ranking():
    result = compare(PUBLISHED, ["610m-*-12k"], SETTINGS)
    first = result.ranking.ranked[0].model
    tables = dict(difference_tables(result))
    assert all(title.startswith(f"{first} (A) minus") for title in tables)
    assert [len(rows) for rows in tables.values()] == [5] * 5  # four tasks and all, a head and four models
    by_name = {one.second if one.first == first else one.first: one for one in result.differences if
               first in (one.first, one.second) and one.scope.title == "SC average"}  # fmt: skip
    for name, difference, *_ in tables[
        f"{first} (A) minus each of the other models (B), SC average; Holm over all pairs of models:"
    ][1:]:
        one = by_name[name]
        assert difference == signed(one.effect if one.first == first else -one.effect)
    assert "critical difference" in " ".join(ranking_sentences(result.ranking))
    assert about(result).startswith("5 models")
    assert "pretrained once" in " ".join(footer(result))


def test_the_footer_names_the_interval_over_instances(tmp_path):
    runs, folder = with_instances(
        tmp_path / "instances", np.random.default_rng(0), models=(REAL, MADE_UP), counts={}
    )
    source = Source(label="x", runs=runs, instances=folder)
    found = compare(source, [REAL, MADE_UP], Settings(interval="crossed", resamples=200))
    assert footer(found)[0].startswith("Intervals for differences (crossed): 95 % interval by Student")
    assert {one.interval for one in found.differences} == {"crossed"}
