"""The files of a figure: the same bytes everywhere, no dates, the data next to the picture."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fontTools.ttLib import TTFont
from PIL import Image

from analysis.sources import Source, open_source
from analysis.store.runs_table import write_runs
from common.provenance import ROOT
from paper_figures.figure import FIGURE_COLUMNS
from paper_figures.save import rounded
from pretraining.paper_models import FIGURE_MODELS
from tests.paper_figures.drawn import collected
from tests.paper_figures.made_up import made_up_runs, write_logs

PICTURES = ("pdf", "png", "svg")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("figure3")
    paths = collected("3").save(folder)
    endings = (*PICTURES, "csv", "txt", "json", "provenance.json")
    assert [path.name for path in paths] == [f"figure3.{end}" for end in endings]
    return {path.name.partition(".")[2]: path.read_bytes() for path in paths}


def test_the_csv_is_what_is_drawn_to_the_digits_that_are_known(
    files: dict[str, bytes],
) -> None:
    read = pd.read_csv(io.BytesIO(files["csv"]))
    data = collected("3").data
    assert list(read.columns) == FIGURE_COLUMNS
    pd.testing.assert_frame_equal(
        read.astype({"x": float}),
        data[FIGURE_COLUMNS].astype({"x": float}),
        rtol=0,
        atol=0.005,
    )
    cells = [
        cell
        for line in files["csv"].decode().splitlines()[1:]
        for cell in line.split(",")[4:7]
    ]
    assert all(re.fullmatch(r"\d+(\.\d{1,2})?", cell) for cell in cells)


def test_no_picture_holds_a_date_or_a_version(files: dict[str, bytes]) -> None:
    assert b"CreationDate" not in files["pdf"]
    assert b"atplotlib" not in files["pdf"]
    image = Image.open(io.BytesIO(files["png"]))
    assert set(image.info) <= {"dpi", "Title", "Description"}
    assert image.size[0] == 2160 and image.info["dpi"][0] == pytest.approx(300, abs=0.1)
    assert not re.search(rb"dc:date|atplotlib v|20\d\d-\d\d-\d\d", files["svg"])


def test_the_svg_needs_no_font_and_carries_its_description(
    files: dict[str, bytes],
) -> None:
    root = ElementTree.fromstring(files["svg"])
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    title, description = root.find(f"{space}title"), root.find(f"{space}desc")
    assert title is not None
    assert title.text == "Figure 3. MLM masking ratio by model size"
    assert description is not None
    assert description.text == files["txt"].decode().strip()
    assert not list(root.iter(f"{space}text"))


def test_pdf_embeds_its_fonts_as_outlines(
    files: dict[str, bytes],
) -> None:
    assert b"/Subtype /Type3" not in files["pdf"]
    fonts = re.findall(
        rb"/Length1 [^>]*>>\nstream\n(.+?)\nendstream", files["pdf"], re.DOTALL
    )
    tables = [TTFont(io.BytesIO(zlib.decompress(font))).keys() for font in fonts]
    assert len(tables) == 2 and all(
        "glyf" in found and not {"GSUB", "GPOS"} & {*found} for found in tables
    )


def test_the_alt_text_has_the_numbers_and_the_source(files: dict[str, bytes]) -> None:
    text = files["txt"].decode()
    assert "610M 87.56, 1B 87.97 at 20 % masking" in text
    assert "Tables 2\u20135" in text
    assert (
        "95 % interval by Student's t, which covers the true mean 95 % of the time"
        in text
    )


def test_the_provenance_says_where_from(files: dict[str, bytes]) -> None:
    record = json.loads(files["json"])
    assert record["source"] == {"name": "published"}
    assert record["points"] == 48
    assert record["settings"]["selection"] == "seed"
    assert not {"commit", "lock", "python", "versions", "command"} & record.keys()
    around = json.loads(files["provenance.json"])
    assert {"commit", "lock", "python", "versions", "command"} <= around.keys()
    assert around["source"] == "published"
    assert around["files"]["figure3.svg"] == hashlib.sha256(files["svg"]).hexdigest()


def _draw(
    runs: Path, logs: Path, out: Path, cwd: Path, **environment: str
) -> dict[str, bytes]:
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "clm_or_mlm",
            "figure",
            "3",
            "5",
            "8",
            "12",
            "--source",
            str(runs),
            "--logs",
            str(logs),
            "--out",
            str(out),
        ],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # A renamed table has lost its manifest, which is said, too.
    is_sealed = runs.with_name(f"{runs.name}.manifest.json").is_file()
    assert (
        done.stderr.count("\n") == 2 - is_sealed
        and "test sets are not the paper's" in done.stderr
    )
    assert [line.split(".* ")[1] for line in done.stdout.splitlines()] == [
        "(7 files)"
    ] * 4
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes_in_another_world(tmp_path: Path) -> None:
    """Another clock, language, home, folder, hash seed, thread count, matplotlibrc and place of the runs."""
    first, second = tmp_path / "first", tmp_path / "second" / "deeper"
    names = dict.fromkeys(
        name for number in (3, 5, 8) for name in FIGURE_MODELS[number]
    )
    first.mkdir()
    write_runs(first / "runs.parquet", made_up_runs(names))
    write_logs(first / "logs", every=500)
    shutil.copytree(first, second)
    (second / "runs.parquet").rename(second / "others.parquet")
    home = tmp_path / "home"
    (home / ".config" / "matplotlib").mkdir(parents=True)
    for folder in (home / ".config" / "matplotlib", second):
        (folder / "matplotlibrc").write_text(
            "font.size: 25\naxes.facecolor: black\nsavefig.dpi: 10\nfont.family: serif\nsvg.fonttype: none\n"
            "text.usetex: True\naxes.prop_cycle: cycler('color', ['g'])\nbackend: TkAgg\nlines.linewidth: 9\n"
        )
    one = _draw(
        first / "runs.parquet",
        first / "logs",
        tmp_path / "out1",
        first,
        TZ="UTC",
        LANG="C",
        HOME=str(tmp_path),
        PYTHONHASHSEED="1",
        OMP_NUM_THREADS="1",
    )
    two = _draw(
        second / "others.parquet",
        second / "logs",
        tmp_path / "out2",
        second,
        TZ="Pacific/Kiritimati",
        LANG="de_DE.UTF-8",
        LC_ALL="tr_TR.UTF-8",
        HOME=str(home),
        PYTHONHASHSEED="77",
        OMP_NUM_THREADS="2",
        SOURCE_DATE_EPOCH="86400",
        MPLCONFIGDIR=str(tmp_path / "elsewhere"),
        MPLBACKEND="nonsense",
        PYTHONUTF8="1",
    )
    assert one.keys() == two.keys()
    assert [
        name
        for name in one
        if one[name] != two[name] and not name.endswith(".provenance.json")
    ] == []
    for name in (name for name in one if name.endswith(".provenance.json")):
        left, right = json.loads(one[name]), json.loads(two[name])
        assert {key for key in left if left[key] != right[key]} == {
            "source",
            "command",
            "seal",
        }


PUBLISHED = open_source("published")
RUNS = Source(label="runs", runs=made_up_runs(["610m-clm-42k"]))


def written(table: pd.DataFrame, source: Source) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(rounded(table, source).to_csv(index=False, float_format="%.12g")),
        dtype=str,
    )


@pytest.mark.parametrize("source", [PUBLISHED, RUNS])
def test_every_percentage_is_recovered_to_the_known_digits(source: Source) -> None:
    digits = 2 if source.is_published else 4
    values = np.random.default_rng(0).integers(0, 100 * 10**digits, 2000) / 10**digits
    noise = values * (1 + 4 * np.finfo(float).eps)
    again = written(
        pd.DataFrame({"mean": noise, "low": noise, "gap": noise}), source
    ).astype(float)
    assert (again["mean"].to_numpy() == values).all() and again.equals(
        again.assign(low=values, gap=values)
    )


def test_losses_flops_and_p_values_have_six_digits() -> None:
    table = pd.DataFrame(
        {
            "x": [4.7682371234, 1e-9 / 3],
            "mean": [0.00012345678, 12.3456789],
            "interval": "range",
            "n": [1, 2],
        }
    )
    shown = written(table, PUBLISHED)
    assert shown["x"].tolist() == ["4.76824", "3.33333e-10"]
    assert shown["mean"].tolist() == ["0.000123457", "12.3457"]
    assert shown["n"].tolist() == ["1", "2"]


def test_infinite_ends_and_names_stay() -> None:
    table = pd.DataFrame(
        {"region_low": [-np.inf, np.nan], "x": pd.Series(["CPT", 1 / 3], dtype=object)}
    )
    shown = rounded(table, PUBLISHED)
    assert shown["region_low"].iloc[0] == -np.inf and np.isnan(
        shown["region_low"].iloc[1]
    )
    assert shown["x"].tolist() == ["CPT", 0.333333]
