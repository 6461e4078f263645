"""The forms of the miniature are the paper's study in proportion."""

from __future__ import annotations

import pytest

from miniature.forms import CONTROL, FORMS, PREFIX, RANDOM
from pretraining.models import MODELS, parse
from pretraining.paper_settings import SHAPES


@pytest.mark.parametrize("name", FORMS)
def test_every_step_is_the_papers_divided_by_the_scale(name: str) -> None:
    form = FORMS[name]
    for own, paper_name in form.stand_ins.items():
        paper, mine = parse(paper_name), form.models[own]
        assert own.startswith(PREFIX) and own not in MODELS
        assert mine.objectives == paper.objectives and mine.kind == paper.kind
        pairs = list(zip(mine.stages, paper.stages, strict=True))
        assert all((a.start * form.scale, a.end * form.scale) == (b.start, b.end) for a, b in pairs)
        assert all(a.phase == b.phase for a, b in pairs)
    study = form.study
    assert study.design.prefix == PREFIX
    assert form.stand_ins[form.own(CONTROL)] == CONTROL and set(form.tuned) - {RANDOM} < set(form.models)
    for shape in study.shapes.values():  # initial weights keep the paper's ratio to 1 / sqrt(width)
        assert shape.init_std == round(0.02 * (SHAPES["610m"].hidden / shape.hidden) ** 0.5, 3)
    # warm-up and decay keep their proportion to the budget
    assert study.config.warmup_steps * form.scale == study.design.decay_steps * form.scale == 2_000
    assert study.config.rewarm_steps * form.scale == 200


def test_the_example_has_the_whole_design() -> None:
    """Three sizes with CLM and four ratios of MLM, the 25-75 model, a pair of continued pretrainings."""
    own = set(FORMS["cpu"].stand_ins.values())
    objectives = ("clm", "mlm20", "mlm30", "mlm40", "mlm50")
    assert own >= {f"{size}-{one}-42k" for size in ("210m", "610m", "1b") for one in objectives}
    assert own >= {"610m-clm-10k-mlm40-42k", "610m-mlm40-dec42k-mlm40-64k", "610m-clm-dec42k-mlm40-64k"}
