"""Models whose names are outside the released scheme: refused unless they were added."""

from __future__ import annotations

import pytest

from analysis.store.foreign_models import model_error


@pytest.mark.parametrize("name", ["610m-clm-42k", "610m-mlm60-42k", "1b-clm-10k-mlm40-42k"])
def test_names_in_the_scheme_need_no_option(name: str) -> None:
    assert model_error(name) is None


def test_another_name_is_refused_with_the_nearest_and_the_option_that_takes_it() -> None:
    error = model_error("610m-clmm-42k")
    assert error is not None
    assert "did you mean '610m-clm-42k'" in error and error.endswith("--add-model 610m-clmm-42k")


def test_another_name_is_taken_by_itself_or_by_a_pattern() -> None:
    assert model_error("bert-base", ["bert-base"]) is None
    assert model_error("bert-base", ["roberta", "bert-*"]) is None
    assert model_error("BERT-base", ["bert-*"]) is not None
