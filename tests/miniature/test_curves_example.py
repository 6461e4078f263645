"""The packaged toy study `curves`: small, as the other example after as many steps; what the page says of it."""

import io
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from analysis.sources import EXAMPLES, open_source
from analysis.statistics.inference import holm
from common.provenance import ROOT
from common.tables import signed
from pretraining.training.log import LOG, read_log
from tests.docs.lengths import IMAGE, draw
from tests.miniature.questions import ARMS, answers, of_arm, values_of

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def curves() -> pd.DataFrame:
    return values_of(open_source("curves"))


def test_it_is_small_and_has_no_single_instances() -> None:
    files = [path for path in EXAMPLES["curves"].parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MEBIBYTE
    assert open_source("curves", need_instances=True).instances is None


def test_both_examples_begin_from_the_same_losses() -> None:
    """Of the same weights on the same held-out text, so that all their losses are in one unit."""
    logs = [read_log(path.parent / "logs" / LOG) for path in EXAMPLES.values()]
    for trunk, seed in product(
        ("mini-m-clm", "mini-m-mlm40"), ("", "-s1", "-s2", "-s3", "-s4")
    ):
        first, second = (
            [
                row["loss"]
                for row in log
                if row["step"] == 0 and row["stage"] == f"{trunk}{seed}"
            ]
            for log in logs
        )
        assert first == second != []


def test_after_as_many_steps_it_agrees_with_the_other_example(
    curves: pd.DataFrame,
) -> None:
    """In scores, and in the losses' differences between arms.

    Each loss is higher: the held-out text is of two novels, which are much more of the other study's text.
    """
    other, ps = values_of(open_source("miniature")), []
    for arm, score in product(ARMS, ("nq", "sst2")):
        one, two = (of_arm(values, ARMS[arm][0], score) for values in (curves, other))
        ps.append(_p(one.mean() - two.mean(), [one, two]))
    losses = {
        arm: [of_arm(values, ARMS[arm][0], "loss") for values in (curves, other)]
        for arm in ARMS
    }
    assert all(len(held) == 5 for pair in losses.values() for held in pair)
    higher = {arm: one.mean() - two.mean() for arm, (one, two) in losses.items()}
    assert 0 < min(higher.values()) < max(higher.values()) < 0.15
    for arm, another in combinations(ARMS, 2):
        ps.append(_p(higher[arm] - higher[another], [*losses[arm], *losses[another]]))
    assert min(holm(ps)) > 0.05


def _p(effect: float, samples: list["pd.Series[float]"]) -> float:
    """Return Welch's two-sided p, with the degrees of freedom of the smallest sample."""
    from scipy import stats

    error = sum(held.var() / len(held) for held in samples) ** 0.5
    return float(2 * stats.t.sf(abs(effect) / error, min(map(len, samples)) - 1))


def test_page_has_the_commands_differences_and_its_picture(
    curves: pd.DataFrame,
) -> None:
    page = " ".join((ROOT / "docs" / "miniature.md").read_text("utf-8").split())
    found = answers(curves).query("question == 1 and steps in ('840', '2520', '5040')")
    for steps, part in found.groupby("steps"):
        cells = [
            "not run"
            if np.isnan(row.effect)
            else f"{signed(row.effect)} [{signed(row.low)}, {signed(row.high)}]"
            for row in part.itertuples()
        ]
        assert f"| {int(str(steps)):,} | {' | '.join(cells)} |" in page
    with Image.open(IMAGE) as then, Image.open(io.BytesIO(draw())) as now:
        assert (then.info["Description"], then.size) == (
            now.info["Description"],
            now.size,
        )
