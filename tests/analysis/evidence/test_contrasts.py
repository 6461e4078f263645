"""Claimed regions, and what a finding says of them, by their definitions."""

from __future__ import annotations

import math

import pytest

from analysis.evidence.contrasts import Contrast, Finding, Spread, Term, contrast_finding
from analysis.statistics.estimates import Resampled, Student

TWO = Contrast(
    label="x",
    terms=(Term(weight=1.0, model="a", task="SC"), Term(weight=-1.0, model="b", task="QA", dataset="squad"),
           Term(weight=0.5, model="a", task="SC")),
)  # fmt: skip
RANGE = Contrast(label="x", terms=TWO.terms, low=-1.0, high=2.0)
BELOW = Contrast(label="x", terms=TWO.terms, low=-math.inf, high=0.5)


def test_a_contrast_names_each_model_task_and_place_once() -> None:
    assert TWO.models == ("a", "b") and TWO.tasks == ("SC", "QA")
    assert TWO.places == (("SC", "average"), ("QA", "squad"))
    assert TWO.terms[0].cell == ("a", "SC", "average")
    spread = Spread(label="x", task="SC", narrow=("a",), wide=("b", "c"), dataset="sst2")
    assert spread.models == ("a", "b", "c") and spread.tasks == ("SC",) and spread.places == (("SC", "sst2"),)


@pytest.mark.parametrize(
    ("asked", "words", "is_range", "held", "not_held"),
    [
        (TWO, "> 0", False, (0.01, 99.0), (0.0, -0.01)),
        (RANGE, "in (-1, 2)", True, (-0.99, 1.99), (-1.0, 2.0)),
        (BELOW, "< 0.5", False, (-99.0, 0.49), (0.5, 0.51)),
        (Spread(label="", task="SC", narrow=(), wide=()), "< 1", False, (0.0, 0.99), (1.0, 1.01)),
    ],
)
def test_a_region_is_open(
    asked: Contrast | Spread, words: str, is_range: bool, held: tuple[float, ...], not_held: tuple[float, ...]
) -> None:
    assert (asked.region, asked.is_range, asked.ends) == (words, is_range, (asked.low, asked.high))
    assert all(asked.holds(effect) for effect in held) and not any(asked.holds(effect) for effect in not_held)


@pytest.mark.parametrize(
    ("low", "high", "outside"),
    [(-3, -1.1, True), (-3, -1.0, False), (-3, 0, False), (2.0, 5, False), (2.1, 5, True), (-3, 5, False)],
)
def test_an_interval_is_outside_when_it_does_not_touch_the_region(
    low: float, high: float, outside: bool
) -> None:
    assert Finding(comparison=RANGE, low=low, high=high).outside == outside
    assert not Finding(comparison=RANGE, low=low, high=high, missing="no runs").outside


def test_what_is_missing_is_no_evidence_for_or_against() -> None:
    unknown = Finding(comparison=TWO, missing="no runs")
    assert not unknown.known and (unknown.p_for, unknown.p_against) == (1.0, 1.0)
    assert math.isnan(unknown.effect) and math.isnan(unknown.p_zero) and unknown.instance_share == 0
    assert not unknown.within_seeds and Finding(comparison=TWO).known


def test_a_finding_takes_over_its_estimate() -> None:
    estimate = Student(effect=1.0, error=0.5, df=4.0, instance_share=0.3)
    found = contrast_finding(RANGE, estimate, test="t", inputs=("one",), seeds=(5, 5), interval="t")
    assert (found.low, found.high) == estimate.interval()
    assert (found.inner_low, found.inner_high) == estimate.interval(0.90)
    assert found.p_zero == pytest.approx(2 * estimate.p_above(0.0))
    assert (found.effect, found.error, found.df, found.instance_share) == (1.0, 0.5, 4.0, 0.3)
    assert found.seeds == (5,) and not found.within_seeds
    assert contrast_finding(RANGE, estimate, test="t", inputs=(), seeds=(5, 4)).seeds == (5, 4)


def test_a_resampled_estimate_has_no_share_of_instances_and_a_p_of_one_at_most() -> None:
    drawn = Resampled(effect=0.0, drawn=(-1.0, 0.0, 0.0, 0.0, 1.0))
    found = contrast_finding(TWO, drawn, test="b", inputs=(), seeds=(5,))
    assert found.p_zero == 1.0 and found.instance_share == 0.0
    nothing = Student(effect=0.0, error=0.0, df=4.0)
    assert contrast_finding(TWO, nothing, test="t", inputs=(), seeds=(5,)).p_zero == 1.0
