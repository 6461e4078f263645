"""`clm-or-mlm reproduce`: everything that a source allows, in one go."""

import json
from pathlib import Path

import pytest

from analysis.sources import open_source
from analysis.store.runs_table import write_runs
from clm_or_mlm.__main__ import main
from clm_or_mlm.reproduce import reproduce
from paper_figures.figure import FIGURES
from tests.analysis.made_up import random_runs


def draw_only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(
        "clm_or_mlm.reproduce.FIGURES", {name: FIGURES[name] for name in names}
    )


def test_published_cells_are_reproduced_in_a_relative_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    draw_only(monkeypatch, "3", "5", "7", "12", "claims")
    assert main(["reproduce", "--out", "my results/\u00e9"]) == 0
    answer = capsys.readouterr()
    out = tmp_path / "my results" / "\u00e9"
    made, _, missing = answer.out.partition("not applicable:")
    record = json.loads((out / "reproduce.json").read_text())
    listed = [*record["made"], "provenance.json", "reproduce.json"]
    page = (out / "index.html").read_text()
    assert (
        made.strip().startswith("my results/\u00e9/index.html")
        and "Not applicable" in page
    )
    assert all(f'href="{path}"' in page for path in listed) and 'id="figure3"' in page
    assert '<pre tabindex="0">make reproduce</pre>' in page
    assert all((out / path).is_file() for path in listed)
    assert {
        "scores.csv",
        "audit.json",
        "claims.md",
        "tables/table17.tex",
        "figures/figure3.pdf",
        "figures/claims.svg",
    } <= set(listed)
    for number in (5, 7, 12):
        assert f"Figure {number} " in missing
    assert record["source"] == "published" and not record["missing"]
    assert str(tmp_path) not in (out / "reproduce.json").read_text()


def test_figures_come_from_the_same_source_as_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_only(monkeypatch, "2", "8", "claims")
    models = ["210m-mlm40-42k", "210m-clm-42k"]
    write_runs(tmp_path / "my runs.parquet", random_runs(models=models))
    source = open_source(str(tmp_path / "my runs.parquet"))
    outcome = reproduce(source, tmp_path / "out")
    assert (
        "figures/figure2.csv" in outcome.made and "figures/claims.csv" in outcome.made
    )
    assert "published" not in (tmp_path / "out/figures/figure2.csv").read_text()
    for name in ("figure2", "claims"):
        record = json.loads((tmp_path / f"out/figures/{name}.json").read_text())
        assert record["source"]["name"].startswith("runs-")
    assert ("a figure", "Figure 8") in [
        (what, why.split(" cannot")[0]) for what, why in outcome.missing
    ]
    assert not any("figure8" in path for path in outcome.made)
