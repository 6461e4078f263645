"""The numbers of docs/footguns.md, from the released runs that they are of."""

from __future__ import annotations

from common.provenance import ROOT
from tests.analysis.stores import released_source


def test_what_bfloat16_weights_reach_is_said_of_the_right_split() -> None:
    runs = released_source().need_runs("the test")
    means = 100 * runs.groupby("lr")[["validation_score", "test_score"]].mean()
    (low, low_test), (high, high_test) = means.loc[1e-5], means.loc[1e-4]
    page = " ".join((ROOT / "docs" / "footguns.md").read_text(encoding="utf-8").split())
    said = f"SST-2's validation split reaches {low:.0f} at 1e-5, {high:.0f} at 1e-4"
    assert f"{said} (test: {low_test:.0f} and {high_test:.0f})" in page
