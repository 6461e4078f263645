"""The pooled bootstrap t against its description written out in loops, and what it must not depend on."""

import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.pooled import (
    EQUAL_TAILS_FROM,
    FEWEST_CELLS,
    FEWEST_SEEDS,
    ResidualPools,
)
from analysis.evidence.settings import Settings
from analysis.statistics.estimates import Student, Studentised
from tests.analysis.made_up import made_up_runs

MODELS = tuple("abcdefghijk")


def frame_of(scores: dict[tuple[str, str], Sequence[float]]) -> pd.DataFrame:
    """The scores of (model, dataset) cells by seed, fewer than the most filled up with nan."""
    index = pd.MultiIndex.from_tuples(
        [(m, "SC", d) for m, d in scores], names=["model", "task", "dataset"]
    )
    return pd.DataFrame(
        [list(one) for one in scores.values()], index=index
    ).sort_index()


def made_up(
    shape: Callable[[np.random.Generator], np.ndarray] | None = None,
) -> pd.DataFrame:
    """Skewed seeds of eleven models on three datasets: five each, but one cell has four and one has five that agree."""
    rng = np.random.default_rng(1)
    scores = {
        (model, dataset): 80
        - rng.uniform(0.1, 3)
        * (rng.gamma(1.0, size=5) if shape is None else shape(rng))
        for dataset in ("one", "two", "three")
        for model in MODELS
    }
    scores["b", "one"][4] = np.nan
    scores["h", "one"][:] = 71.5
    return frame_of(scores)


FRAME = made_up()


def contrast(*weights: tuple[float, str, str]) -> Contrast:
    terms = tuple(Term(weight=w, model=m, task="SC", dataset=d) for w, m, d in weights)
    return Contrast(label="", terms=terms)


def evidence(values: pd.DataFrame = FRAME, **options: int) -> Evidence:
    return Evidence(
        Settings(interval="pooled", resamples=2_000, **options), values=values
    )


LEVEL = contrast((1, "a", "one"))
GAP = contrast((1, "a", "one"), (-1, "b", "one"))
AVERAGE = contrast(*((1 / 3, "c", name) for name in ("one", "three", "two")))
GAP_OF_AVERAGES = contrast(
    *(
        (sign / 3, model, name)
        for sign, model in ((1, "c"), (-1, "d"))
        for name in ("one", "three", "two")
    )
)
CONTRASTS = {
    "level": LEVEL,
    "gap": GAP,
    "average": AVERAGE,
    "gap of averages": GAP_OF_AVERAGES,
}


def scores_of(model: str, dataset: str, values: pd.DataFrame = FRAME) -> list[float]:
    return [
        score for score in values.loc[(model, "SC", dataset)] if not math.isnan(score)
    ]


def pool_of(dataset: str) -> list[float]:
    """Every seed's distance from its cell's mean, in standard deviations of the cell, from the smallest."""
    pool = []
    for model in MODELS:
        scores = scores_of(model, dataset)
        mean = sum(scores) / len(scores)
        spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
        pool += [(score - mean) / spread for score in scores if spread > 1e-9]
    return sorted(pool)


Pick = Callable[[str, int, int, int], np.ndarray]


def written_out(
    asked: Contrast, pick: Pick, resamples: int
) -> tuple[float, float, list[float]]:
    """Effect, standard error and the t* of every resample: Welch's statistic of seeds drawn from the pools.

    `pick` gives, for a dataset, its number of residuals, the seeds of a cell and the cell's place among those of the
    contrast with that dataset and so many seeds, which residuals each resample takes.
    """
    cells, places = [], {}
    for term in asked.terms:
        scores = scores_of(term.model, term.dataset)
        count, pool = len(scores), pool_of(term.dataset)
        place = places[term.dataset, count] = places.get((term.dataset, count), -1) + 1
        error = float(np.std(scores, ddof=1)) / math.sqrt(count)
        drawn = [
            [pool[one] for one in row]
            for row in pick(term.dataset, len(pool), count, place)
        ]
        cells.append((term.weight, sum(scores) / count, error, drawn))
    effect = sum(weight * mean for weight, mean, _, _ in cells)
    error = math.sqrt(sum((weight * error) ** 2 for weight, _, error, _ in cells))
    ratios = []
    for resample in range(resamples):
        top = below = 0.0
        for weight, _, cell_error, drawn in cells:
            seeds = drawn[resample]
            mean = sum(seeds) / len(seeds)
            variance = sum((seed - mean) ** 2 for seed in seeds) / (len(seeds) - 1)
            # The cell's seeds would be residuals times its own spread, of which sqrt(n) standard errors are one.
            spread = cell_error * math.sqrt(len(seeds))
            top += weight * spread * mean
            below += (weight * spread) ** 2 * variance / len(seeds)
        ratios.append(top / math.sqrt(below))
    return effect, error, ratios


def ends_of(
    effect: float, error: float, ratios: list[float], *, symmetric: bool, df: float
) -> tuple[float, float]:
    def quantile(values: list[float], share: float) -> float:
        return sorted(values)[math.ceil(share * len(values) - 1e-9) - 1]

    if symmetric:
        half = (
            max(quantile([abs(one) for one in ratios], 0.95), stats.t.ppf(0.975, df))
            * error
        )
        return effect - half, effect + half
    return effect - quantile(ratios, 0.975) * error, effect + quantile(
        [-one for one in ratios], 0.975
    ) * error


def same_draws(dataset: str, size: int, count: int, place: int) -> np.ndarray:
    """The engine's: a generator for a dataset, a number of seeds and the place of a cell."""
    rng = np.random.default_rng([5, zlib.crc32(f"SC {dataset}".encode()), count, place])
    return rng.integers(0, size, (2_000, count))


@pytest.mark.parametrize("name", CONTRASTS)
def test_it_is_its_description_written_out_with_the_same_draws(name: str) -> None:
    asked = CONTRASTS[name]
    estimate = evidence(seed=5).estimate(asked.terms).estimate
    assert isinstance(estimate, Studentised)
    effect, error, ratios = written_out(asked, same_draws, 2_000)
    assert (estimate.effect, estimate.error) == pytest.approx((effect, error))
    assert sorted(estimate.ratios) == pytest.approx(sorted(ratios), rel=1e-9)
    symmetric = name.startswith("gap")
    assert estimate.symmetric == symmetric
    expected = ends_of(effect, error, ratios, symmetric=symmetric, df=estimate.df)
    assert estimate.interval() == pytest.approx(expected)


def test_differences_are_never_surer_than_welch() -> None:
    for place, one in enumerate(MODELS):
        for other in MODELS[:place]:
            found = evidence().result(contrast((1, one, "two"), (-1, other, "two")))
            theirs = stats.ttest_ind(
                scores_of(one, "two"), scores_of(other, "two"), equal_var=False
            )
            low, high = theirs.confidence_interval(0.95)
            assert found.low <= low + 1e-9 and found.high >= high - 1e-9
            assert found.p_zero >= theirs.pvalue * (1 - 1e-9)
            assert found.df == pytest.approx(theirs.df)


def ends(asked: Contrast, values: pd.DataFrame, **options: int) -> tuple[float, ...]:
    found = evidence(values, **options).result(asked)
    return (
        found.effect,
        found.low,
        found.high,
        found.p_for,
        found.p_against,
        found.p_zero,
    )


@pytest.mark.parametrize("name", CONTRASTS)
def test_interval_follows_another_unit_or_level(
    name: str,
) -> None:
    effect, low, high = ends(CONTRASTS[name], FRAME)[:3]
    total = sum(term.weight for term in CONTRASTS[name].terms)
    moved = FRAME.copy()
    # Every cell's own spread is taken out: only the shape is shared
    for place in range(len(moved)):
        moved.iloc[place] = moved.iloc[place] * 0.25 + 7
    expected = [0.25 * end + 7 * total for end in (effect, low, high)]
    assert ends(CONTRASTS[name], moved)[:3] == pytest.approx(expected)
    wilder = FRAME.copy()
    wilder.loc["g"] = (wilder.loc["g"] * 40 - 3_000).to_numpy()
    assert ends(CONTRASTS[name], wilder)[:3] == pytest.approx((effect, low, high))


@pytest.mark.parametrize("name", CONTRASTS)
def test_only_the_seed_changes_a_pools_digits(
    name: str,
) -> None:
    asked = CONTRASTS[name]
    expected = ends(asked, FRAME)
    assert ends(asked, FRAME) == expected
    for seed in range(3):
        rng = np.random.default_rng(seed)
        assert ends(asked, FRAME.iloc[rng.permutation(len(FRAME))]) == expected
        used = evidence()
        for other in rng.permutation(list(CONTRASTS)):
            used.result(CONTRASTS[other])
        assert used.result(asked).low == expected[1]
        terms = tuple(asked.terms[place] for place in rng.permutation(len(asked.terms)))
        assert ends(Contrast(label="", terms=terms), FRAME) == expected
    assert ends(asked, FRAME, seed=6)[1] != expected[1] or name.startswith("gap")


def test_a_difference_taken_the_other_way_is_the_same_mirrored() -> None:
    for asked in (GAP, GAP_OF_AVERAGES):
        terms = tuple(
            Term(weight=-t.weight, model=t.model, task=t.task, dataset=t.dataset)
            for t in asked.terms[::-1]
        )
        effect, low, high, p_for, p_against, p_zero = ends(asked, FRAME)
        mirrored = ends(Contrast(label="", terms=terms), FRAME)
        assert mirrored == (-effect, -high, -low, p_against, p_for, p_zero)


def test_only_cells_of_the_dataset_change_its_pool() -> None:
    more = {("a", "four"): [1.0, 2, 3, 4, 9], ("z", "four"): [3.0, 3, 3, 3, 3]}
    for asked in CONTRASTS.values():
        assert ends(asked, pd.concat([FRAME, frame_of(more)])) == ends(asked, FRAME)
    wild = frame_of({("z", "one"): [50.0, 90, 90, 90, 90]})
    assert ends(LEVEL, pd.concat([FRAME, wild]))[1] != ends(LEVEL, FRAME)[1]


def few(models: int, seeds: int) -> pd.DataFrame:
    return made_up(lambda rng: rng.normal(size=5)).loc[
        list("acdefg"[:models]), list(range(seeds))
    ]


@pytest.mark.parametrize("models", [FEWEST_CELLS - 1, FEWEST_CELLS])
@pytest.mark.parametrize("seeds", [FEWEST_SEEDS - 1, FEWEST_SEEDS])
def test_with_few_cells_or_seeds_it_is_students_t_and_says_so(
    models: int, seeds: int
) -> None:
    values = few(models, seeds)
    found = evidence(values).result(LEVEL)
    pooled = models >= FEWEST_CELLS and seeds >= FEWEST_SEEDS
    assert (found.interval, found.test) == (
        ("pooled", "pooled bootstrap t") if pooled else ("t", "Student's t")
    )
    scores = scores_of("a", "one", values)
    student = stats.t.interval(0.95, seeds - 1, np.mean(scores), stats.sem(scores))
    assert ((found.low, found.high) == pytest.approx(student)) != pooled


def test_flat_cells_and_few_seeds_lend_no_residuals() -> None:
    cells = {
        ("a", "one"): [1.0, 2, 3, 5],
        ("b", "one"): [1.0, 2, 3, 9],
        ("c", "one"): [4.0, 2, 3, 5],
    }
    cells["f", "one"] = [1.0, 2, 4, 9]
    cells |= {("d", "one"): [2.0, 2, 2, 2], ("e", "one"): [2.0, np.nan, np.nan, np.nan]}
    assert evidence(frame_of(cells)).result(LEVEL).interval == "t"
    cells["e", "one"] = [2.0, 3.0, 5.0, np.nan]
    assert evidence(frame_of(cells)).result(LEVEL).interval == "t"
    cells["e", "one"] = [2.0, 3.0, 5.0, 4.0]
    assert evidence(frame_of(cells)).result(LEVEL).interval == "pooled"


@pytest.mark.parametrize(
    ("full", "few", "seeds"), [(6, 40, 3), (6, 40, 2), (2, 10, 2), (10, 36, 2)]
)
def test_pool_is_at_most_a_quarter_wider_beside_few_seeds(
    full: int, few: int, seeds: int
) -> None:
    wider = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = rng.normal(80, 1, (full + few, 5))
        scores[full:, seeds:] = np.nan
        values = frame_of(
            {(f"m{place:02}", "one"): list(row) for place, row in enumerate(scores)}
        )
        asked = contrast((1, "m00", "one"), (-1, "m01", "one"))
        pooled = evidence(values).result(asked)
        welch = Evidence(Settings(interval="t"), values=values).result(asked)
        wider.append((pooled.high - pooled.low) / (welch.high - welch.low))
    assert np.median(wider) <= 1.25
    assert np.mean(wider) <= 1.25


@pytest.mark.parametrize("interval", ["pooled", "t", "bootstrap"])
def test_flat_cells_have_the_spread_of_one_instance(
    interval: str,
) -> None:
    rng = np.random.default_rng(0)
    runs = made_up_runs(rng, models=MODELS, rates=[1e-4])
    flat = (runs["model"] == "a") & (runs["dataset"] == "sst2")
    runs.loc[flat, "test_score"] = 0.915
    runs["n_test"] = 872
    found = Evidence(Settings(interval=interval, resamples=500), runs=runs)
    _, low, high, _, _ = found.score(("a", "SC", "sst2"))
    assert low < 91.5 < high
    result = found.result(
        Contrast(
            label="", terms=(Term(weight=1.0, model="a", task="SC", dataset="sst2"),)
        )
    )
    one = np.array([91.5] * 4 + [91.5 + 100 / 872])
    assert result.error == pytest.approx(stats.sem(one))


def test_cells_without_an_error_have_an_exact_sum() -> None:
    nothing = ResidualPools(FRAME, 2_000, 5).estimate(
        [("SC", "one")], np.ones(1), np.ones(1), np.zeros(1), np.full(1, 4.0)
    )
    assert nothing == Student(effect=1.0, error=0.0, df=3.0)


def test_average_has_a_pool_of_its_own() -> None:
    source = Evidence(
        Settings(), runs=made_up_runs(np.random.default_rng(3), models=MODELS[:5])
    )
    half, whole = (Term(weight=weight, model="a", task="SC") for weight in (0.5, 1.0))
    on_dataset = Term(weight=1.0, model="a", task="SC", dataset="sst2")
    asked = ((half, half), (whole,), (on_dataset,))
    twice, once, other = (source.estimate(terms).estimate for terms in asked)
    assert isinstance(twice, Studentised) and isinstance(once, Studentised)
    assert (twice.ratios == once.ratios).all() and twice.error == once.error
    assert isinstance(other, Studentised) and (other.ratios != once.ratios).any()


def test_average_of_one_dataset_is_the_dataset() -> None:
    values = FRAME.reset_index()
    two = values[values["dataset"] != "three"]
    one = values[values["dataset"] == "three"].assign(task="QA")
    averages = (
        two.drop(columns="dataset").groupby(["model", "task"]).mean().reset_index()
    )
    frame = pd.concat(
        [two, one, *(part.assign(dataset="average") for part in (averages, one))]
    )
    frame = frame.set_index(["model", "task", "dataset"]).sort_index()

    def low(task: str, dataset: str) -> float:
        term = Term(weight=1.0, model="a", task=task, dataset=dataset)
        return evidence(frame).result(Contrast(label="", terms=(term,))).low

    assert low("QA", "average") == low("QA", "three")
    assert low("SC", "one") == evidence().result(contrast((1, "a", "one"))).low
    assert low("SC", "average") not in (low("SC", "one"), low("SC", "two"))


def test_resamples_of_one_value_alone_are_left_out() -> None:
    """Half of the pool's residuals are one number, so that one resample in sixteen has no spread at all."""
    cells = {
        (model, "one"): [0.0, 0.0, place + 1.0, place + 1.0]
        for place, model in enumerate("abcde")
    }
    estimate = evidence(frame_of(cells)).estimate(LEVEL.terms).estimate
    assert isinstance(estimate, Studentised)
    assert (
        np.isfinite(estimate.ratios).all()
        and 0.8 * 2_000 < len(estimate.ratios) < 0.95 * 2_000
    )
    assert (FEWEST_CELLS, FEWEST_SEEDS) == (5, 4)  # docs/claims.md


def test_levels_have_equal_tails_from_ten_cells_on() -> None:
    for cells in (5, EQUAL_TAILS_FROM - 1, EQUAL_TAILS_FROM):
        values = frame_of(
            {
                (f"{place:02}", "one"): np.random.default_rng(place).gamma(1.0, size=5)
                for place in range(cells)
            }
        )
        estimate = evidence(values).estimate(contrast((1, "00", "one")).terms).estimate
        assert isinstance(estimate, Studentised) and estimate.symmetric == (
            cells < EQUAL_TAILS_FROM
        )
