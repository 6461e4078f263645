"""Damaged files of every format: refused in a sentence or read rightly, the good ones untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.results_json import ResultsError, parse_results
from benchmarks.runs import results_text
from tests.fuzz.formats import FORMATS, SCORES
from tests.fuzz.mutations import QUICK, SLOW, FileFormat, attack
from tests.fuzz.pretraining_formats import FORMATS as OF_PRETRAINING


@pytest.mark.parametrize("form", [*FORMATS, *OF_PRETRAINING], ids=lambda form: form.name)
@pytest.mark.parametrize(
    ("seed", "count"), [(0, QUICK), pytest.param(1, SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_damaged_files_are_refused_or_read(form: FileFormat, tmp_path: Path, seed: int, count: int) -> None:
    tally = attack(form, tmp_path, seed=seed, count=int(form.share * count))
    assert tally["refused"] > 0, tally


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["score", "scores_i", "x"]), inner)
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow], derandomize=True, deadline=None)
@given(
    split=st.sampled_from(["validation", "test"]), key=st.sampled_from(["score", "scores_i", ""]), value=JSON
)
def test_any_value_anywhere_in_a_result_is_a_score_or_a_sentence(split: str, key: str, value: object) -> None:
    document = json.loads(results_text(SCORES))
    if key:
        document[split][key] = value
    else:
        document[split] = value
    try:
        found = parse_results(json.dumps(document).encode())
    except ResultsError as error:
        assert error.sentence.isprintable()
    else:
        assert all(0 <= part.score <= 1 for part in found)
