"""Forests: places in percent follow the numbers; what is unknown, unbounded or too wide is drawn as what it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from analysis.claims.evidence import Finding
from analysis.claims.statements import Claim, Contrast, all_of
from analysis.claims.verdicts import Verdict, judge
from clm_or_mlm.report.content import Content
from clm_or_mlm.report.forests import claim_forest, overview


def judged(*found: tuple[float, float, float], low: float = 0.0, high: float = math.inf) -> Verdict:
    """The verdict on a claim whose comparisons have these effects and intervals; NaN: not known."""
    parts = [Contrast(label=f"part {n}", terms=(), low=low, high=high) for n in range(len(found))]
    numbers = dict(zip([part.label for part in parts], found, strict=True))

    def finding_of(comparison: object) -> Finding:
        assert isinstance(comparison, Contrast)
        effect, below, above = numbers[comparison.label]
        if math.isnan(effect):
            return Finding(comparison=comparison, missing="no runs of it")
        return Finding(
            comparison=comparison, effect=effect, low=below, high=above, p_for=0.01 if below > low else 0.5,
            p_against=0.01 if above < low else 0.5, seeds=(5,),
        )  # fmt: skip

    claim = Claim(id="F1", statement="s", where="w", family="objective", body=all_of("all", parts), short="s")
    return judge({"F1": claim}, finding_of)[0]


def test_places_are_linear_in_the_numbers() -> None:
    forest = claim_forest(judged((1, 0.5, 1.5), (3, 2, 4), (-1, -2, -0.5)))
    assert forest is not None
    rows = {row.text: row for row in forest.rows}
    one, three, minus = (
        rows[f"{text}"]
        for text in ("+1.00 [+0.50, +1.50]", "+3.00 [+2.00, +4.00]", "\u22121.00 [\u22122.00, \u22120.50]")
    )
    scale = (three.effect - minus.effect) / 4
    assert one.effect == pytest.approx(minus.effect + 2 * scale, abs=0.02)
    assert forest.zero == pytest.approx(minus.effect + scale, abs=0.02)
    assert three.high - three.low == pytest.approx(2 * scale, abs=0.02)
    assert [one.says, minus.says] == ["holds", "fails"]
    assert minus.role == "adverse"
    assert one.region[0] == pytest.approx(forest.zero) and one.region[1] == 100


def test_a_claimed_range_has_both_of_its_ends() -> None:
    forest = claim_forest(judged((0.1, -0.2, 0.4), (0.2, 0.1, 0.3), low=-0.5, high=0.5))
    assert forest is not None
    for row in forest.rows:
        assert 0 < row.region[0] < forest.zero < row.region[1] < 100


def test_an_interval_of_two_seeds_is_cut_with_an_arrow() -> None:
    forest = claim_forest(judged((1, -300, 302), (2, 1, 3)))
    assert forest is not None
    wide, narrow = forest.rows
    assert wide.cut_low and wide.cut_high and not narrow.cut_low
    assert wide.low == 0 and wide.high == 100
    assert narrow.high - narrow.low > 10  # still to be seen


def test_what_is_not_known_is_named_and_not_drawn() -> None:
    forest = claim_forest(judged((1, 0, 2), (math.nan, math.nan, math.nan)))
    assert forest is not None
    assert [row.label for row in forest.rows] == ["part 0"] and forest.missing == ("part 1",)
    assert claim_forest(judged((math.nan,) * 3)) is None


def test_an_effect_without_interval_is_a_point() -> None:
    forest = claim_forest(judged((1, math.nan, math.nan), (2, 1, 3)))
    assert forest is not None
    row = forest.rows[0]
    assert row.low == row.high == row.effect


def test_the_overview_has_one_axis_for_all_of_a_unit(published_content: Content) -> None:
    verdicts = [entry.verdict for entry in published_content.findings]
    places = overview(verdicts)
    points = [place for name, place in places.items() if place.unit == "points"]
    slopes = [place for name, place in places.items() if place.unit != "points"]
    assert len(points) > 8 and len(slopes) > 3
    assert {place.zero for place in places.values()} == {50.0}
    assert len({place.ticks for place in points}) == 1
    assert overview([]) == {}


def test_rows_say_value_interval_seeds_and_what_is_claimed(published_content: Content) -> None:
    [entry] = [entry for entry in published_content.findings if entry.id == "F8"]
    assert entry.forest is not None and entry.by_dataset is not None
    for row in (*entry.forest.rows, *entry.by_dataset.rows):
        assert row.text in row.tip and "claimed > 0" in row.tip and "n = 5 seeds" in row.tip
    assert [row.role for row in entry.forest.rows].count("adverse") == 1
    assert replace(entry.forest, rows=()).rows == ()
