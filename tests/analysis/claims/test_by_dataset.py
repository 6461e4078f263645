"""Claims by dataset: the parts, and where one dataset makes a result."""

import numpy as np
import pytest

from analysis.claims.assessment import Assessment, assess
from analysis.claims.by_dataset import (
    effects_by_dataset,
    finding_by_dataset,
    makes_the_result,
)
from analysis.claims.catalogue import FINDINGS
from analysis.claims.judged import judge
from analysis.claims.statements import comparisons, difference
from analysis.evidence.contrasts import Contrast, Result, Spread
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, Source
from benchmarks.protocol import datasets_of
from tests.analysis.claims.given import finding_of
from tests.analysis.made_up import made_up_runs

FINDING_OF = PUBLISHED.evidence(Settings(interval="t")).result


def single(assessment: Assessment, finding: str, dataset: str) -> list[Result]:
    return [one.single[dataset] for one in assessment.effects_by_dataset(finding)[:3]]


def test_a_part_for_a_task_is_a_part_for_each_of_its_datasets(
    assessment: Assessment,
) -> None:
    parts = {name: one.parts for name, one in assessment.judged_by_dataset.items()}
    assert (
        parts["F1"] == 6 * 3
        and parts["F8"] == 12 * 3
        and parts["F9"] == 3 * 12
        and parts["F5b"] == 12
        and parts["F6"] == 19 * 3
    )
    assert parts["F2"] == 9 * 3 * 3  # every pair of datasets
    assert parts["F5a"] == 4  # a search over more places is still one part
    for finding in FINDINGS.values():
        for one in comparisons(finding_by_dataset(finding).body):
            names = (
                [one.dataset]
                if isinstance(one, Spread)
                else [term.dataset for term in one.terms]
            )
            tasks = (
                one.tasks * len(names)
                if isinstance(one, Spread)
                else [term.task for term in one.terms]
            )
            assert all(
                name in datasets_of(task)
                for name, task in zip(names, tasks, strict=True)
            )


def test_f8_by_dataset_holds_in_21_of_36_and_never_reverses(
    assessment: Assessment,
) -> None:
    found = assessment.judged_by_dataset["F8"]
    parts = [part.branch for part in found.counted]
    assert sum(part.p_for <= 0.05 for part in parts) == 21
    assert min(part.p_against for part in parts) > 0.05
    assert (found.holds_in, found.fails_in) == (4, 0)
    # Had no other share of CLM been tried
    assert found.alone.holds_in == 9


def test_mnli_makes_the_widening_and_sst2_shows_no_gap(
    assessment: Assessment,
) -> None:
    effects = assessment.effects_by_dataset("F3")
    assert [name for one in effects for name in one.makers] == ["mnli_m", "mnli_m"]
    gaps = [one.effect for one in single(assessment, "F1", "mnli_m")]
    assert gaps == pytest.approx([4.16, 7.10, 12.51])
    sst2 = single(assessment, "F1", "sst2")
    assert [one.effect for one in sst2] == pytest.approx([0.44, 0.32, 0.41])
    assert [one.p_for for one in sst2] == pytest.approx([0.31, 0.42, 0.17], abs=0.02)


def test_the_average_without_a_dataset_is_that_of_the_others() -> None:
    contrast = difference("MLM - CLM", "1b-mlm40-42k", "1b-clm-42k", "SC")
    [effects] = effects_by_dataset(finding_of(contrast), FINDING_OF)
    assert list(effects.single) == list(datasets_of("SC"))
    cells = published_values().set_index(["model", "dataset"])["mean"]
    gaps = {
        name: cells["1b-mlm40-42k", name] - cells["1b-clm-42k", name]
        for name in datasets_of("SC")
    }
    for name in gaps:
        rest = [gap for other, gap in gaps.items() if other != name]
        assert effects.without[name].effect == pytest.approx(sum(rest) / 2)


def test_contrasts_across_tasks_have_no_effects_by_dataset() -> None:
    across = next(iter(comparisons(FINDINGS["F2"].body)))
    assert (
        isinstance(across, Contrast)
        and effects_by_dataset(finding_of(across), FINDING_OF) == []
    )


def test_with_runs_of_one_dataset_what_can_be_said_of_it_is_said() -> None:
    models = ["610m-clm-42k", "610m-mlm40-42k"]
    runs = made_up_runs(
        np.random.default_rng(0), models=models, shift={models[1]: 0.05}
    )
    found = assess(Source(label="x", runs=runs[runs["dataset"] == "sst2"]), Settings())
    main = judge(map(finding_by_dataset, FINDINGS.values()), found.result_of)["F1"]
    assert (main.known, main.holds_in, main.verdict) == (
        1,
        1,
        "holds in 1 of 1 (17 not run)",
    )
    [effects] = found.effects_by_dataset("F1")
    assert list(effects.single) == ["sst2"] and not effects.without
    other = found.judged_by_dataset["F8"]
    assert other.known == 0 and other.verdict == "open"


def test_spreads_are_read_by_dataset_from_runs() -> None:
    models = ["610m-clm-42k", "610m-mlm40-42k"]
    runs = made_up_runs(np.random.default_rng(1), models=models)
    result_of = Evidence(Settings(), runs=runs).result
    found = judge([finding_by_dataset(FINDINGS["F7"])], result_of)["F7"]
    assert found.known == found.parts == 12


@pytest.mark.parametrize(
    ("rest", "p_rest", "named"),
    [
        (1.2, 0.2, False),
        (0.9, 0.2, True),
        (-0.1, 0.8, True),
        (3.0, 0.2, False),
        (0.9, 0.01, False),
    ],
)
def test_result_depends_on_a_dataset_that_halves_its_effect(
    rest: float, p_rest: float, named: bool
) -> None:
    """Of 2.0 points; fewer data alone, with which an effect as large is no longer significant, name nothing."""
    contrast = difference("MLM - CLM", "1b-mlm40-42k", "1b-clm-42k", "SC")

    def of(effect: float, p: float) -> Result:
        return Result(comparison=contrast, effect=effect, p_for=p, p_against=1.0)

    for sign in (1.0, -1.0):
        assert makes_the_result(of(2.0 * sign, 0.01), of(rest * sign, p_rest)) == named
