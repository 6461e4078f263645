"""Commands over all rooms: the report, everything at once, and the caches."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from analysis.evidence.evidence import Settings
from analysis.options import SelectionRule, SourceOptions
from common.files import cache_folder, sha256_bytes, write_text
from common.manifest import write_manifest
from common.plain_text import redacted
from common.provenance import OF_A_CALL, provenance, provenance_path
from pretraining.data.token_stream import shard_cache_folder

__all__ = ["clean", "report", "reproduce"]

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "matplotlib", "jinja2")


def clean(*names: Literal["shards", "stores", "released"], dry_run: bool = False) -> None:
    """Delete your caches and print how much space was freed; running jobs rebuild what they need.

    Without a name, decompressed shards and cached run stores are deleted; they are rebuilt when needed. Released files
    would have to be downloaded again, so they are deleted only if you name `released`.

    example: clm-or-mlm clean --dry-run

    Args:
        names: the caches to delete
        dry_run: print what would be freed, but delete nothing
    """
    folders = {
        "shards": [shard_cache_folder(), cache_folder() / "shards"],
        "stores": [cache_folder() / "stores"],
        "released": sorted(cache_folder().glob("released-*")),
    }
    total, done = 0, "would be freed" if dry_run else "freed"
    for folder in dict.fromkeys(folder for name in names or ("shards", "stores") for folder in folders[name]):
        if folder.is_dir() and not folder.is_symlink():
            size = _bytes_of(folder)
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
                size -= _bytes_of(folder)
            total += size
            sys.stdout.write(f"{size / 1e6:9.2f} MB  {done}  {folder}\n")
    sys.stdout.write(f"{total / 1e6:9.2f} MB  {done} in all\n")


def _bytes_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


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
    from clm_or_mlm.report.content import gather
    from clm_or_mlm.report.html_page import render_page
    from paper_figures.figure import FIGURES, FigureInputs
    from paper_figures.save import draw_figures

    opened = source.open(need_instances=True)
    inputs = FigureInputs(source=opened, settings=scores, logs=logs)
    content = gather(inputs, draw_figures([figure.load() for figure in FIGURES.values()], inputs, []))
    around = {"source": redacted(opened.long_label)} | provenance("analysis", PACKAGES)
    page = render_page(content, {name: value for name, value in around.items() if name not in OF_A_CALL})
    write_text(out, page)
    if out.is_file() and not out.is_symlink():
        write_manifest(provenance_path(out), around, {out.name: sha256_bytes(page.encode())})
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
    from clm_or_mlm import reproduce as reproduction

    opened = source.open(need_instances=True)
    outcome = reproduction.reproduce(opened, out, selection=selection, logs=logs)
    sys.stdout.write(outcome.text(out))
