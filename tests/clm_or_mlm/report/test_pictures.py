"""The figures of a folder: those of the source alone, in the paper's order, with their files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores_table import Settings
from clm_or_mlm.report.pictures import pictures_in
from common.errors import UserError
from common.files import sha256_file
from common.provenance import provenance_path, write_provenance
from tests.clm_or_mlm.report.drawn import ENDINGS

OF_CELLS, OF_RUNS = Settings(interval="t"), Settings(interval="bootstrap", resamples=200)


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="paper_figures all"):
        pictures_in(tmp_path, PUBLISHED, OF_CELLS)


def test_figures_of_another_source_are_left_out(figures: Path, own: Source) -> None:
    names = [picture.name for picture in pictures_in(figures, PUBLISHED, OF_CELLS)]
    assert names == ["figure3", "figure6", "figure8", "multiverse"]
    with pytest.raises(UserError, match=r"holds no figures of <my> runs; .*--source .<my> runs. "):
        pictures_in(figures, own, OF_RUNS)


def test_the_same_runs_by_another_path_are_the_same_source(own: Source, own_figures: Path) -> None:
    assert own.runs is not None
    again = Source(label="/elsewhere/runs.parquet", runs=own.runs.sample(frac=1, random_state=0))
    assert len(pictures_in(own_figures, again, OF_RUNS)) == 4


def test_the_figure_of_training_logs_goes_with_every_source(
    figures: Path, own: Source, tmp_path: Path
) -> None:
    for ending in ENDINGS:
        text = (figures / f"figure3.{ending}").read_text(encoding="utf-8")
        text = text.replace('"name": "published"', '"name": "logs"').replace('"published"', '"my/logs"')
        (tmp_path / f"figure12.{ending}").write_text(text, encoding="utf-8")
    for source, settings in ((PUBLISHED, OF_CELLS), (own, OF_RUNS)):  # losses have no interval
        assert [picture.name for picture in pictures_in(tmp_path, source, settings)] == ["figure12"]


def test_the_papers_order_then_the_supplementary_ones(figures: Path, tmp_path: Path) -> None:
    for name in ("figure12", "figure1", "figure3", "claims", "coverage", "multiverse"):
        for ending in ENDINGS:
            shutil.copy(figures / f"figure3.{ending}", tmp_path / f"{name}.{ending}")
    names = [picture.name for picture in pictures_in(tmp_path, PUBLISHED, OF_CELLS)]
    # The forests of the findings are drawn by the page, larger and with every comparison.
    assert names == ["figure1", "figure3", "figure12", "multiverse", "coverage"]


def test_a_figure_comes_with_its_words_files_and_panels(figures: Path) -> None:
    three, *_, other = pictures_in(figures, PUBLISHED, OF_CELLS)
    assert three.title.startswith("Figure 3.") and "Student's t" in three.caption
    assert three.alt.startswith("Figure 3.")
    assert three.svg.content == (figures / "figure3.svg").read_bytes()
    assert three.csv.content == (figures / "figure3.csv").read_text(encoding="utf-8")
    assert len(three.panels) == 4 and other.panels == ()
    assert 680 < other.width < 700 and 200 < other.height < 400


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"title": "t", "caption": "c", "source": "published"}'])
def test_a_broken_record_is_no_figure(figures: Path, tmp_path: Path, text: str) -> None:
    for name in ("figure3", "figure6"):
        for ending in ENDINGS:
            shutil.copy(figures / f"{name}.{ending}", tmp_path)
    (tmp_path / "figure3.json").write_text(text, encoding="utf-8")
    assert [picture.name for picture in pictures_in(tmp_path, PUBLISHED, OF_CELLS)] == ["figure6"]


def test_a_record_of_an_older_version_still_has_panels(figures: Path, tmp_path: Path) -> None:
    import json

    for ending in ("svg", "csv", "txt"):
        shutil.copy(figures / f"figure3.{ending}", tmp_path)
    record = json.loads((figures / "figure3.json").read_text(encoding="utf-8"))
    del record["x_axis"]
    (tmp_path / "figure3.json").write_text(json.dumps(record), encoding="utf-8")
    [picture] = pictures_in(tmp_path, PUBLISHED, OF_CELLS)
    assert len(picture.panels) == 4 and picture.panels[0].x_label == ""


@pytest.fixture
def folder(figures: Path, tmp_path: Path) -> Path:
    for path in figures.glob("figure3.*"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_is_not_what_was_drawn_is_refused(folder: Path, ending: str) -> None:
    path = folder / f"figure3.{ending}"
    path.write_text(path.read_text(encoding="utf-8").replace("8", "9"), encoding="utf-8")
    command = f"`python -m paper_figures 3 --source published --out {folder}`"
    with pytest.raises(UserError) as error:
        pictures_in(folder, PUBLISHED, OF_CELLS)
    words = (
        f"{path}: is not what was drawn, by the hash in figure3.provenance.json; draw it again with {command}"
    )
    assert str(error.value) == words


def test_a_picture_that_was_not_drawn_with_its_data_is_refused(folder: Path) -> None:
    """As after `--format pdf`, which leaves an older SVG where it is."""
    made = provenance_path(folder / "figure3.csv")
    made.write_text(made.read_text().replace("figure3.svg", "figure3.pdf"))
    with pytest.raises(UserError, match=r"no provenance that can be believed .*; draw it again with"):
        pictures_in(folder, PUBLISHED, OF_CELLS)
    write_provenance(
        made, {}, {f"figure3.{one}": sha256_file(folder / f"figure3.{one}") for one in ENDINGS[1:]}
    )
    with pytest.raises(UserError, match=r"figure3\.svg: is not what was drawn"):
        pictures_in(folder, PUBLISHED, OF_CELLS)


@pytest.mark.parametrize("content", [b"", b'a,b\n"1', b"a\n1,2\n1,2,3\n"])
def test_a_table_that_cannot_be_read_is_one_sentence(folder: Path, content: bytes) -> None:
    provenance_path(folder / "figure3.csv").unlink()
    (folder / "figure3.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"figure3\.csv: holds no table that can be drawn .*; draw it again"):
        pictures_in(folder, PUBLISHED, OF_CELLS)


def test_texts_that_are_no_utf_8_end_in_no_traceback(folder: Path) -> None:
    provenance_path(folder / "figure3.csv").unlink()
    for ending in ("csv", "txt"):
        (folder / f"figure3.{ending}").write_bytes(b"\xff\xfe\n")
    [picture] = pictures_in(folder, PUBLISHED, OF_CELLS)
    assert picture.panels == ()


def test_a_score_that_is_no_number_is_one_sentence(folder: Path) -> None:
    provenance_path(folder / "figure3.csv").unlink()
    table = pd.read_csv(folder / "figure3.csv").astype({"mean": object})
    table.loc[0, "mean"] = "high"
    table.to_csv(folder / "figure3.csv", index=False)
    with pytest.raises(UserError, match=r"figure3\.csv: holds no table that can be drawn"):
        pictures_in(folder, PUBLISHED, OF_CELLS)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(interval="paper"), "was drawn with interval t, and the page is of paper; "),
        (
            Settings(interval="t", selection="mean"),
            "was drawn with selection seed, and the page is of mean; ",
        ),
        (Settings(interval="bca", seed=3), "was drawn with interval t"),
    ],
)
def test_a_figure_of_other_settings_is_refused(figures: Path, settings: Settings, words: str) -> None:
    with pytest.raises(UserError) as error:
        pictures_in(figures, PUBLISHED, settings)
    assert words in str(error.value) and str(error.value).startswith(f"{figures / 'figure3.json'}: ")
    given = {"paper": "--interval paper", "t": "--selection mean", "bca": "--interval bca --seed 3"}
    assert f"`python -m paper_figures 3 --source published {given[settings.interval]} --out " in str(
        error.value
    )


def test_resamples_count_where_there_are_any(figures: Path, own: Source, own_figures: Path) -> None:
    assert len(pictures_in(figures, PUBLISHED, Settings(interval="t", resamples=300, seed=1))) == 4
    with pytest.raises(UserError, match="drawn with resamples 200, and the page is of 300"):
        pictures_in(own_figures, own, Settings(interval="bootstrap", resamples=300))
