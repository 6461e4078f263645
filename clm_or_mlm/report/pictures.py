"""The figures of the report: what `python -m paper_figures` wrote into a folder, to be drawn again and handed out."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.sources import Source
from clm_or_mlm.report.downloads import Download
from clm_or_mlm.report.panels import Panel, draw_panels
from common.errors import UserError
from paper_figures.figure_data import COLUMNS
from paper_figures.registry import FIGURES

__all__ = ["Picture", "pictures_in"]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure: its data and words, and its files."""

    name: str
    """File name without its ending."""
    title: str
    caption: str
    alt: str
    svg: Download
    csv: Download
    width: int
    """Of the SVG, in CSS pixels."""
    height: int
    panels: tuple[Panel, ...] = field(default=())
    """Its panels, where its data are scores or losses; else the page shows the SVG."""


def pictures_in(folder: Path, source: Source, *, required: bool = True) -> tuple[Picture, ...]:
    """Return the figures of a folder that were drawn from `source` (or from training logs), in the paper's order.

    Args:
        folder: where they are.
        source: what they have to be drawn from.
        required: whether to refuse a folder without any.

    Raises:
        UserError: the folder holds none.
    """
    pictures = []
    for name in (
        figure.stem for figure in FIGURES.values() if figure.name != "claims"
    ):  # the page has its forests
        files = {ending: folder / f"{name}.{ending}" for ending in ("svg", "csv", "txt", "json")}
        record = _record(files["json"])
        if (
            record is not None
            and _drawn_from(record, source.name)
            and all(p.is_file() for p in files.values())
        ):
            pictures.append(_picture(name, files, record, source))
    if required and not pictures:
        raise UserError(
            f"{folder}: holds no figures of {source.label}; draw them with "
            f"`python -m paper_figures all {shlex.join(source.options)} --out {shlex.quote(str(folder))}`"
        )
    return tuple(pictures)


def _picture(name: str, files: dict[str, Path], record: dict[str, Any], source: Source) -> Picture:
    svg = files["svg"].read_bytes()
    axis = record.get("x_axis", {})
    data = pd.read_csv(files["csv"], dtype={"panel": str, "series": str})
    panels = (
        draw_panels(
            data,
            x_label=str(axis.get("label", "")),
            log_x=bool(axis.get("log")),
            expected=axis.get("expected", {}),
        )
        if list(data.columns) == COLUMNS and len(data)
        else ()
    )
    width, height = _size(svg)
    return Picture(
        name=name, title=str(record["title"]), caption=_own_caption(str(record["caption"]), source),
        alt=files["txt"].read_text(encoding="utf-8").strip(), width=width, height=height, panels=tuple(panels),
        svg=Download(name=f"{name}.svg", label="SVG", content=svg),
        csv=Download(name=f"{name}.csv", label="CSV", content=files["csv"].read_text(encoding="utf-8")),
    )  # fmt: skip


def _own_caption(caption: str, source: Source) -> str:
    """Return a caption without what the page says once of all its figures, `Source.own_words`."""
    return caption.removeprefix(source.own_words.replace(" %", "\u00a0%")).lstrip()


def _size(svg: bytes) -> tuple[int, int]:
    """Return width and height of an SVG by its viewBox, which matplotlib writes in points."""
    found = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if found is None:
        return 691, 288
    return round(float(found[1]) * 4 / 3), round(float(found[2]) * 4 / 3)


def _record(path: Path) -> dict[str, Any] | None:
    """Return a figure's record; None where there is none that names title, caption and source."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return record if {"title", "caption", "source"} <= set(record) else None
    except (OSError, ValueError, TypeError):
        return None


def _drawn_from(record: dict[str, Any], source: str) -> bool:
    """Return whether a figure's record names `source`: an older figure of another source is left out."""
    named = record["source"]
    return isinstance(named, dict) and named.get("name") in (source, "logs")
