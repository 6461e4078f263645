"""`clm-or-mlm fetch-released`: which models a figure or table needs."""

import pytest

from analysis.commands.store import models_for
from common.errors import UserError
from pretraining.paper_models import FIGURE_MODELS, TABLES


def test_sets_are_the_studys() -> None:
    assert models_for("figure3") == FIGURE_MODELS[3]
    assert models_for("table10") == TABLES[10]
    assert len(models_for("all")) == 51
    with pytest.raises(UserError, match="did you mean 'figure3'"):
        models_for("figur3")
    with pytest.raises(UserError, match="Table 1 has settings"):
        models_for("table1")
