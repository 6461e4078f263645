"""`clm-or-mlm report` as a user types it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from common.errors import UserError
from paper_figures.figure import FigureInputs, FigureSpec
from paper_figures.save import DrawnFigure, draw_figures


def test_the_page_is_written_with_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[FigureInputs] = []

    def few(
        figures: Sequence[FigureSpec], inputs: FigureInputs, problems: list[UserError]
    ) -> Iterator[DrawnFigure]:
        asked.append(inputs)
        return draw_figures(
            [figure for figure in figures if figure.name in ("3", "5")],
            inputs,
            problems,
        )

    monkeypatch.setattr("paper_figures.save.draw_figures", few)
    page, logs = tmp_path / "page.html", tmp_path / "logs"
    logs.mkdir()
    assert main(["report", "--out", str(page), "--logs", str(logs)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert (
        'id="figure3"' in page.read_text()
        and "Not drawn from this source: figure1, " in page.read_text()
    )
    assert asked[0].logs == logs
