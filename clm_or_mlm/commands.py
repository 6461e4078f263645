"""Commands over all rooms: the report, and everything at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.evidence.settings import Settings
from analysis.options import SelectionRule, SourceOptions
from common.errors import UserError
from common.files import sha256_bytes, write_text
from common.manifest import check_outputs, write_manifest
from common.plain_text import redacted
from common.provenance import provenance, provenance_path

_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "matplotlib", "jinja2")


def report(
    *,
    source: SourceOptions = SourceOptions(),
    scores: Settings = Settings(),
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    out: Annotated[Path, Parameter(metavar="FILE")] = Path("build/report/index.html"),
) -> None:
    """Write a self-contained HTML page with all results from a source.

    The page starts with the answer to the paper's question. It then shows the findings with their comparisons, figures,
    tables, the audit and provenance; `reproduce` adds links to all of them as files.

    example: clm-or-mlm report --source results/ --out report.html

    Args:
        logs: training logs, for Figure 12
        out: output file
    """
    # Imported here, so that a help is printed without NumPy, pandas and SciPy.
    from clm_or_mlm.report.content import gather
    from clm_or_mlm.report.html_page import render_page
    from paper_figures.figure import FIGURES, FigureInputs
    from paper_figures.save import draw_figures

    opened = source.open(need_instances=True)
    inputs = FigureInputs(source=opened, settings=scores, logs=logs)
    specs = [figure.load() for figure in FIGURES.values()]

    # Why a figure cannot be drawn is told only by `reproduce`. Here the errors go into a list that nothing
    # reads, and the page names the figures that it lacks.
    unread_problems: list[UserError] = []
    content = gather(inputs, draw_figures(specs, inputs, unread_problems))

    # A page is passed on to others, so that what looks like a secret is left out of it.
    origin = {"source": redacted(opened.long_label)} | provenance("analysis", _PACKAGES)
    page = render_page(content, origin)

    # The record stands beside the page and has the page's hash: by it, the next call knows the page as its own.
    record = provenance_path(out)
    hashes = {out.name: sha256_bytes(page.encode())}

    # Beside /dev/stdout, or a link to a file elsewhere, a record would be out of place.
    is_device = out.exists() and not out.is_file()
    if not is_device and not out.is_symlink():
        # Refuses to write over a page that is not this command's; the record itself may have any content ("").
        check_outputs(out.parent, {**hashes, record.name: ""}, record)

    write_text(out, page)
    if out.is_file() and not out.is_symlink():
        write_manifest(record, origin, hashes)
    sys.stdout.write(f"{out}\n")


def reproduce(
    *,
    source: SourceOptions = SourceOptions(),
    selection: SelectionRule = "seed",
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("build"),
) -> None:
    """Make every table, figure and finding and the audit of a source, as files and as one page with links to them.

    The command ends by listing what was made, what was not, and why not.

    example: clm-or-mlm reproduce --source results/ --out build

    Args:
        logs: training logs, for Figure 12
        out: output folder
    """
    # Imported here, as in `report`.
    from clm_or_mlm import reproduce as reproduction

    opened = source.open(need_instances=True)
    outcome = reproduction.reproduce(opened, out, selection=selection, logs=logs)
    sys.stdout.write(outcome.text(out))
