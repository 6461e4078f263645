"""The answer in sentences: every outcome has its own, they name what was tested, and their numbers are scipy's."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from analysis.claims.answer import answer, random_effects
from analysis.claims.assessment import SPLIT, Assessment, assess
from analysis.claims.by_dataset import finding_by_dataset
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.statements import AtLeast, comparisons, difference
from analysis.claims.titles import ANSWER
from analysis.evidence.contrasts import AnyContrast, Contrast, Result
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import PUBLISHED, open_source
from pretraining.paper_models import BUDGET_SPLITS, parse
from tests.analysis.adjusted import multipletests


def given(result_of: Callable[[AnyContrast], Result]) -> Assessment:
    """What is said where the findings are these."""
    return Assessment(
        source=PUBLISHED, settings=Settings(interval="t"), result_of=result_of
    )


def alike(p_for: float, p_against: float, *, few: bool = False) -> Assessment:
    """Every comparison has these p's; `few`: only the 12k budget is known."""

    def result_of(comparison: AnyContrast) -> Result:
        if not isinstance(comparison, Contrast) or (
            few and "12k" not in comparison.label
        ):
            return Result(comparison=comparison, missing="no runs of it")
        return Result(
            comparison=comparison,
            effect=1.0,
            low=0.75,
            high=1.25,
            p_for=p_for,
            p_against=p_against,
        )

    return given(result_of)


@pytest.mark.parametrize(
    ("p_for", "p_against", "begins", "says"),
    [
        (
            1e-9,
            1.0,
            "Probably, but start with CLM: ",
            "in 12 of 12 comparisons and lower in none (610M models, ",
        ),
        (
            1.0,
            1e-9,
            "Probably, and without CLM first: ",
            "higher than MLM alone in none of 12 comparisons",
        ),
        (0.5, 0.5, "Open: ", "none of 12 comparisons shows"),
    ],
)
def test_each_outcome_has_its_sentence(
    p_for: float, p_against: float, begins: str, says: str
) -> None:
    headline = answer(alike(p_for, p_against)).headline
    assert (
        headline.startswith(begins)
        and says in headline
        and "+1.0 points [+0.8, +1.2]" in headline
    )
    if p_against < 0.05:
        assert "lower in 12 (" in headline


@pytest.mark.parametrize(
    ("budgets", "tasks", "begins"),
    [
        (("12k", "22k"), ("TC", "IR", "QA"), "Probably, and without CLM first: "),
        (("12k",), ("TC", "IR", "QA", "SC"), "Sometimes, starting with MLM: "),
        (("42k",), ("TC",), "Sometimes, starting with MLM: "),
    ],
)
def test_without_clm_first_asks_for_half_of_the_comparisons_too(
    budgets: tuple[str, ...], tasks: tuple[str, ...], begins: str
) -> None:
    def result_of(comparison: AnyContrast) -> Result:
        worse = comparison.label.endswith(budgets) and any(
            f"on {task}," in comparison.label for task in tasks
        )
        p_against = 1e-9 if worse else 0.9
        return Result(
            comparison=comparison,
            effect=0.0,
            low=-1.0,
            high=1.0,
            p_for=0.9,
            p_against=p_against,
        )

    assert answer(given(result_of)).headline.startswith(begins)


def test_a_source_with_some_comparisons_counts_those_alone() -> None:
    found = answer(alike(1e-9, 1.0, few=True))
    assert "in 4 of the 4 comparisons (of 12) that this source allows" in found.headline
    assert found.headline.startswith("Sometimes")
    assert all(
        "shown to be better in at least 4 of 4 comparisons and worse in none" in line
        for line in found.splits
    )


def test_a_source_without_any_says_why() -> None:
    found = answer(
        given(
            lambda comparison: Result(comparison=comparison, missing="no runs of 610m")
        )
    )
    assert found.headline.endswith("beats MLM alone: no runs of 610m.")
    assert not found.splits and not found.cautions
    assert (
        found.findings
        == f"Of {len(FINDINGS)} findings, {len(FINDINGS)} are open ({len(FINDINGS)} for lack of scores in this source)."
    )


def test_the_headline_names_split_models_budgets_and_tasks(
    assessment: Assessment,
) -> None:
    one, other = ANSWERS[SPLIT].body, FINDINGS["F8"].body
    assert isinstance(one, AtLeast) and isinstance(other, AtLeast)
    assert (one.parts, one.count) == (other.parts, len(other.parts) / 2)
    better = [parse(one.models[0]) for one in comparisons(ANSWERS[SPLIT].body)]
    alone = [parse(one.models[1]) for one in comparisons(ANSWERS[SPLIT].body)]
    assert all(abs(100 * model.clm_share - SPLIT) < 3 for model in better)
    assert {(m.size, m.ratio) for m in (*better, *alone)} == {("610m", 40)}
    assert {m.objective for m in better} == {"clm+mlm"} and {
        m.objective for m in alone
    } == {"mlm"}
    assert [m.steps for m in better] == [m.steps for m in alone]
    assert (
        {m.steps for m in better}
        == {1_000 * budget for budget in BUDGET_SPLITS}
        == {12_000, 22_000, 42_000}
    )
    headline = answer(assessment).headline
    assert (
        "at equal budget, 25 % CLM followed by 75 % MLM is shown to score higher than MLM alone in "
        in headline
    )
    assert (
        "(610M models, 40 % masking; 12K, 22K and 42K steps; four tasks; 95 % confidence "
        "for all at once and the three splits tried)" in headline
    )


def test_counts_of_every_split_are_statsmodels(
    assessment: Assessment,
) -> None:
    cells = published_values().set_index(["model", "task", "dataset"])[["mean", "ci95"]]

    def ps(comparison: AnyContrast) -> tuple[float, float]:
        assert isinstance(comparison, Contrast)
        (one, error), (two, other) = (cells.loc[term.cell] for term in comparison.terms)
        sd, their_sd = (
            max(half, 0.005) / 1.96 * math.sqrt(5) for half in (error, other)
        )
        test = stats.ttest_ind_from_stats(one, sd, 5, two, their_sd, 5, equal_var=False)
        return (test.pvalue, 1.0) if test.statistic > 0 else (1.0, test.pvalue)

    def counted_of(total: int, hold: int, fail: int) -> str:
        worse = f"at least {fail}" if fail else "none"
        return f"better in at least {hold} of {total} comparisons and worse in {worse}"

    def rejected(p_values: list[float]) -> list[bool]:
        return list(multipletests(p_values, 0.05, method="holm")[0])

    found = answer(assessment)
    every = {
        share: list(map(ps, comparisons(one.body))) for share, one in ANSWERS.items()
    }
    single = {
        share: list(map(ps, comparisons(finding_by_dataset(one).body)))
        for share, one in ANSWERS.items()
    }

    def shown(groups: dict[int, list[tuple[float, float]]], share: int) -> str:
        """Of one split when all three are tested at once."""
        order = [share, *(other for other in groups if other != share)]
        size = len(groups[share])
        return counted_of(
            size,
            *(
                sum(rejected([p[way] for o in order for p in groups[o]])[:size])
                for way in (0, 1)
            ),
        )

    for share in ANSWERS:
        [line] = [
            one
            for one in found.splits
            if one.startswith(f"{share} % CLM against MLM alone: shown to be ")
        ]
        assert f" {shown(every, share)}; " in line and line.endswith(
            f" By dataset: {shown(single, share)}."
        )
    [together] = [line for line in found.cautions if "all findings" in line]
    own = [better for better, _ in every[SPLIT]]
    assert f"{sum(rejected(own))} for the 12 at this split alone" in together
    all_splits = [better for share in (SPLIT, 50, 75) for better, _ in every[share]]
    assert (
        f"{(left := sum(rejected(all_splits)[:12]))} for the 36 of the three splits"
        in together
    )
    assert f"in {left} of 12 comparisons" in found.headline
    units = [
        part.branch.p_for
        for name in FINDINGS
        if name != "F8" and assessment.judged[name].known
        for part in assessment.judged[name].counted
    ]
    assert (
        f"{sum(rejected([*own, *units])[:12])} for the {12 + len(units)} of all findings"
        in together
    )
    main = assessment.judged[ANSWER]
    sixth = {
        share: sorted(better for better, _ in found)[5]
        for share, found in every.items()
    }
    adjusted = multipletests(
        [min(7 * sixth[share], 1) for share in ANSWERS], method="holm"
    )[1]
    assert main.p_for_holm == pytest.approx(adjusted[0]) and main.verdict == "holds"


def test_what_other_pretrainings_leave_is_recomputed(
    assessment: Assessment,
) -> None:
    """Welch's standard errors, widened by two pretrainings of each comparison, or by one trunk against the other."""
    cells = published_values().set_index(["model", "task", "dataset"])[["mean", "ci95"]]

    def p_of(comparison: AnyContrast, sd: float) -> float:
        assert isinstance(comparison, Contrast)
        (one, half), (two, other) = (cells.loc[term.cell] for term in comparison.terms)
        parts = [(max(width, 0.005) / 1.96) ** 2 for width in (half, other)]
        own = sum(parts)
        df = (own + 2 * sd**2) ** 2 / sum(part**2 / 4 for part in parts)
        p = 2 * stats.t.sf(abs(one - two) / math.sqrt(own + 2 * sd**2), df)
        return p if one > two else 1.0

    def left(sd: float, shares: tuple[int, ...]) -> int:
        ps = [
            p_of(one, sd)
            for share in shares
            for one in comparisons(ANSWERS[share].body)
        ]
        return int(sum(multipletests(ps, 0.05, method="holm")[0][:12]))

    said = answer(assessment).pretraining
    # T5's, of 220M parameters
    assert "(standard deviation 0.24 to 0.42 points)" in said
    low, high = (left(sd, (25, 50, 75)) for sd in (0.416, 0.235))
    assert f"{low} to {high} of 12 would be shown" in said
    assert (
        left(0.235, (25,)) == left(0.416, (25,)) == 3
        and "(3 had no other split been tried)" in said
    )
    mean = assessment.judged[ANSWER].mean
    assert mean is not None
    limit = float(said.split(" 0 up to ")[1].split(" ")[0])

    def lower(sd: float) -> float:
        error = math.sqrt(mean.error**2 + 2 * sd**2)
        return (
            mean.effect
            - stats.t.ppf(0.975, mean.df * (error / mean.error) ** 4) * error
        )

    assert lower(limit) > 0 > lower(limit + 0.01)


def test_tasks_and_trunks_are_said(assessment: Assessment) -> None:
    cautions = " ".join(answer(assessment).cautions)
    effects: dict[str, list[float]] = {}
    for one in assessment.judged[ANSWER].comparisons:
        effects.setdefault(one.task, []).append(one.effect)
    by_task = [np.mean(found) for found in effects.values()]
    t = stats.ttest_1samp(by_task, 0)
    low, high = t.confidence_interval(0.95)
    # -0.5 to +3.7, errors aside
    assert low < 0 < high and "if the tasks are treated as a random sample" in cautions
    assert "2 trunks (610m-clm, 610m-mlm40)" in cautions


def result(effect: float, error: float) -> Result:
    return Result(
        comparison=difference("x", "a", "b", "SC"), effect=effect, error=error
    )


def test_random_effects_are_a_t_test_and_never_surer_than_errors() -> None:
    effects = [0.4, 1.9, 1.1, -0.3]
    found = random_effects([result(effect, 0.01) for effect in effects])
    assert found is not None
    expected = stats.ttest_1samp(effects, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-4)
    alike = random_effects([result(1.0 + 0.001 * place, 0.3) for place in range(4)])
    assert alike is not None
    assert alike.high - alike.mean == pytest.approx(stats.t.ppf(0.975, 3) * 0.3 / 2)


@pytest.mark.parametrize("errors", [[], [0.1], [0.1, 0.0], [0.1, math.nan]])
def test_without_two_effects_with_errors_no_mean_of_a_sample(
    errors: list[float],
) -> None:
    assert random_effects([result(1.0, error) for error in errors]) is None


def test_all_findings_are_counted_once(
    assessment: Assessment,
) -> None:
    found = answer(assessment)
    numbers = [
        int(word)
        for word in found.findings.replace(",", "").split()
        if word.isdecimal()
    ]
    assert sum(numbers) == 2 * len(FINDINGS)


def test_stand_ins_are_called_so() -> None:
    found = assess(open_source("miniature"), Settings(interval="t"))
    assert "stand-ins for the paper's models" in answer(found).headline
