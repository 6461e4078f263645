"""The registry of intervals: what each keeps, refuses and says; that the file of coverages is right: `test_shapes`."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.intervals import (
    DEFAULT_OF_CELLS,
    DEFAULT_OF_RUNS,
    INTERVALS,
    SHOWN_SHAPES,
    Interval,
    caption_of,
    coverage_words,
    measured_coverage,
)
from analysis.evidence.pooled import FEWEST_SEEDS
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED
from analysis.statistics.estimates import Student
from common.errors import UserError
from common.provenance import ROOT
from tests.analysis.evidence.asked import level_of
from tests.analysis.made_up import made_up_runs
from tests.speed.interval_coverage import SEED_COUNTS, SHAPES

MODELS = ("610m-mlm40-42k", "610m-clm-42k", *"qrstuvwxyz")
LEVEL = level_of((MODELS[0], "SC", "sst2"))
GAP = Contrast(
    label="",
    terms=tuple(
        Term(weight=w, model=m, task="SC")
        for w, m in ((1.0, MODELS[0]), (-1.0, MODELS[1]))
    ),
)
OVER_SEEDS = [name for name, one in INTERVALS.items() if not one.needs_instances]


def estimated(
    interval: str, seeds: int, contrast: Contrast = LEVEL, generator: int = 0
):
    runs = made_up_runs(
        np.random.default_rng(0), models=MODELS, seeds=range(seeds), rates=[1e-4]
    )
    settings = Settings(interval=interval, resamples=500, seed=generator)
    return Evidence(settings, runs=runs).estimate(contrast.terms)


@pytest.mark.parametrize("interval", OVER_SEEDS)
@pytest.mark.parametrize("contrast", [LEVEL, GAP])
def test_few_seeds_get_students_interval_under_its_own_name(
    interval: str, contrast: Contrast
) -> None:
    assert estimated(interval, 1, contrast) is None
    for seeds in (2, FEWEST_SEEDS - 1, FEWEST_SEEDS):
        found, student = (
            estimated(interval, seeds, contrast),
            estimated("t", seeds, contrast),
        )
        resampled = INTERVALS[interval].is_resampled
        assert found.interval == (
            "t" if resampled and seeds < FEWEST_SEEDS else interval
        )
        # Differences may be as wide as Welch's, which is the least
        if contrast is LEVEL:
            assert (found.estimate.interval() == student.estimate.interval()) == (
                found.interval == "t"
            )


@pytest.mark.parametrize("interval", OVER_SEEDS)
def test_an_interval_depends_on_a_generator_where_it_says_so(interval: str) -> None:
    first, second = (
        estimated(interval, 8, generator=one).estimate.interval() for one in (1, 2)
    )
    assert (first != second) == INTERVALS[interval].is_resampled
    enumerated = [
        estimated(interval, 5, generator=one).estimate.interval() for one in (1, 2)
    ]
    assert (enumerated[0] == enumerated[1]) == (interval != "pooled")


@pytest.mark.parametrize("interval", OVER_SEEDS)
def test_every_interval_holds_its_estimate_and_grows(
    interval: str,
) -> None:
    for contrast in (LEVEL, GAP):
        found = estimated(interval, 5, contrast)
        ends = [found.estimate.interval(level) for level in (0.5, 0.9, 0.95)]
        assert [low for low, _ in ends] == sorted(
            (low for low, _ in ends), reverse=True
        )
        assert [high for _, high in ends] == sorted(high for _, high in ends)
        assert ends[1][0] <= found.estimate.effect <= ends[1][1]
        assert found.seeds == ()


def test_printed_cells_have_students_or_the_normal_distribution() -> None:
    welch = Student(effect=1.0, error=0.5, df=6.0)
    printed = {
        name: one.of_cells(welch)
        for name, one in INTERVALS.items()
        if one.of_cells is not None
    }
    assert printed == {"paper": Student(effect=1.0, error=0.5, df=np.inf), "t": welch}
    assert printed["paper"].interval() == pytest.approx(
        stats.norm.interval(0.95, 1.0, 0.5)
    )
    assert (DEFAULT_OF_CELLS.name, DEFAULT_OF_RUNS.name) == ("t", "pooled")


def refusing(call, *arguments: object) -> str:
    with pytest.raises(UserError) as refused:
        call(*arguments)
    return str(refused.value)


def test_what_an_interval_lacks_is_said_with_those_that_have_it() -> None:
    for name in ("pooled", "bootstrap", "crossed"):
        assert refusing(INTERVALS[name].need_cells) == (
            f"the {name} interval needs individual runs, and the published cells are only means and normal intervals: "
            "give runs with --source, or choose --interval paper or t"
        )
        assert refusing(Evidence, Settings(interval=name)) == refusing(
            INTERVALS[name].need_cells
        )
        assert "needs individual runs" in refusing(
            PUBLISHED.scores, Settings(interval=name)
        )
    assert refusing(INTERVALS["crossed"].need_instances, None) == (
        "the crossed interval needs per-instance scores: read the run store with `clm-or-mlm ingest STORE "
        "--instances DIR`, or choose --interval paper, t, pooled or bootstrap"
    )


@given(st.text(min_size=1, max_size=12).filter(lambda name: name not in INTERVALS))
def test_an_unknown_interval_is_refused(name: str) -> None:
    with pytest.raises(
        UserError,
        match=r"unknown interval .*; use one of paper, t, pooled, bootstrap, crossed",
    ):
        Settings(interval=name)


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        ([], {}),
        ([(1, "t"), (1, "bootstrap")], {}),
        ([(5, "t"), (2, "t"), (1, "t")], {"t": 2}),
        (
            [(3, "t"), (5, "bootstrap"), (2, "t"), (1, "bootstrap")],
            {"bootstrap": 5, "t": 2},
        ),
        ([(4, "crossed"), (9, "paper"), (7, "crossed")], {"paper": 9, "crossed": 4}),
    ],
)
def test_caption_names_each_interval_with_its_fewest_seeds(
    seen: list[tuple[int, str]], counts: dict[str, int]
) -> None:
    """The interval of the most seeds first; single seeds have none."""
    words = [
        f"with {count} seeds {INTERVALS[name].caption(count)}"
        for name, count in counts.items()
    ]
    expected = (
        "; ".join(words).partition(" seeds ")[2]
        if words
        else "single seeds, which have no interval"
    )
    assert caption_of(seen) == caption_of(reversed(seen)) == expected


def test_a_new_interval_is_used_under_its_own_name() -> None:
    wide = Interval(
        name="wide",
        words="a wide interval",
        tests="wide tests",
        of_runs=lambda sample: INTERVALS["t"].of_runs(sample),
        of_cells=lambda welch: welch,
        test_of_cells="wide, from printed intervals",
    )
    INTERVALS.register(wide)
    try:
        assert Settings(interval="wide").method is wide and "or wide" in refusing(
            INTERVALS["bootstrap"].need_cells
        )
        found = Evidence(Settings(interval="wide"), printed=True).result(GAP)
        assert (found.interval, found.test) == ("wide", "wide, from printed intervals")
        assert wide.caption(5) == "a wide interval"
    finally:
        INTERVALS.pop("wide")


def test_the_documentation_has_every_interval_and_no_other() -> None:
    rows = re.findall(
        r"^\| (`.*?) \|.*\| ([^|]*) \|$",
        (ROOT / "docs" / "claims.md").read_text(),
        re.M,
    )
    needs = {
        name: needed for names, needed in rows for name in re.findall("`(.*?)`", names)
    }
    assert set(needs) == set(INTERVALS)
    for name, needed in needs.items():
        assert INTERVALS[name].needs_instances == ("per-instance" in needed)
        assert (INTERVALS[name].of_cells is not None) == ("cells" in needed)


def test_every_seed_interval_was_simulated_with_every_shape() -> None:
    for name, interval in INTERVALS.items():
        for shape in SHAPES:
            for count in SEED_COUNTS:
                found = measured_coverage(name, shape, count)
                assert (found is None) == (
                    interval.needs_instances and shape != "normal"
                )
                assert found is None or (0.4 < found[0] <= 1 and found[1] == count)
    assert set(SHOWN_SHAPES) <= set(SHAPES)


def test_unsimulated_seed_count_gets_the_next_fewer() -> None:
    assert measured_coverage("t", "normal", 12) == measured_coverage("t", "normal", 10)
    assert measured_coverage("t", "normal", 1) is None
    assert "of the time" in coverage_words(
        "crossed", 5
    ) and "collapse" not in coverage_words("crossed", 5)


@pytest.mark.parametrize("n_seeds", [2, 3, 5, 8])
def test_papers_interval_is_too_narrow_by_students_t(
    n_seeds: int,
) -> None:
    """1.96 standard errors hold the mean of normal seeds as often as Student's t is within 1.96."""
    held = 100 * (2 * stats.t.cdf(1.96, n_seeds - 1) - 1)
    known = measured_coverage("paper", "normal", n_seeds)
    assert known is not None and 100 * known[0] == pytest.approx(held, abs=3)


@pytest.mark.parametrize("n_seeds", [2, 5, 8, 15])
def test_students_interval_holds_normal_means_in_95_percent(
    n_seeds: int,
) -> None:
    words = coverage_words("t", n_seeds)
    shown = re.fullmatch(
        rf"covers the true mean (\d\d) % of the time in simulations with {n_seeds} seeds "
        r"\((\d\d) % if one seed in ten collapses\)",
        words,
    )
    assert (
        shown
        and int(shown[1]) == pytest.approx(95, abs=0.5)
        and 75 < int(shown[2]) < 95
    )
    assert coverage_words("t", 1) == coverage_words("none", 5) == ""


def test_coverage_of_a_pool_depends_on_its_cells() -> None:
    few, many, unknown = (coverage_words("pooled", 5, cells) for cells in (7, 46, None))
    assert "5 seeds and 6 models" in few and "5 seeds and 46 models" in many
    assert (
        "5 seeds and 5 to 46 models" in unknown
        and "90 to 94 % if one seed in ten collapses" in unknown
    )
    collapsing = [
        measured_coverage("pooled", "collapse", 5, cells) for cells in (5, 6, 10, 46)
    ]
    shares = [one[0] for one in collapsing if one is not None]
    assert shares == sorted(shares) and len(shares) == 4
    assert (
        coverage_words("t", 5, 7)
        == coverage_words("t", 5, 46)
        == coverage_words("t", 5)
    )
