"""LaTeX tables, compiled by a real TeX where there is one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.comparisons.comparison import compare
from analysis.comparisons.comparison_report import comparison_document
from analysis.evidence.evidence import Evidence, scores_of
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED
from analysis.tables.build import build_table
from analysis.tables.render import table_document
from common.tables import Grid, TableDocument, show
from pretraining.paper_models import TABLES
from tests.analysis.made_up import random_runs

WIDTH = "5.5in"
needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")


def compiled(tables: list[str], folder: Path) -> str:
    """Return the log of a document with all tables on a text of 5.5 inches."""
    body = "\n\\clearpage\n".join(tables)
    document = (
        "\\documentclass[10pt]{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage{booktabs,graphicx}\n"
        f"\\setlength{{\\textwidth}}{{{WIDTH}}}\n\\setlength{{\\textheight}}{{9in}}\n\\begin{{document}}\n{body}\n"
        "\\end{document}\n"
    )
    (folder / "tables.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    log = (folder / "tables.log").read_text("latin-1")
    assert done.returncode == 0, log[-2_000:]
    assert (folder / "tables.pdf").stat().st_size > 1_000
    return log


@needs_tex
def test_no_table_of_the_paper_is_wider_than_the_text(tmp_path: Path) -> None:
    scores = scores_of(
        Evidence(Settings(interval="t"), runs=random_runs()), source="my_runs"
    )
    tables = [show(table_document(build_table(number)), "latex") for number in TABLES]
    tables += [
        show(table_document(build_table(number, scores)), "latex") for number in (2, 6)
    ]
    log = compiled(tables, tmp_path)
    assert not re.findall(r"Overfull \\[hv]box.*", log)


@needs_tex
def test_a_comparison_fits_the_text(tmp_path: Path) -> None:
    settings = Settings(interval="t", resamples=200)
    pairs = [["610m-mlm40-42k", "610m-clm-42k"], ["610m-*-12k"]]
    tables = [
        show(comparison_document(compare(PUBLISHED, names, settings)), "latex")
        for names in pairs
    ]
    log = compiled(tables, tmp_path)
    assert not re.findall(r"Overfull \\[hv]box.*", log)


@needs_tex
def test_a_table_too_wide_is_what_the_test_would_find(tmp_path: Path) -> None:
    wide = "\\begin{tabular}{l}" + "wide " * 60 + "\\end{tabular}"
    assert re.search(r"Overfull \\hbox", compiled([wide], tmp_path))


def test_what_is_special_is_escaped() -> None:
    grid = Grid([["a", "b"], ["x_1", "50 % & ±1 < 2"]], caption="50 %", label="x")
    table = show(TableDocument(body=[grid]), "latex")
    assert "\\begin{tabular}{lr}" in table
    assert "x\\_1 & 50 \\% \\& $\\pm$1 $<$ 2 \\\\" in table
    assert "\\caption{50 \\%}" in table
