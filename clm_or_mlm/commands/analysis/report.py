"""`python -m analysis report`: write the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clm_or_mlm.options import BootstrapScoreOptions, SourceOptions
from clm_or_mlm.report.content import gather
from clm_or_mlm.report.html_page import render_page
from common.files import write_text
from common.provenance import provenance

__all__ = ["report"]

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "matplotlib", "jinja2")


def report(
    *,
    source: SourceOptions = SourceOptions(),
    scores: BootstrapScoreOptions = BootstrapScoreOptions(),
    figures: Annotated[Path, Parameter(metavar="DIR")] = Path("build/figures"),
    out: Annotated[Path, Parameter(metavar="FILE")] = Path("build/report/index.html"),
) -> int:
    """Write one self-contained HTML page with the figures of a folder and everything that the source says.

    It shows tables, findings with verdicts, the audit, the coverage of the intervals and provenance.

    Args:
        figures: what `python -m paper_figures all` wrote from the same source
        out: the page
    """
    content = gather(source.open(need_instances=True), figures, scores.settings())
    record = {"source": source.source} | provenance("analysis", PACKAGES)
    write_text(out, render_page(content, record))
    sys.stdout.write(f"{out}\n")
    return 0
