"""The numbers of docs/how-sure.md, worded as the page words them.

    python -m tests.analysis.how_sure

prints a line for each sentence and table row; `tests/docs/test_every_number.py` looks them up in the page.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.claims.answer import answer
from analysis.claims.assessment import assess
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.judged import judge
from analysis.claims.pretraining_spread import (
    SHARED_LUCK,
    measured_spreads,
    trunks,
    with_pretraining_spread,
)
from analysis.claims.statements import Finding, comparisons
from analysis.claims.verdicts import HOLDS, ResultOf
from analysis.comparisons.arm_spreads import ArmScores
from analysis.comparisons.comparison import compare
from analysis.comparisons.contestants import ALL, Place
from analysis.evidence.contrasts import AnyContrast, Contrast
from analysis.evidence.intervals import measured_coverage
from analysis.evidence.settings import Settings
from analysis.precision.design import (
    POWER,
    AssumedSpread,
    PlannedStudy,
    fewest,
    planned_test,
    seed_spreads,
)
from analysis.published_cells import published_values
from analysis.sensitivity.overturning import Overturned, other_margins, overturn
from analysis.sources import PUBLISHED, arms_of, open_source
from benchmarks.protocol import AVERAGE, DATASETS, TASKS
from common.level import ALPHA
from tests.miniature.questions import LENGTHS, PRETRAINING, spreads
from tests.speed.interval_coverage import published_variances

CLM, MLM, BOTH = "610m-clm-42k", "610m-mlm40-42k", "610m-clm-10k-mlm40-42k"
"""The miniature's models that were pretrained five times, by the names that stand for them."""


def shown(value: float) -> str:
    """Return a spread with two digits."""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def of_new_test_sets() -> dict[str, float]:
    """Return by dataset how often a printed cell's t interval covers its mean over seeds and test sets, at the least.

    In closed form: a test set that all five seeds share adds its variance, at most p (1 - p) of an instance, to the
    mean and nothing to the spread over seeds.
    """
    covered = {}
    for dataset in DATASETS:
        cells = published_variances(dataset)
        wider = np.sqrt(1 + 5 * (cells.common / cells.seeds) ** 2)
        inside = stats.t.cdf(stats.t.ppf(0.975, 4) / wider, 4)
        covered[dataset] = float(np.mean(2 * inside - 1))
    return covered


def four_doubts(found: Mapping[str, Overturned]) -> Iterator[str]:
    """Yield the numbers of the page's first table that nothing else has."""
    least = min(sd for sd in found["answer"].spread.values() if sd is not None)
    yield f"the answer falls at {shown(least)} points between pretrainings"
    covered = of_new_test_sets()
    mean = np.mean(list(covered.values()))
    yield (
        f"the printed interval may cover only [{100 * mean:.0f} %](claims.md#measured-coverage) "
        f"(MS MARCO: {100 * covered['msmarco']:.0f} %)"
    )
    assert min(covered, key=covered.__getitem__) == "msmarco"


def with_more_or_fewer() -> Iterator[str]:
    """Yield how many comparisons are shown among others, and their mean were tasks or datasets a sample."""
    counts, means, _ = answer(assess(PUBLISHED, Settings())).cautions
    alone, shares, scratch, every = re.findall(r"(\d+) for the (\d+)", counts)
    yield f"How many of the {alone[1]} comparisons are shown"
    yield (
        f"{alone[0]} if they are tested alone, {shares[0]} among the {shares[1]} of three shares of CLM, {scratch[0]} "
        f"among the {scratch[1]} of the findings on CLM then MLM from scratch, {every[0]} among the {every[1]} of all "
        "findings"
    )
    tasks, datasets = re.findall(r"([-+][\d.]+) (\[[^]]+\])", means)
    yield f"Their mean is {tasks[0]} points {tasks[1]} if the tasks"
    yield f"and {datasets[0]} {datasets[1]} if the datasets are"


def with_other_margins(result_of: ResultOf) -> Iterator[str]:
    """Yield the verdicts that the margins of "on par" and "comparable" move."""
    by_factor = other_margins(result_of)

    def moved(factor: float, verdict: str) -> list[str]:
        verdicts = by_factor[factor].items()
        return [name for name, one in verdicts if one.startswith(verdict)]

    wide = " and ".join(moved(1.2, "holds"))
    assert moved(0.8, "holds in") == ["F4", "F13"] == list(by_factor[0.8])
    yield (
        f"times 1.2, {wide} hold; times 0.8, each loses a part; times 0.5, {moved(0.5, 'fails')[0]} fails"
    )


def clear_with_spread(result_of: ResultOf) -> Iterator[str]:
    """Yield how many of F8's comparisons are clear if pretraining again moves scores by so much."""
    alike = [one.sd for one in measured_spreads() if one.parameters >= 200]

    def clear(sd: float) -> int:
        moved = with_pretraining_spread(result_of, sd, SHARED_LUCK["models"])
        return judge([FINDINGS["F8"]], moved)["F8"].holds_in

    low, high = f"{min(alike) + 1e-9:.2f}", f"{max(alike):.2f}"
    yield f"others measured {low} to {high} points"
    f8 = judge([FINDINGS["F8"]], result_of)["F8"]
    metrics = [
        TASKS[result.task].metric
        for result in f8.comparisons
        if f8.marks[result.label] == HOLDS.name
    ]
    words = ("none", "one", "two", "three", "four", "five", "six")
    yield (
        f"of the {words[len(metrics)]} clear comparisons, {words[metrics.count('F1')]} are its F1 and "
        f"{words[metrics.count('NDCG@10')]} its NDCG"
    )
    yield (
        f"At 0.2 points, {clear(0.2)} of F8's 12 comparisons would still be clear, instead of {clear(0)}; at {low} to "
        f"{high} points, {clear(max(alike))} to {clear(min(alike))}; at 0.5 points, {clear(0.5)}."
    )


def overturning(found: Mapping[str, Overturned]) -> Iterator[str]:
    """Yield the table of spreads from which a verdict falls, among those that others measured."""
    counts = {trunk: len(models) for trunk, models in trunks().items()}
    yield f"{counts['610m-clm']} models branch from the 610M CLM trunk, {counts['610m-mlm40']} from the MLM trunk"
    rows = [
        (
            one.sd,
            f"*{one.network}, {one.score}: {one.pretrainings} pretrainings ({one.where.split(',')[0]})*",
        )
        for one in measured_spreads()
    ]
    rows += [
        (
            min(sd for sd in one.spread.values() if sd is not None),
            f"{name}, {one.main.finding.short}",
        )
        for name, one in found.items()
        if one.decided
    ]
    for sd, words in sorted(rows):
        yield f"| {shown(sd + 1e-9)} | {words} |"


@dataclass(frozen=True, kw_only=True)
class Redrawn:
    """What sources show of the 12 comparisons at each share of CLM, drawn from the printed cells."""

    higher: NDArray[np.int64]
    """(sources,): comparisons at 25 % that are shown to be higher, corrected for all 36."""
    lower: NDArray[np.int64]
    half: NDArray[np.bool_]
    """Whether at least half of them are, corrected for the three shares."""

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Whether the answer is not "Open"."""
        return (self.higher > 0) | (self.lower > 0)

    @property
    def sure(self) -> NDArray[np.bool_]:
        """Whether it is "Probably", with or without CLM first."""
        return self.half | (2 * self.lower >= 12)


def redrawn(sources: int, *, differ: bool, pretraining_sd: float = 0.0) -> Redrawn:
    """Draw five seeds of every model again and test them by Welch's t.

    Args:
        sources: how many times.
        differ: whether the printed differences are the true ones; else there are none.
        pretraining_sd: in points, by which another pretraining moves every score.
    """
    rng = np.random.default_rng(20250701)
    cells = published_values().set_index(["model", "task", "dataset"])
    pairs = [
        [term.cell for term in contrast.terms]
        for answer in ANSWERS.values()
        for contrast in comparisons(answer.body)
        if isinstance(contrast, Contrast)
    ]
    names = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    first, second = ([names.index(pair[side]) for pair in pairs] for side in (0, 1))
    errors = np.maximum(cells.loc[names, "ci95"].to_numpy(), 0.005) / 1.96
    means = cells.loc[names, "mean"].to_numpy() if differ else np.zeros(len(names))
    shape = (sources, len(names))
    found = means + rng.normal(0, np.hypot(errors, pretraining_sd), shape)
    variances = errors**2 * rng.chisquare(4, shape) / 4
    effects = found[:, first] - found[:, second]
    total = variances[:, first] + variances[:, second]
    df = 4 * total**2 / (variances[:, first] ** 2 + variances[:, second] ** 2)
    ps = 2 * stats.t.sf(np.abs(effects) / np.sqrt(total), df)
    p_for, p_against = np.where(effects > 0, ps, 1.0), np.where(effects < 0, ps, 1.0)
    sixth = np.sort(p_for.reshape(sources, len(ANSWERS), -1), axis=-1)[..., 5]
    return Redrawn(
        higher=(holm_of(p_for)[:, :12] <= 0.05).sum(axis=1),
        lower=(holm_of(p_against)[:, :12] <= 0.05).sum(axis=1),
        half=holm_of(np.minimum(7 * sixth, 1))[:, 0] <= 0.05,
    )


def holm_of(ps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's adjusted p's within each row."""
    count = ps.shape[1]
    order = np.argsort(ps, axis=1)
    scaled = np.take_along_axis(ps, order, axis=1) * np.arange(count, 0, -1)
    adjusted = np.empty_like(ps)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(scaled, axis=1), axis=1)
    return adjusted


def seeds_again() -> str:
    """Return what five other fine-tuning seeds would show, were the printed differences the true ones."""
    drawn = redrawn(4_000, differ=True)
    low, high = np.quantile(drawn.higher, [0.025, 0.975]).astype(int)
    return (
        f"If the printed differences are the true ones, five other fine-tuning seeds show {low} to {high} of the 12, "
        f'and "at least half" holds in {drawn.half.mean():.0%} of cases'.replace(
            "%", " %"
        )
    )


def without_a_difference() -> str:
    """Return how often something is answered though no model differs from another."""

    def share(answered: NDArray[np.bool_]) -> str:
        return f"{answered.mean():.0%}".replace("%", " %")

    alike, moved = (
        redrawn(4_000, differ=False, pretraining_sd=sd) for sd in (0.0, 0.24)
    )
    return (
        f'Of simulated sources without any difference, {share(alike.answered)} are not answered "Open", and '
        f'{share(moved.answered)} if another pretraining moves scores by 0.24 points; "Probably" is said of '
        f"{share(alike.sure)} and {share(moved.sure)}"
    )


def at_toy_scale() -> Iterator[str]:
    """Yield what moves the miniature's scores, and what its pretrainings say of the arms."""
    source = open_source("miniature")
    runs = source.need_runs("this page")
    arms = arms_of(runs)
    scores = ArmScores.of(runs, arms, "seed")
    rows: dict[str, list[str]] = {}
    wider = []
    for task in TASKS:
        [dataset] = source.datasets_of(task)
        found = scores.spreads(arms, Place(task, dataset), ())
        assert found is not None
        for name, one in (
            ("pretraining seed", found.pretrainings),
            ("fine-tuning seed", found.seeds),
        ):
            rows.setdefault(name, []).append(
                f"{one.sd:.2f} [{one.low:.2f}, {one.high:.2f}]"
            )
        again, tuned = found.pretrainings.sd, found.seeds.sd
        for name, pretrainings, seeds in (
            ("error of a difference, 1 pretraining x 5 seeds", 1, 5),
            ("1 pretraining x 10 seeds", 1, 10),
            ("2 pretrainings x 5 seeds", 2, 5),
        ):
            error = math.sqrt(
                2 * (again**2 / pretrainings + tuned**2 / (pretrainings * seeds))
            )
            rows.setdefault(name, []).append(f"{error:.2f}")
        wider.append(math.hypot(again, tuned / math.sqrt(5)) / (tuned / math.sqrt(5)))
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |"
    with_seeds = rows["1 pretraining x 10 seeds"]
    with_pretraining = rows["2 pretrainings x 5 seeds"]
    errors = zip(with_pretraining, with_seeds, strict=True)
    assert all(float(less) < float(more) for less, more in errors)
    yield "A second pretraining helps more than five more seeds"
    yield f"an interval from five seeds would have to be {min(wider):.1f} to {max(wider):.1f} times as wide"
    how = source.with_interval(Settings())

    def differences(first: str, second: str) -> dict[str, str]:
        """Return by dataset, and over `all` tasks, by how much the first arm is better."""
        found = compare(source, [], how, replicates=[first, second]).differences
        return {
            one.place.dataset if one.place.is_dataset else one.place.task: (
                f"{one.result.effect:.1f} points [{one.result.low:.1f}, {one.result.high:.1f}]"
            )
            for one in found
        }

    on = differences(BOTH, MLM)
    yield f"on SST-2 by {on['sst2']}, on UNER by {on['uner_en']}, on NQ by {on['nq']}"
    yield f"by {differences(CLM, BOTH)[ALL]} over all tasks"
    table = spreads(open_source("curves"))
    between = table[table["component"] == PRETRAINING]
    sd = between.set_index(["score", "steps"])["sd"]
    nq, sst2 = (
        [f"{sd[name, str(steps)]:.1f}" for steps in LENGTHS] for name in ("nq", "sst2")
    )
    yield (
        f"{nq[0]}, {nq[1]} and {nq[2]} points between pretrainings on NQ after 840, 2,520 and 5,040 steps, {sst2[0]}, "
        f"{sst2[1]} and {sst2[2]} on SST-2"
    )


def plans() -> Iterator[str]:
    """Yield how many seeds and pretrainings show half a point on the task averages, and what five seeds show."""
    spreads_of_cells = dict(seed_spreads(PUBLISHED))
    of_tasks = [spreads_of_cells[task, AVERAGE] for task in TASKS]

    def by_seeds(spread: AssumedSpread, seeds: int) -> float:
        return planned_test(PlannedStudy(seeds=seeds), spread).power(0.5)

    def by_pretrainings(spread: AssumedSpread, pretrainings: int) -> float:
        study = PlannedStudy(pretrainings=pretrainings, pretraining_sd=0.2, tests=12)
        return planned_test(study, spread).power(0.5)

    seeds = [fewest(partial(by_seeds, spread), POWER, least=2) for spread in of_tasks]
    pretrainings = [
        fewest(partial(by_pretrainings, spread), POWER, least=2) for spread in of_tasks
    ]
    finds = [
        f"{planned_test(PlannedStudy(), spread).detectable():.2f}"
        for spread in of_tasks
    ]
    yield f"takes {seeds[0]} seeds for the average of SC, {seeds[1]} for TC, {seeds[2]} for QA and {seeds[3]} for IR"
    yield f"Five seeds show {finds[0]}, {finds[1]}, {finds[2]} and {finds[3]} points"
    study = PlannedStudy(tests=12)
    yield f"To show half a point with {POWER:.0%} power".replace("%", " %")
    yield f"With a spread of 0.2 points between them and twelve tests (at a level of {ALPHA} / {study.tests})"
    yield (
        f"it takes {pretrainings[0]}, {pretrainings[1]}, {pretrainings[2]} and {pretrainings[3]} pretrainings of five "
        "seeds"
    )


def other_choices(result_of: ResultOf) -> Iterator[str]:
    """Yield the verdicts that another interval or another adjustment alters."""

    def outcomes(
        findings: Iterable[Finding], by: ResultOf = result_of
    ) -> dict[str, str]:
        return {name: one.outcome for name, one in judge(findings, by).items()}

    found = outcomes(FINDINGS.values())

    def altered(others: Mapping[str, str], outcome: str) -> str:
        return " and ".join(
            name for name in others if others[name] == outcome != found[name]
        )

    together = outcomes(replace(one, family="all") for one in FINDINGS.values())
    if together == found:
        yield "Holm's adjustment over all findings alters no verdict"
    # A finding that is judged by itself is adjusted for no other.
    alone = {
        name: outcome
        for one in FINDINGS.values()
        for name, outcome in outcomes([one]).items()
    }
    yield f"Without any, {altered(alone, 'holds')} would hold and {altered(alone, 'fails')} fail"
    narrow = outcomes(
        FINDINGS.values(), assess(PUBLISHED, Settings(interval="paper")).result_of
    )
    coverage = measured_coverage("paper", "normal", 5)
    assert coverage is not None
    yield (
        f"by the paper's interval, which covers {100 * coverage[0]:.0f} %, {altered(narrow, 'holds')} would hold and "
        f"{altered(narrow, 'fails')} fail"
    )


def carried_by_one_task(result_of: ResultOf) -> Iterator[str]:
    """Yield what is left of two means without question answering, and what F1 leaves out."""

    def with_and_without(contrast: AnyContrast) -> tuple[str, str]:
        assert isinstance(contrast, Contrast)
        others = len(contrast.tasks) - 1
        terms = tuple(
            replace(term, weight=term.weight * (others + 1) / others)
            for term in contrast.terms
            if term.task != "QA"
        )
        effects = (
            result_of(one).effect for one in (contrast, replace(contrast, terms=terms))
        )
        whole, rest = (f"{effect:+.2f}" for effect in effects)
        return whole, rest

    _, over_75, _ = comparisons(FINDINGS["F9"].body)
    [slope] = comparisons(FINDINGS["F5b"].body)
    lead, lead_left = with_and_without(over_75)
    change, change_left = with_and_without(slope)
    yield (
        f"without it, F9's 25 and 50 % lead 75 % by {lead_left} points instead of {lead}, and F5b's slope changes by "
        f"{change_left} instead of {change}."
    )
    beside = judge([FINDINGS["F1"]], result_of)["F1"].reported
    ahead = [one.outcome == HOLDS.name for one in beside if "IR" in one.label]
    yield f"MLM leads at {sum(ahead)} of {len(ahead)} sizes"


def lines() -> Iterator[str]:
    """Yield all of them, in the order of the page."""
    result_of = assess(PUBLISHED, Settings(interval="t")).result_of
    found = {one.main.id: one for one in overturn(result_of)}
    yield from four_doubts(found)
    yield from clear_with_spread(result_of)
    yield from overturning(found)
    yield seeds_again()
    yield from at_toy_scale()
    yield from plans()
    yield from with_more_or_fewer()
    yield from with_other_margins(result_of)
    yield from other_choices(result_of)
    yield from carried_by_one_task(result_of)


if __name__ == "__main__":
    print(*lines(), sep="\n")
