"""Options that several commands share, and the package that all their numbers need."""

import sys

import pytest

from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import INTERVALS
from analysis.options import SourceOptions
from analysis.sources import PUBLISHED
from clm_or_mlm.__main__ import main
from common.errors import UserError
from tests.analysis.stores import RELEASED


def test_an_interval_that_is_left_open_is_the_sources() -> None:
    runs = SourceOptions(source=str(RELEASED)).open()
    assert PUBLISHED.with_interval(Settings()).interval == "t"
    assert runs.with_interval(Settings()).interval == "pooled"
    assert runs.with_interval(Settings(interval="bootstrap")).interval == "bootstrap"


def test_every_command_refuses_a_rule_that_published_cells_cannot_give() -> None:
    for words in (
        "scores", "table 3", "audit", "claims", "sensitivity", "reproduce", "report",
        "compare 610m-mlm40-42k 610m-clm-42k",
    ):  # fmt: skip
        with pytest.raises(
            UserError, match="in the published cells, the learning rate was chosen for each seed"
        ):
            main([*words.split(), "--selection", "mean"])


def test_instances_are_read_where_the_interval_needs_them() -> None:
    named = {name: Settings(interval=name).method.needs_instances for name in INTERVALS}
    assert [name for name, needed in named.items() if needed] == ["crossed"]
    assert not Settings().method.needs_instances


@pytest.mark.parametrize(
    "words", ["table 2 --source miniature --interval t", "compare 610m-mlm40-42k 610m-clm-42k", "claims"]
)
def test_without_statsmodels_one_sentence_names_it(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("statsmodels", "statsmodels.stats.weightstats"):  # also one that is imported already
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match="needs statsmodels, which is not installed"):
        main(words.split())
