"""The multiverse in every format."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from analysis.claims.multiverse import Forks, Multiverse, explore
from analysis.claims.pages.multiverse import multiverse_document
from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from common.tables import PRINTED, show

SETTINGS = Settings(interval="t", resamples=200)


@pytest.mark.parametrize("form", PRINTED)
def test_every_format_shows_the_share(form):
    found = explore(Source(label="published"), SETTINGS)
    text = show(multiverse_document(found, ["F1", "F4"]), form)
    assert text.endswith("\n") and "F4" in text and "F5a" not in text
    if form == "json":
        content = json.loads(text)
        assert [row["share_supporting"] for row in content["shares"]] == [1.0, 0.5]
    if form == "text":
        assert "50% of 2" in text


ANALYSES = pd.DataFrame(
    [
        {"id": name, "interval": interval, "margin": 1.0, "state": state, "valid": interval == "t"}
        for name, states in (("F1", ("supported", "undecided")), ("F4", ("undecided", "contradicted")))
        for interval, state in zip(("t", "paper"), states, strict=True)
    ]
)
FORKS = Forks(
    analyses=ANALYSES,
    shares=pd.DataFrame(
        {
            "valid": [1, 1], "valid_supported": [1.0, 0.0], "valid_contradicted": [0.0, 0.0],
            "invalid": [1, 1], "invalid_supported": [0.0, 0.0], "invalid_contradicted": [0.0, 1.0],
        },
        index=pd.Index(["F1", "F4"], name="id"),
    ),
    flips={"F1": [], "F4": [("interval", "paper", "contradicted", False)]},
)  # fmt: skip


@pytest.mark.parametrize("form", PRINTED)
def test_every_format_has_the_forks_valid_and_invalid_apart(form):
    empty = Multiverse(
        source="x", verdicts=explore(Source(label="published"), SETTINGS).verdicts, gaps=pd.DataFrame()
    )
    text = show(multiverse_document(replace(empty, forks=FORKS), ["F1", "F4"]), form)
    if form in ("text", "markdown"):
        assert "1 valid analyses, 1 invalid ones" in text
        assert "interval paper: contradicted (invalid)" in text and "none" in text
    elif form == "json":
        forks = json.loads(text)["forks"]
        assert [row["invalid_contradicted"] for row in forks["shares"]] == [0.0, 1.0]
        assert forks["single_changes"]["F4"] == [["interval", "paper", "contradicted", False]]
        assert len(forks["analyses"]) == 4
    else:
        assert "F4,,,paper,contradicted" in text and "valid" in text.splitlines()[0]
