"""`python -m analysis report` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.sources import PUBLISHED
from common.errors import UserError
from paper_figures.inputs import Inputs
from paper_figures.output.formats import formats_named
from paper_figures.output.save import save_figure
from tests.paper_figures.made_up import paper_figure


def test_the_page_is_written_from_a_folder_of_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clm_or_mlm.report.content.COVERAGE_TRIALS", 20)
    monkeypatch.setattr("clm_or_mlm.report.content.COVERAGE_RESAMPLES", 20)
    save_figure(paper_figure(3), Inputs(source=PUBLISHED), tmp_path / "figures", formats_named(["svg"]))
    page = tmp_path / "page.html"
    assert main(["report", "--figures", str(tmp_path / "figures"), "--out", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert 'id="figure3"' in page.read_text()


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no figures of published; draw them with"):
        main(["report", "--figures", str(tmp_path), "--out", str(tmp_path / "page.html")])
    assert list(tmp_path.iterdir()) == []
