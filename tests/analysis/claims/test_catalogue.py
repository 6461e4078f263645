"""The claims as data: complete, made of the study's models, and with the weights they say they have."""

import numpy as np
import pytest

from analysis.claims.catalogue import FAMILIES, FINDINGS, MARGINS
from analysis.claims.statements import AtLeast, comparisons
from analysis.evidence.contrasts import Contrast, Spread
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED
from benchmarks.protocol import TASKS
from pretraining.paper_models import MODELS, RATIOS

FINDING_ON = PUBLISHED.evidence(Settings()).result


def contrasts(name: str) -> list[Contrast]:
    return [
        comparison
        for comparison in comparisons(FINDINGS[name].body)
        if isinstance(comparison, Contrast)
    ]


def test_every_finding_has_an_entry_in_order():
    expected = [f"F{number}" for number in range(1, 18)]
    expected[4:5] = [f"F5{letter}" for letter in "abcde"]
    assert list(FINDINGS) == expected
    assert all(
        finding.id == name and finding.family in FAMILIES
        for name, finding in FINDINGS.items()
    )
    assert all(
        finding.statement.endswith(".") and finding.where and finding.short
        for finding in FINDINGS.values()
    )
    assert set(MARGINS) == set(TASKS)


def test_only_the_studys_models_are_compared():
    for finding in FINDINGS.values():
        for node in (finding.body, *finding.reported):
            for comparison in comparisons(node):
                models = (
                    [term.model for term in comparison.terms]
                    if isinstance(comparison, Contrast)
                    else [*comparison.narrow, *comparison.wide]
                )
                assert set(models) <= set(MODELS), (finding.id, comparison.label)


def test_every_contrast_is_a_comparison():
    for finding in FINDINGS.values():
        for comparison in comparisons(finding.body):
            if isinstance(comparison, Contrast):
                assert sum(term.weight for term in comparison.terms) == pytest.approx(
                    0, abs=1e-12
                )
                assert comparison.low < comparison.high


def test_claims_that_need_runs_are_those_about_spreads():
    for finding in FINDINGS.values():
        spreads = any(
            isinstance(comparison, Spread) for comparison in comparisons(finding.body)
        )
        assert spreads == (finding.needs == "runs"), finding.id


def test_slopes_are_those_of_the_line_and_of_the_parabola():
    cells = published_values()
    cells = cells[(cells["dataset"] == "average")].set_index(["model", "task"])["mean"]
    for size, task in (("210m", "TC"), ("1b", "IR"), ("610m", "QA")):
        y = [cells[f"{size}-mlm{ratio}-42k", task] for ratio in RATIOS]
        slope = np.polyfit(np.array(RATIOS) / 10, y, 1)[0]
        parabola = np.polyfit(np.array(RATIOS) / 10, y, 2)
        found = {
            comparison.label: FINDING_ON(comparison).effect
            for name in ("F5c", "F5d", "F5e")
            for comparison in contrasts(name)
        }
        if f"slope on {task}, {size}" in found:
            assert found[f"slope on {task}, {size}"] == pytest.approx(slope)
        for end in (20, 50):
            if f"slope at {end} % on {task}, {size}" in found:
                assert found[f"slope at {end} % on {task}, {size}"] == pytest.approx(
                    np.polyval(np.polyder(parabola), end / 10)
                )


def test_numbers_of_comparisons():
    counts = {
        name: len(list(comparisons(finding.body))) for name, finding in FINDINGS.items()
    }
    assert (
        counts["F1"] == 6
        and counts["F6"] == 19
        and counts["F8"] == 12
        and counts["F9"] == 3
        and counts["F5b"] == 1
    )
    body = FINDINGS["F14"].body
    assert isinstance(body, AtLeast) and body.count == 3 and len(body.parts) == 4
