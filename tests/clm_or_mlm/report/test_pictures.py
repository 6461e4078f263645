"""The figures of a folder: those of the source alone, in the paper's order, with their files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analysis.sources import PUBLISHED, Source
from clm_or_mlm.report.pictures import pictures_in
from common.errors import UserError


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="paper_figures all"):
        pictures_in(tmp_path, PUBLISHED)


def test_figures_of_another_source_are_left_out(figures: Path, own: Source) -> None:
    names = [picture.name for picture in pictures_in(figures, PUBLISHED)]
    assert names == ["figure3", "figure6", "figure8", "multiverse"]
    with pytest.raises(UserError, match=r"holds no figures of <my> runs; .*--source .<my> runs. "):
        pictures_in(figures, own)


def test_the_same_runs_by_another_path_are_the_same_source(own: Source, own_figures: Path) -> None:
    assert own.runs is not None
    again = Source(label="/elsewhere/runs.parquet", runs=own.runs.sample(frac=1, random_state=0))
    assert len(pictures_in(own_figures, again)) == 4


def test_the_figure_of_training_logs_goes_with_every_source(
    figures: Path, own: Source, tmp_path: Path
) -> None:
    for ending in ("svg", "csv", "txt", "json"):
        text = (figures / f"figure3.{ending}").read_text(encoding="utf-8")
        text = text.replace('"name": "published"', '"name": "logs"').replace('"published"', '"my/logs"')
        (tmp_path / f"figure12.{ending}").write_text(text, encoding="utf-8")
    for source in (PUBLISHED, own):
        assert [picture.name for picture in pictures_in(tmp_path, source)] == ["figure12"]


def test_the_papers_order_then_the_supplementary_ones(figures: Path, tmp_path: Path) -> None:
    for name in ("figure12", "figure1", "figure3", "claims", "coverage", "multiverse"):
        for ending in ("svg", "csv", "txt", "json"):
            shutil.copy(figures / f"figure3.{ending}", tmp_path / f"{name}.{ending}")
    names = [picture.name for picture in pictures_in(tmp_path, PUBLISHED)]
    # The forests of the findings are drawn by the page, larger and with every comparison.
    assert names == ["figure1", "figure3", "figure12", "multiverse", "coverage"]


def test_a_figure_comes_with_its_words_files_and_panels(figures: Path) -> None:
    three, *_, other = pictures_in(figures, PUBLISHED)
    assert three.title.startswith("Figure 3.") and "Student's t" in three.caption
    assert three.alt.startswith("Figure 3.")
    assert three.svg.content == (figures / "figure3.svg").read_bytes()
    assert three.csv.content == (figures / "figure3.csv").read_text(encoding="utf-8")
    assert len(three.panels) == 4 and other.panels == ()
    assert 680 < other.width < 700 and 200 < other.height < 400


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"title": "t", "caption": "c", "source": "published"}'])
def test_a_broken_record_is_no_figure(figures: Path, tmp_path: Path, text: str) -> None:
    for name in ("figure3", "figure6"):
        for ending in ("svg", "csv", "txt", "json"):
            shutil.copy(figures / f"{name}.{ending}", tmp_path)
    (tmp_path / "figure3.json").write_text(text, encoding="utf-8")
    assert [picture.name for picture in pictures_in(tmp_path, PUBLISHED)] == ["figure6"]


def test_a_record_of_an_older_version_still_has_panels(figures: Path, tmp_path: Path) -> None:
    import json

    for ending in ("svg", "csv", "txt"):
        shutil.copy(figures / f"figure3.{ending}", tmp_path)
    record = json.loads((figures / "figure3.json").read_text(encoding="utf-8"))
    del record["x_axis"]
    (tmp_path / "figure3.json").write_text(json.dumps(record), encoding="utf-8")
    [picture] = pictures_in(tmp_path, PUBLISHED)
    assert len(picture.panels) == 4 and picture.panels[0].x_label == ""
