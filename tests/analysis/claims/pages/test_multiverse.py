"""The multiverse in every format."""

from __future__ import annotations

import json

import pytest

from analysis.claims.multiverse import explore
from analysis.claims.pages.formats import render_multiverse
from analysis.sources import Source
from analysis.statistics.scores import Settings

SETTINGS = Settings(interval="t", resamples=200)


@pytest.mark.parametrize("form", ["text", "markdown", "json", "csv"])
def test_every_format_shows_the_share(form):
    found = explore(Source(label="published"), SETTINGS)
    text = render_multiverse(found, ["F1", "F4"], form)
    assert text.endswith("\n") and "F4" in text and "F5a" not in text
    if form == "json":
        content = json.loads(text)
        assert [row["share_supporting"] for row in content["shares"]] == [1.0, 0.5]
    if form == "text":
        assert "50% of 2" in text
