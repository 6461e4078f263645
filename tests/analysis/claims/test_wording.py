"""Verdicts in words: p, effects, sentences."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.claims.wording import (
    format_effect,
    format_p,
    how_tested,
    scope_in_words,
    seeds_in_words,
    sentence,
    three_lines,
)
from analysis.evidence.contrasts import Result, Spread
from analysis.evidence.intervals import INTERVALS
from analysis.sources import PUBLISHED, Source
from tests.analysis.claims.given import judged, part
from tests.analysis.made_up import made_up_runs

MODELS = ("610m-clm-42k", "610m-mlm40-42k")
RUNS = Source(label="x", runs=made_up_runs(np.random.default_rng(0), models=MODELS))


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (float("nan"), "-"),
        (0.00009, "< 0.0001"),
        (0.00042, "0.0004"),
        (0.0123, "0.012"),
    ],
)
def test_a_p_has_as_many_digits_as_it_needs(p: float, text: str):
    assert format_p(p) == text


def result(**known) -> Result:
    """Of a comparison of which this is known."""
    return Result(**({"comparison": part("a")} | known))


def test_an_effect_has_its_interval_and_a_ratio_no_sign():
    assert (
        format_effect(result(effect=1.0, low=0.5, high=1.5)) == "+1.00 [+0.50, +1.50]"
    )
    ratio = Spread(label="r", task="SC", narrow=("x",), wide=("y",))
    assert (
        format_effect(result(comparison=ratio, effect=0.5, low=0.2, high=0.9))
        == "0.50 [0.20, 0.90]"
    )
    assert (
        format_effect(result(comparison=ratio, missing="no runs"))
        == format_effect(None)
        == "-"
    )


def found_by(interval: str, count: int) -> Result:
    return result(interval=interval, seeds=(count,))


def test_the_words_on_tests_are_those_of_the_interval():
    over = {name: how_tested(RUNS, name, [])[1] for name in INTERVALS}
    assert "other fine-tuning seeds and test instances, not" in over.pop("crossed")
    assert all(
        "seeds on the same test instances, not" in line for line in over.values()
    )
    assert "Welch's t tests from each model's mean" in how_tested(PUBLISHED, "t", [])[0]


def test_words_name_the_interval_that_stands_in_for_few_seeds():
    test, *_ = how_tested(RUNS, "pooled", [found_by("t", 2)])
    assert (
        test.startswith("Tests and 95 % intervals (t): Welch's t; ")
        and "bootstrap" not in test
    )
    both, *_ = how_tested(RUNS, "pooled", [found_by("pooled", 5), found_by("t", 2)])
    assert both.startswith("Tests and 95 % intervals (pooled, t): a bootstrap t ")
    assert ", or Welch's t " in both


def test_undecidable_by_seeds_is_said_only_if_computed():
    seen = result(effect=1.0, error=0.5, df=4.0, seeds=(5,))
    assert seeds_in_words(seen, "it") == "About 12 seeds would decide it"
    for never in (1e-6, 0.0):
        words = seeds_in_words(replace(seen, effect=never), "it")
        assert words == "No number of seeds up to 100,000 would decide it"
    for unknown in ({"error": float("nan")}, {"seeds": ()}):
        assert seeds_in_words(replace(seen, **unknown), "it") == ""


def test_verdict_without_an_error_says_nothing_of_seeds():
    said = sentence(judged(part("a"), a=(0.2, 0.8)))
    assert said.startswith("Open") and "seeds" not in said


def test_a_finding_is_answered_in_three_lines(found):
    verdict, numbers, sure = three_lines(found["F8"], scope_in_words(PUBLISHED))
    assert verdict == "F8, CLM then MLM beats MLM alone: holds in 6 of 12."
    assert "+1.58 [+1.27, +1.90]" in numbers and "-0.25 [-0.91, +0.41]" in numbers
    assert (
        "at least 6 of 12, none shown to fail" in sure
        and "not other pretrainings" in sure
    )
    assert "needs individual runs" in three_lines(found["F7"], "")[1]
    assert (
        "p against the whole statement 0.019 (Holm 0.076)"
        in three_lines(found["F12"], "")[2]
    )
