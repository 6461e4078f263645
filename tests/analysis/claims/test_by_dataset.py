"""Claims by dataset: the parts, and where one dataset makes a result."""

import numpy as np
import pandas as pd
import pytest

from analysis.claims.assessment import Assessment, assess
from analysis.claims.by_dataset import (
    effects_by_dataset,
    finding_by_dataset,
    makes_the_result,
)
from analysis.claims.catalogue import FINDINGS
from analysis.claims.frame import judge, main_of, of_finding
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


def single(assessment: Assessment, finding: str, dataset: str) -> pd.DataFrame:
    effects = assessment.effects_by_dataset(finding)
    return effects[(effects["role"] == "dataset") & (effects["dataset"] == dataset)]


def test_a_part_for_a_task_is_a_part_for_each_of_its_datasets(
    assessment: Assessment,
) -> None:
    frame = assessment.frame_by_dataset
    parts = frame[frame["role"] == "finding"].set_index("id")["parts"]
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


def test_f8_by_dataset_holds_alone_in_21_of_36_and_is_nowhere_reversed(
    assessment: Assessment,
) -> None:
    found = of_finding(assessment.frame_by_dataset, "F8")
    parts = found[found["counted"] != ""]
    assert ((parts["p_for"] <= 0.05).sum(), (parts["p_against"] <= 0.05).sum()) == (
        21,
        0,
    )
    assert (main_of(found).holds_in, main_of(found).fails_in) == (4, 0)
    assert list(parts["counted"]).count("holds") == 4
    # Had no other share of CLM been tried
    assert found[found["role"] == "verdict"]["holds_in"].iloc[0] == 9


def test_mnli_makes_the_widening_and_sst2_shows_no_gap_at_any_size(
    assessment: Assessment,
) -> None:
    effects = assessment.effects_by_dataset("F3")
    assert list(effects.loc[effects["makes_the_result"], "dataset"]) == [
        "mnli_m",
        "mnli_m",
    ]
    assert list(single(assessment, "F1", "mnli_m")["effect"]) == pytest.approx(
        [4.16, 7.10, 12.51]
    )
    sst2 = single(assessment, "F1", "sst2")
    assert list(sst2["effect"]) == pytest.approx([0.44, 0.32, 0.41])
    assert list(sst2["p_for"]) == pytest.approx([0.31, 0.42, 0.17], abs=0.02)


def test_the_average_without_a_dataset_is_that_of_the_others() -> None:
    contrast = difference("MLM - CLM", "1b-mlm40-42k", "1b-clm-42k", "SC")
    effects = effects_by_dataset(finding_of(contrast), FINDING_OF)
    assert list(effects["role"]) == ["dataset"] * 3 + ["average"] + ["without"] * 3
    cells = published_values().set_index(["model", "dataset"])["mean"]
    gaps = {
        name: cells["1b-mlm40-42k", name] - cells["1b-clm-42k", name]
        for name in datasets_of("SC")
    }
    without = effects[effects["role"] == "without"].set_index("dataset")["effect"]
    for name in gaps:
        rest = [gap for other, gap in gaps.items() if other != name]
        assert without[name] == pytest.approx(sum(rest) / 2)


def test_contrasts_across_tasks_have_no_effects_by_dataset() -> None:
    across = next(iter(comparisons(FINDINGS["F2"].body)))
    assert (
        isinstance(across, Contrast)
        and effects_by_dataset(finding_of(across), FINDING_OF).empty
    )


def test_with_runs_of_one_dataset_what_can_be_said_of_it_is_said() -> None:
    models = ["610m-clm-42k", "610m-mlm40-42k"]
    runs = made_up_runs(
        np.random.default_rng(0), models=models, shift={models[1]: 0.05}
    )
    found = assess(Source(label="x", runs=runs[runs["dataset"] == "sst2"]), Settings())
    main = main_of(
        of_finding(
            judge(map(finding_by_dataset, FINDINGS.values()), found.result_of), "F1"
        )
    )
    assert (main.known, main.holds_in, main.verdict) == (1, 1, "holds in 1 of 18")
    effects = found.effects_by_dataset("F1")
    assert list(effects["role"]) == ["dataset", "average"]
    other = main_of(of_finding(found.frame_by_dataset, "F8"))
    assert other.known == 0 and other.verdict == "open"


def test_spreads_are_read_by_dataset_from_runs() -> None:
    models = ["610m-clm-42k", "610m-mlm40-42k"]
    runs = made_up_runs(np.random.default_rng(1), models=models)
    found = judge(
        [finding_by_dataset(FINDINGS["F7"])], Evidence(Settings(), runs=runs).result
    )
    assert main_of(found).known == main_of(found).parts == 12


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
def test_a_result_depends_on_a_dataset_if_its_effect_halves_or_turns_without_it(
    rest: float, p_rest: float, named: bool
) -> None:
    """Of 2.0 points; fewer data alone, with which an effect as large is no longer significant, name nothing."""
    contrast = difference("MLM - CLM", "1b-mlm40-42k", "1b-clm-42k", "SC")

    def of(effect: float, p: float) -> Result:
        return Result(comparison=contrast, effect=effect, p_for=p, p_against=1.0)

    for sign in (1.0, -1.0):
        assert makes_the_result(of(2.0 * sign, 0.01), of(rest * sign, p_rest)) == named
