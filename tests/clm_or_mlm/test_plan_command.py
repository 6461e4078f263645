from __future__ import annotations

import json

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--figure", "11", "--format", "json"])
    content = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in content["models"]] == [
        "1b-mlm40-42k",
        "1b-clm-10k-mlm40-42k",
        "1b-clm-42k",
    ]
    assert content["costs"]["steps"] == 2 * 42_000 + 32_000
    assert set(content["costs"]["flops"]) == {"hoffmann", "model"}


def test_a_name_that_the_study_does_not_list_is_planned_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    main(["plan", "610m-mlm40-42k", "1b-mlm40-42k-s2"])
    assert not caplog.records
    main(["plan", "610m-mlm41-42k"])
    assert [record.getMessage() for record in caplog.records] == [
        "610m-mlm41-42k is not listed in the study 'paper'; going by its name; did you mean '610m-mlm40-42k'?"
    ]


def test_an_unknown_model_without_a_study_file_names_the_option() -> None:
    with pytest.raises(UserError, match=r"unknown model 'mine-mlm40-120'.*needs --study FILE"):
        main(["plan", "mine-mlm40-120"])
