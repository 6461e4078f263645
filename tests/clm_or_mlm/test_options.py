"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from clm_or_mlm.options import BootstrapScoreOptions, ClaimScoreOptions, ScoreOptions, SourceOptions
from common.errors import UserError
from tests.analysis.stores import RELEASED


def test_an_interval_that_is_left_open_is_the_sources() -> None:
    assert ScoreOptions().settings("t").interval == "paper"
    assert BootstrapScoreOptions().settings("t").interval == "bootstrap"
    assert ClaimScoreOptions().settings("t").interval == "t"
    assert ClaimScoreOptions(interval="bca").settings("t").interval == "bca"


def test_instances_are_read_where_the_interval_may_need_them() -> None:
    assert [ScoreOptions(interval=name).needs_instances for name in ("paper", "hierarchical")] == [
        False,
        True,
    ]
    assert ClaimScoreOptions().needs_instances


def test_a_source_is_opened_as_named() -> None:
    assert SourceOptions().open().is_published
    assert SourceOptions(source=str(RELEASED)).open().need_runs("a test")["model"].unique() == [
        "610m-mlm40-42k"
    ]
    with pytest.raises(UserError, match="nowhere: no such source"):
        SourceOptions(source="nowhere", instances=Path("x")).open()
