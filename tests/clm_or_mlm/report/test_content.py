"""What the report shows: figures of its source alone, and texts next to the numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analysis.sources import Source, open_source
from analysis.statistics.scores import Settings
from clm_or_mlm.report.content import gather, pictures_in
from common.errors import UserError


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="paper_figures all"):
        pictures_in(tmp_path, open_source("published"))


def test_figures_of_another_source_are_left_out(figures: Path, own: Source) -> None:
    published = open_source("published")
    assert [picture.name for picture in pictures_in(figures, published)] == ["figure3", "figure6"]
    with pytest.raises(UserError, match=r"holds no figures of <my> runs; .*--source .<my> runs. "):
        pictures_in(figures, own)


def test_the_same_runs_by_another_path_are_the_same_source(own: Source, own_figures: Path) -> None:
    assert own.runs is not None
    again = Source(label="/elsewhere/runs.parquet", runs=own.runs.sample(frac=1, random_state=0))
    assert [picture.name for picture in pictures_in(own_figures, again)] == ["figure3", "figure6"]


def test_the_figure_of_training_logs_goes_with_every_source(
    figures: Path, own: Source, tmp_path: Path
) -> None:
    for ending in ("svg", "txt", "json"):
        text = (figures / f"figure3.{ending}").read_text(encoding="utf-8")
        text = text.replace('"name": "published"', '"name": "logs"').replace('"published"', '"my/logs"')
        (tmp_path / f"figure12.{ending}").write_text(text, encoding="utf-8")
    for source in (open_source("published"), own):
        assert [picture.name for picture in pictures_in(tmp_path, source)] == ["figure12"]


def test_figure_3_is_first_and_the_supplementary_ones_last(figures: Path, tmp_path: Path) -> None:
    for name in ("figure1", "figure3", "figure12", "claims", "coverage", "multiverse"):
        for ending in ("svg", "txt", "json"):
            shutil.copy(figures / f"figure3.{ending}", tmp_path / f"{name}.{ending}")
    names = [picture.name for picture in pictures_in(tmp_path, open_source("published"))]
    assert names == ["figure3", "figure1", "figure12", "claims", "multiverse", "coverage"]


def test_claims_carry_their_numbers_as_text(figures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clm_or_mlm.report.content.COVERAGE_TRIALS", 20)
    monkeypatch.setattr("clm_or_mlm.report.content.COVERAGE_RESAMPLES", 20)
    content = gather(open_source("published"), figures, Settings())
    claims = {str(claim["id"]): claim for claim in content.claims}
    assert str(claims["F1"]["effect_text"]).startswith("+2.09 [")
    assert claims["F7"]["effect_text"] == claims["F7"]["p_text"] == claims["F7"]["holm_text"] == "-"
    assert {"figure5", "figure12"} <= set(content.missing_pictures)
    assert not {"figure3", "claims"} & set(content.missing_pictures)
