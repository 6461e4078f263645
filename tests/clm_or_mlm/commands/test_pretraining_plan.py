from __future__ import annotations

import json

import pytest

from pretraining.__main__ import main


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--figure", "11", "--format", "json"])
    content = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in content["models"]] == [
        "1b-mlm40-42k",
        "1b-clm-10k-mlm40-42k",
        "1b-clm-42k",
    ]
    assert content["costs"]["steps"] == 2 * 42_000 + 32_000
    assert {"hoffmann", "six_nd"} <= set(content["costs"]["flops"])
