"""The letter as Markdown, HTML, LaTeX and PDF."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from analysis.formats import FileFormat
from analysis.letter.content import Letter
from analysis.tables.latex import tex
from common.errors import UserError
from common.registry import Registry
from common.text_tables import fill_template

__all__ = ["FORMATS", "letter_html", "letter_latex", "letter_markdown", "letter_pdf"]

_TEMPLATE = Path(__file__).parent / "templates" / "letter.html"
_SECONDS = 120


def letter_markdown(letter: Letter) -> str:
    """Return the letter as Markdown."""
    lines = [f"# {letter.title}"]
    for section in letter.sections:
        lines += ["", f"## {section.title}"]
        lines += ["", section.lead] if section.lead else []
        lines += (
            ["", *(f"{place}. {point}" for place, point in enumerate(section.points, 1))]
            if section.points
            else []
        )
    return "\n".join(lines) + "\n"


def letter_html(letter: Letter) -> str:
    """Return the letter as a self-contained HTML page that prints on one sheet."""
    return fill_template(_TEMPLATE, letter=letter)


def letter_latex(letter: Letter) -> str:
    """Return the letter as a LaTeX document of one page; it needs no package beyond a basic TeX."""
    lines = [
        "\\documentclass[10pt]{article}",
        "\\usepackage[utf8]{inputenc}",
        "\\usepackage[T1]{fontenc}",
        "\\usepackage[a4paper,margin=1.5cm]{geometry}",
        # The same bytes for the same letter: no time, no identifier.
        "\\pdfinfoomitdate=1\\pdftrailerid{}\\pdfsuppressptexinfo=-1",
        "\\pagestyle{empty}\\setlength{\\parindent}{0pt}\\sloppy",
        "\\begin{document}\\footnotesize",
        f"{{\\large\\textbf{{{tex(letter.title)}}}}}\\par",
    ]
    for section in letter.sections:
        lines.append(f"\\medskip\\textbf{{{tex(section.title)}.}} {tex(section.lead)}")
        if section.points:
            lines.append("\\begin{list}{\\arabic{enumi}.}{\\usecounter{enumi}\\setlength{\\itemsep}{0pt}")
            lines.append(
                "\\setlength{\\parsep}{0pt}\\setlength{\\topsep}{1pt}\\setlength{\\leftmargin}{1.4em}}"
            )
            lines += [f"\\item {tex(point)}" for point in section.points]
            lines.append("\\end{list}")
        else:
            lines.append("\\par")
    return "\n".join([*lines, "\\end{document}"]) + "\n"


def letter_pdf(letter: Letter) -> bytes:
    """Return the letter as PDF.

    Raises:
        UserError: there is no pdflatex, or it fails.
    """
    program = shutil.which("pdflatex")
    if program is None:
        raise UserError(
            "a PDF needs pdflatex, which is not installed; write the letter with --format latex or html"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "letter.tex"
        path.write_text(letter_latex(letter), encoding="utf-8")
        done = subprocess.run(
            [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", path.name],
            cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS,
            env={**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"},
        )  # fmt: skip
        if done.returncode:
            wrong = next(
                (line for line in done.stdout.splitlines() if line.startswith("!")), "no reason given"
            )
            raise UserError(f"pdflatex fails on the letter ({wrong}); write it with --format latex or html")
        return path.with_suffix(".pdf").read_bytes()


FORMATS: Registry[FileFormat[Letter]] = Registry(
    "format of the letter",
    [
        FileFormat(name="markdown", ending="md", content=letter_markdown),
        FileFormat(name="html", ending="html", content=letter_html),
        FileFormat(name="latex", ending="tex", content=letter_latex),
        FileFormat(name="pdf", ending="pdf", content=letter_pdf, is_text=False),
    ],
)
"""How the letter is written."""
