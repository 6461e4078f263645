"""What sources say about contrasts, levels and ratios of spreads, against scipy and loops."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import comparisons, difference, weighted
from analysis.evidence.cells import seed_scores
from analysis.evidence.contrasts import Contrast, Spread, Term
from analysis.evidence.evidence import Evidence, level_of
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.statistics.crossed import crossed_estimate
from analysis.store.instances import RunScores, read_instances
from analysis.store.runs_table import COLUMNS
from benchmarks.protocol import DATASETS, datasets_of
from common.errors import UserError
from tests.analysis.made_up import made_up_runs, with_instances, write_instances

MLM, CLM, OTHER = "610m-mlm40-42k", "610m-clm-42k", "1b-clm-42k"
GAP = difference("MLM - CLM", MLM, CLM, "SC")
RUNS = made_up_runs(np.random.default_rng(0), models=(CLM, MLM), shift={MLM: 0.01})


def on_dataset(dataset: str, first: str = MLM, second: str = CLM) -> Contrast:
    pair = ((1.0, first), (-1.0, second))
    task = DATASETS[dataset].task
    return Contrast(
        label="", terms=tuple(Term(weight=w, model=m, task=task, dataset=dataset) for w, m in pair)
    )


def evidence(runs: pd.DataFrame | None, interval: str = "t", *, instances: Path | None = None, **options):
    settings = Settings(interval=interval, resamples=2_000, **options)
    return Evidence(settings, runs=runs, instances=instances, printed=runs is None)


def seeds_of(runs: pd.DataFrame, model: str, dataset: str = "average") -> np.ndarray:
    return seed_scores(runs).loc[(model, "SC", dataset)].to_numpy()


PRINTED = {
    (m, t, d): (mean, max(half, 0.005) / 1.96)
    for m, t, d, mean, half in published_values()[["model", "task", "dataset", "mean", "ci95"]].itertuples(
        index=False
    )
}
CLAIMED = list(
    dict.fromkeys(
        one for claim in CLAIMS.values() for one in comparisons(claim.body) if isinstance(one, Contrast)
    )
)


def test_every_contrast_of_the_claims_has_the_ps_of_scipy() -> None:
    """Pairs by scipy's test from statistics, other sums by Satterthwaite's formula and scipy's distribution."""
    source, pairs = evidence(None), 0
    for asked in CLAIMED:
        found = source.finding(asked)
        cells = [(term.weight, *PRINTED[term.cell]) for term in asked.terms]
        effect = sum(weight * mean for weight, mean, _ in cells)
        parts = [(weight * error) ** 2 for weight, _, error in cells]
        error, df = math.sqrt(sum(parts)), sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
        low, high = stats.t.interval(0.95, df, effect, error)
        at_most, at_least = (
            [side((effect - end) / error, df) for end in asked.ends] for side in (stats.t.sf, stats.t.cdf)
        )
        if asked.is_range:
            ps = max(at_most[0], at_least[1]), min(1, 2 * min(at_least[0], at_most[1]))
        elif math.isfinite(asked.low):
            ps = min(1, 2 * at_most[0]), min(1, 2 * at_least[0])
        else:
            ps = min(1, 2 * at_least[1]), min(1, 2 * at_most[1])
        assert (found.p_for, found.p_against) == pytest.approx(ps, abs=1e-9, rel=1e-6)
        assert (found.effect, found.low, found.high) == pytest.approx((effect, low, high), rel=1e-6, abs=1e-9)
        if [term.weight for term in asked.terms] == [1, -1] and asked.low == 0 == effect * 0:
            pairs += 1
            numbers = [n for _, mean, sem in cells for n in (mean, sem * math.sqrt(5), 5)]
            theirs = stats.ttest_ind_from_stats(*numbers, equal_var=False)
            assert found.p_zero == pytest.approx(theirs.pvalue, rel=1e-6)
        assert found.test == "Welch from printed intervals" and found.seeds == (5,) and found.interval == "t"
    assert len(CLAIMED) > 200 and pairs > 50


def test_cells_printed_without_spread_keep_the_rounding() -> None:
    found = evidence(None).finding(difference("x", "610m-clm-42k-1000", "610m-mlm40-42k-1000", "QA"))
    assert found.error == pytest.approx(np.hypot(0.24, 0.005) / 1.96)


def test_runs_are_paired_by_seed() -> None:
    first, second = seeds_of(RUNS, MLM), seeds_of(RUNS, CLM)
    expected = stats.ttest_rel(first, second)
    found = evidence(RUNS).finding(GAP)
    assert found.p_zero == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert (found.inner_low, found.inner_high) == pytest.approx(tuple(expected.confidence_interval(0.90)))
    assert (found.seeds, found.df, found.within_seeds) == ((5,), 4.0, True)
    # What the seeds have in common cancels: unpaired, the interval is wider.
    assert found.high - found.low < np.ptp(stats.ttest_ind(first, second).confidence_interval(0.95))
    normal = evidence(RUNS, "paper").finding(GAP)
    assert (normal.error, normal.df) == (found.error, math.inf)
    assert (normal.high - normal.low) / (2 * normal.error) == pytest.approx(stats.norm.ppf(0.975))


def test_any_weighted_sum_is_taken_within_seeds() -> None:
    """A slope over four models, whose weights are those of numpy's line."""
    models = [f"610m-mlm{ratio}-42k" for ratio in (20, 30, 40, 50)]
    runs = made_up_runs(np.random.default_rng(4), models=models)
    values = seed_scores(runs)
    slopes = np.polyfit([2, 3, 4, 5], [values.loc[(one, "QA", "average")] for one in models], 1)[0]
    weights = [-0.3, -0.1, 0.1, 0.3]
    found = evidence(runs).finding(weighted("slope", list(zip(weights, models, ["QA"] * 4, strict=True))))
    theirs = stats.ttest_1samp(slopes, 0)
    assert (found.effect, found.p_zero) == pytest.approx((slopes.mean(), theirs.pvalue))


def test_seeds_that_a_model_lacks_are_left_out_and_counted() -> None:
    partial = RUNS[~((RUNS["model"] == CLM) & (RUNS["dataset"] == "qqp") & (RUNS["seed"] >= 3))]
    found = evidence(partial).finding(GAP)
    assert (found.seeds, found.df) == ((3,), 2.0)
    assert "n = 3 (seeds 0, 1, 2)" in found.inputs[1] and found.inputs[0].startswith(f"+1 x {MLM} SC average")
    assert evidence(partial).finding(on_dataset("sst2")).seeds == (5,)


@pytest.mark.parametrize("interval", ["t", "pooled", "studentised", "bootstrap"])
def test_without_common_seeds_it_is_welch(interval: str) -> None:
    apart = RUNS[
        ((RUNS["model"] == CLM) & (RUNS["seed"] >= 3)) | ((RUNS["model"] == MLM) & (RUNS["seed"] < 3))
    ]
    expected = stats.ttest_ind(seeds_of(apart, MLM), seeds_of(apart, CLM), equal_var=False, nan_policy="omit")
    found = evidence(apart, interval).finding(GAP)
    assert found.p_zero == pytest.approx(float(expected.pvalue))
    assert (found.seeds, found.test) == ((3, 2), "Welch (no seeds in common)") and not found.within_seeds


def test_what_is_missing_is_named_model_by_model() -> None:
    one = evidence(RUNS[RUNS["model"] == MLM])
    assert one.finding(GAP).missing == f"no runs of {CLM} on SC average"
    single = RUNS[(RUNS["seed"] == 0) | (RUNS["model"] == MLM)]
    for interval in ("t", "paper", "pooled", "bca"):
        found = evidence(single, interval).finding(GAP)
        assert found.missing == f"only one seed of {CLM} on SC average" and len(found.inputs) == 2
        assert not found.known and math.isnan(found.effect)
    level = evidence(single).level((CLM, "SC", "sst2"))
    assert level.n_seeds == 1 and np.isnan([level.low, level.high]).all() and level.mean > 0
    absent = evidence(None).finding(difference("x", "mine", "yours", "SC")).missing
    assert absent == "no published cell for mine on SC average, yours on SC average"


@pytest.mark.parametrize("interval", ["t", "pooled", "bootstrap", "bca", "studentised"])
def test_a_model_against_itself_or_its_copy_is_no_difference_with_some_width(interval: str) -> None:
    copies = [RUNS, *(RUNS[RUNS["model"] == CLM].assign(model=name) for name in ("x", "y", "z"))]
    source = evidence(pd.concat(copies, ignore_index=True), interval)
    for other in (CLM, "x"):
        found = source.finding(on_dataset("sst2", CLM, other))
        assert found.effect == 0 and found.low < 0 < found.high and found.p_zero == pytest.approx(1)
    two = weighted("x", [(0.5, MLM, "SC"), (0.5, MLM, "SC"), (-1, CLM, "SC")])
    assert source.finding(two).effect == pytest.approx(source.finding(GAP).effect)
    assert source.finding(two).p_zero == pytest.approx(source.finding(GAP).p_zero)


def test_runs_next_to_printed_cells_are_tested_by_welch() -> None:
    runs = made_up_runs(np.random.default_rng(1), models=("mine",))
    both = Evidence(Settings(interval="pooled"), runs=runs, printed=True)
    found = both.finding(difference("x", "mine", CLM, "SC"))
    scores = seeds_of(runs, "mine")
    mean, error = PRINTED[CLM, "SC", "average"]
    theirs = stats.ttest_ind_from_stats(
        scores.mean(), scores.std(ddof=1), 5, mean, error * math.sqrt(5), 5, equal_var=False
    )
    assert (found.p_zero, found.interval) == (pytest.approx(theirs.pvalue), "t")
    assert f"mean {scores.mean():.4f}" in found.inputs[0] and "+-" in found.inputs[1]
    replaced = Evidence(Settings(interval="t"), runs=RUNS, printed=True).finding(on_dataset("sst2"))
    assert replaced.test == "paired by seed, t"  # models that have runs are not taken from the paper
    assert (OTHER, "SC", "sst2") in both.cells and not both.cells.has_runs((OTHER, "SC", "sst2"))


@pytest.mark.parametrize(
    ("score", "ends"),
    [(0.995, (None, 100.0)), (0.0, (0.0, None)), (-0.3, (None, None)), (-0.999, (-100.0, None))],
)
def test_levels_are_cut_where_the_metric_ends(score: float, ends: tuple[float | None, float | None]) -> None:
    """Correlations, the metrics of own data sets that can be negative, end at -1."""
    runs = RUNS[(RUNS["model"] == MLM) & (RUNS["dataset"] == "sst2") & (RUNS["lr"] == 1e-4)].copy()
    runs["test_score"] = score + 0.01 * np.array([0, 0, 1, 0, 0])
    level, free = (
        evidence(runs).level((MLM, "SC", "sst2")),
        evidence(runs).finding(level_of((MLM, "SC", "sst2"))),
    )
    assert level.low == (free.low if ends[0] is None else ends[0])
    assert level.high == (free.high if ends[1] is None else ends[1])
    assert ends == (None, None) or free.low < 0 or free.high > 100


def test_the_papers_levels_are_as_printed() -> None:
    paper, student = evidence(None, "paper"), evidence(None, "t")
    for cell in list(PRINTED)[::7]:
        mean, error = PRINTED[cell]
        level = paper.level(cell)
        half = error * 1.96 if error > 0.0026 else 0.0
        assert (level.mean, level.low, level.high) == pytest.approx(
            (mean, mean - half, mean + half), abs=1e-9
        )
        wide = stats.t.interval(0.95, 4, mean, error)
        assert (student.level(cell).low, student.level(cell).high) == pytest.approx(np.clip(wide, 0, 100))


def test_estimates_that_need_a_standard_error_get_students() -> None:
    for interval in ("bootstrap", "bca"):
        found = evidence(RUNS, interval).student(GAP)
        assert found == evidence(RUNS).estimate(GAP).estimate
    wide = evidence(RUNS, "studentised")
    assert wide.student(GAP).error == wide.estimate(GAP).estimate.error and wide.student(GAP).df == 4


@pytest.mark.parametrize("interval", ["bootstrap", "bca", "studentised", "pooled"])
def test_resampled_findings_are_repeatable_and_many_seeds_depend_on_the_generators_seed_only(
    interval,
) -> None:
    models = (CLM, MLM, "x", "y")
    runs = made_up_runs(np.random.default_rng(2), models=models, seeds=range(8), rates=[1e-4])
    first, second, other = (repr(evidence(runs, interval, seed=s).finding(GAP).low) for s in (7, 7, 8))
    assert first == second
    assert first != other or interval in ("pooled", "studentised")  # Student's quantile may be the larger
    level = level_of((CLM, "SC", "sst2"))
    shuffled = runs.sample(frac=1, random_state=0)
    assert repr(evidence(runs, interval).finding(level)) == repr(evidence(shuffled, interval).finding(level))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("instances") / "instances"
    counts = {"msmarco": 43, "sst2": 400}
    return with_instances(folder, np.random.default_rng(3), models=(CLM, MLM), counts=counts, shift=0.02)


@pytest.mark.parametrize("dataset", ["msmarco", "sst2"])
def test_the_error_over_seeds_and_instances_is_that_of_the_two_way_layout(stored, dataset: str) -> None:
    runs, folder = stored
    cells = [runs[(runs["model"] == m) & (runs["dataset"] == dataset)] for m in (MLM, CLM)]
    scores = [100 * read_instances(folder, dataset, one) for one in cells]
    covariance = np.cov(scores[0] - scores[1]) / scores[0].shape[1]
    shared = np.mean([covariance[a, b] for a, b in itertools.permutations(range(5), 2)])
    own = stats.sem((scores[0] - scores[1]).mean(axis=1)) ** 2
    found = evidence(runs, "crossed", instances=folder).finding(on_dataset(dataset))
    assert found.error**2 == pytest.approx(own + shared)
    assert found.instance_share == pytest.approx(shared / (own + shared)) and found.instance_share > 0.7
    assert (found.test, found.seeds) == ("paired by seed and instance", (5,))
    two = evidence(runs[runs["seed"] < 2], "crossed", instances=folder).finding(on_dataset(dataset))
    assert (two.test, two.seeds) == ("paired by seed and instance", (2,))
    over_seeds = evidence(runs).finding(on_dataset(dataset))
    assert found.effect == pytest.approx(over_seeds.effect) and found.error > 2 * over_seeds.error


@pytest.mark.parametrize("model", [MLM, CLM])
def test_a_level_near_an_end_has_the_interval_that_keeps_within_it(stored, model: str) -> None:
    runs, folder = stored
    cell = (model, "SC", "sst2")
    found = evidence(runs, "crossed", instances=folder).estimate(level_of(cell)).estimate
    table = Evidence(Settings(interval="crossed"), runs=runs, instances=folder).cells
    values = seeds_of(runs, model, "sst2")
    shared = table.covariances.between_seeds([(1.0, model, "sst2")], list(range(5)))
    assert found == crossed_estimate(values, *shared, limits=(0.0, 100.0))
    assert found.interval() != crossed_estimate(values, *shared, limits=None).interval()


def test_cells_without_common_seeds_have_welchs_error_and_what_their_instances_share(stored) -> None:
    runs, folder = stored
    apart = runs[(runs["seed"] < 2) == (runs["model"] == MLM)]
    source = evidence(apart, "crossed", instances=folder)
    found = source.finding(on_dataset("sst2"))
    welch = evidence(apart).finding(on_dataset("sst2"))
    variance, freedom = source.cells.covariances.between_cells([(1.0, MLM, "sst2"), (-1.0, CLM, "sst2")])
    assert variance > 0 and freedom == 399
    total = welch.error**2 + variance
    df = total**2 / (welch.error**4 / welch.df + variance**2 / freedom)
    assert (found.effect, found.error, found.df) == pytest.approx((welch.effect, math.sqrt(total), df))
    assert found.instance_share == pytest.approx(variance / total)
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(0.95, df, welch.effect, math.sqrt(total))
    )
    assert (found.test, found.interval) == ("Welch and by instance (no seeds in common)", "crossed")


def test_without_the_instances_of_a_run_crossed_is_over_seeds_and_says_so(stored) -> None:
    runs, folder = stored
    known = Evidence(Settings(interval="crossed"), runs=runs, instances=folder)
    places = known.cells.covariances._places["sst2"]
    del places[CLM, 4]
    found, alone = known.finding(on_dataset("sst2")), evidence(runs).finding(on_dataset("sst2"))
    assert (found.effect, found.error, found.df) == (alone.effect, alone.error, alone.df)
    assert (found.interval, found.test) == ("crossed", "paired by seed (instances missing)")
    places.clear()
    apart = runs[(runs["seed"] < 2) == (runs["model"] == MLM)]
    known = Evidence(Settings(interval="crossed"), runs=apart, instances=folder)
    known.cells.covariances._places["sst2"].clear()
    assert known.finding(on_dataset("sst2")).test == "Welch (no seeds in common)"


def test_a_model_against_its_copy_under_crossed_has_the_width_of_one_instance(stored) -> None:
    runs, folder = stored
    found = evidence(runs, "crossed", instances=folder).finding(on_dataset("sst2", CLM, CLM))
    alone = evidence(runs).finding(on_dataset("sst2", CLM, CLM))
    assert (found.low, found.high) == (alone.low, alone.high) and found.low < 0 < found.high
    assert found.interval == "crossed"


def test_nq_is_never_paired_by_query(stored) -> None:
    """Each run has queries of its own: nothing is common to seeds, and their spread holds the queries' already."""
    runs, folder = stored
    found = evidence(runs, "crossed", instances=folder).finding(on_dataset("nq"))
    alone = evidence(runs).finding(on_dataset("nq"))
    assert (found.instance_share, found.error) == (0, pytest.approx(alone.error))


def test_draws_of_levels_are_joint_over_instances_and_independent_over_seeds(stored) -> None:
    """Two models that share a test set's hard questions rise and fall together; their difference is the contrast's."""
    runs, folder = stored
    source = Evidence(Settings(interval="crossed", resamples=40_000), runs=runs, instances=folder)
    asked = [level_of((model, "IR", "msmarco")) for model in (MLM, CLM)]
    drawn = source.draws(asked)
    assert drawn.shape == (40_000, 2) and (drawn == source.draws(asked)).all()
    for column, contrast in zip(drawn.T, asked, strict=True):
        estimate = source.estimate(contrast).estimate
        assert column.mean() == pytest.approx(estimate.effect, abs=0.02 * estimate.error)
        assert column.std() == pytest.approx(estimate.error, rel=0.05)
    gap = source.estimate(on_dataset("msmarco")).estimate
    assert np.corrcoef(drawn.T)[0, 1] > 0.5
    assert (drawn[:, 0] - drawn[:, 1]).std() == pytest.approx(gap.error, rel=0.1)
    apart = evidence(runs).draws(asked)
    assert abs(np.corrcoef(apart.T)[0, 1]) < 4 / 2_000**0.5


def test_draws_have_the_spread_of_seeds_and_of_instances_whatever_the_weights(tmp_path: Path) -> None:
    """Two models that share hard instances, seeds that differ as much as test sets do; halves, sums and differences."""
    rng, rows, cells = np.random.default_rng(12), [], {}
    hard = rng.random(200)
    for model in (MLM, CLM):
        runs = []
        for seed, level in enumerate(rng.uniform(-0.04, 0.04, 5)):
            scores = np.clip(0.2 + 0.5 * hard + level + 0.05 * rng.random(200), 0, 1)
            runs.append(RunScores(lr=1e-4, seed=seed, validation=scores[:5], test=scores))
            rows.append((model, "SC", "sst2", 1e-4, seed, scores[:5].mean(), scores.mean(), 5, 200))
        cells[model, "sst2"] = runs
    write_instances(tmp_path / "i", cells)
    source = Evidence(
        Settings(interval="crossed", resamples=40_000), runs=pd.DataFrame(rows, columns=list(COLUMNS)),
        instances=tmp_path / "i",
    )  # fmt: skip

    def of(first: float, second: float) -> Contrast:
        pairs = ((first, MLM), (second, CLM))
        return Contrast(
            label="", terms=tuple(Term(weight=w, model=m, task="SC", dataset="sst2") for w, m in pairs if w)
        )

    asked = [of(0.5, 0), of(0, 3.0), of(1.0, -1.0)]
    drawn = source.draws(asked)
    for column, contrast in zip(drawn.T, asked, strict=True):
        estimate = source.estimate(contrast).estimate
        assert 0.1 < estimate.instance_share < 0.9 or contrast is asked[2]
        # Student's t of five seeds has twice the variance of a normal distribution of the same error.
        share = estimate.instance_share
        spread = estimate.error * math.sqrt(2 * (1 - share) + share)
        assert column.mean() == pytest.approx(estimate.effect, abs=0.02 * estimate.error)
        assert column.std() == pytest.approx(spread, rel=0.05)
        assert source.student(contrast) == estimate
    shared = source.cells.covariances.between_cells([(0.5, MLM, "sst2"), (3.0, CLM, "sst2")])[0]
    alone = [
        source.cells.covariances.between_cells([one])[0] for one in ((0.5, MLM, "sst2"), (3.0, CLM, "sst2"))
    ]
    assert np.cov(drawn.T)[0, 1] == pytest.approx((shared - sum(alone)) / 2, rel=0.15)


def test_single_seeds_and_seeds_apart_are_drawn_where_they_are(stored) -> None:
    runs, folder = stored
    one = runs[(runs["model"] == MLM) | (runs["seed"] == 0)]
    apart = runs[(runs["seed"] < 2) == (runs["model"] == MLM)]
    asked = [level_of((model, "SC", "sst2")) for model in (MLM, CLM)]
    drawn = evidence(one, "crossed", instances=folder).draws(asked)
    assert np.ptp(drawn[:, 1]) < 1e-9 and np.ptp(drawn[:, 0]) > 1
    turned = evidence(one, "crossed", instances=folder).draws(asked[::-1])
    assert np.ptp(turned[:, 0]) < 1e-9 and np.ptp(turned[:, 1]) > 1
    assert turned[:, 1].mean() == pytest.approx(seeds_of(one, MLM, "sst2").mean(), abs=0.5)
    assert drawn[0, 1] == pytest.approx(seeds_of(one, CLM, "sst2")[0])
    assert np.isfinite(evidence(apart, "crossed", instances=folder).draws(asked)).all()


def test_what_a_source_cannot_give_is_refused() -> None:
    with pytest.raises(UserError, match="needs single runs"):
        evidence(None, "bca")
    with pytest.raises(UserError, match="needs per-instance scores"):
        evidence(RUNS, "crossed")
    spread = next(iter(comparisons(CLAIMS["F7"].body)))
    assert isinstance(spread, Spread) and evidence(None).finding(spread).missing == "needs single runs"


def test_averages_are_of_the_datasets_of_their_task() -> None:
    source = evidence(RUNS)
    by_hand = weighted("x", [(1, MLM, "TC")])
    terms = tuple(Term(weight=1 / 3, model=MLM, task="TC", dataset=name) for name in datasets_of("TC"))
    one, three = source.finding(by_hand), source.finding(Contrast(label="", terms=terms))
    assert (one.effect, one.low, one.p_zero) == pytest.approx((three.effect, three.low, three.p_zero))
    assert source.cells.members("TC", "average") == datasets_of("TC")
