from __future__ import annotations

import pytest

from common.tables import show
from pretraining.plan.plan_report import PLAN_FORMATS, plan_document
from pretraining.plan.study_plan import PAPER_STUDY, plan_of

WHOLE = plan_of(tuple(PAPER_STUDY.models.values()))


@pytest.mark.parametrize("form", PLAN_FORMATS)
def test_every_format_names_every_stage(form: str) -> None:
    text = show(plan_document(WHOLE), form)
    assert all(item.name in text for item in WHOLE.stages)
    assert text.isascii()
