from __future__ import annotations

import json

import pytest

from common.tables import show
from pretraining.plan.flops import CONVENTIONS, Convention
from pretraining.plan.plan import PAPER_STUDY, plan_of
from pretraining.plan.report import PLAN_FORMATS, plan_document

WHOLE = plan_of(tuple(PAPER_STUDY.models.values()))


@pytest.mark.parametrize("form", PLAN_FORMATS)
def test_every_format_names_every_stage(form: str) -> None:
    text = show(plan_document(WHOLE), form)
    assert all(item.name in text for item in WHOLE.stages)
    assert text.isascii()


def test_a_made_up_flop_count_is_in_every_plan() -> None:
    made_up = Convention(name="one", citation="at one a token", per_token=lambda shape, **_: 1.0)
    CONVENTIONS.register(made_up)
    try:
        tokens = WHOLE.costs().tokens
        assert WHOLE.costs().flops["one"] == pytest.approx(tokens)
        assert f"{tokens:.4g} at one a token" in show(plan_document(WHOLE), "tree")
        assert "one" in json.loads(show(plan_document(WHOLE), "json"))["costs"]["flops"]
    finally:
        CONVENTIONS.pop("one")
    assert "one" not in WHOLE.costs().flops
