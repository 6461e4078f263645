"""Figure 10: training FLOPs on the x axis."""

from __future__ import annotations

import pytest

from analysis.sources import open_source
from paper_figures.figures.figure10 import training_flops
from paper_figures.inputs import Inputs
from pretraining.model_names import parse
from tests.paper_figures.made_up import STEP_FLOPS, paper_figure


def test_figure_10_ends_below_5e20_flops() -> None:
    assert max(paper_figure(10).collect(Inputs(source=open_source("published")))["x"]) == pytest.approx(
        40_000 * STEP_FLOPS / 1e20
    )


def test_flops_grow_with_steps_alone() -> None:
    one, two = (training_flops(parse(f"610m-{objective}-42k-1000")) for objective in ("clm", "mlm40"))
    assert one == two == pytest.approx(1000 * STEP_FLOPS)
    assert training_flops(parse("610m-clm-42k-2000")) == 2 * one
