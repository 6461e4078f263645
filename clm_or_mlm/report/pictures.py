"""The figures of the report: what `python -m paper_figures` wrote into a folder, to be drawn again and handed out."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from clm_or_mlm.report.downloads import Download
from clm_or_mlm.report.panels import Panel, draw_panels
from common.errors import UserError, first_line
from common.files import sha256_bytes
from common.plain_text import visible
from common.provenance import FILES, provenance_path, read_provenance
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


def pictures_in(
    folder: Path, source: Source, settings: Settings, *, required: bool = True
) -> tuple[Picture, ...]:
    """Return the figures of a folder that were drawn from `source` (or from training logs), in the paper's order.

    Args:
        folder: where they are.
        source: what they have to be drawn from.
        settings: how its runs became scores, with an interval; those of figures must be the same.
        required: whether to refuse a folder without any.

    Raises:
        UserError: the folder holds none, one was drawn with other settings, or a file is not what was drawn.
    """
    pictures = []
    for figure in FIGURES.values():
        if figure.name == "claims":  # the page has its forests
            continue
        files = {ending: folder / f"{figure.stem}.{ending}" for ending in ("svg", "csv", "txt", "json")}
        record = _record(files["json"])
        if record is None or not all(path.is_file() for path in files.values()):
            continue
        if (named := _source_name(record)) not in (source.name, "logs"):
            continue  # an older figure of another source
        again = f"draw it again with {_command(figure.name, folder, source, settings)}"
        if named == source.name:
            _check_settings(files["json"], record, settings, again)
        pictures.append(_picture(files, record, source, again))
    if required and not pictures:
        raise UserError(
            f"{folder}: holds no figures of {source.label}; draw them with "
            f"{_command('all', folder, source, settings)}"
        )
    return tuple(pictures)


def _command(figure: str, folder: Path, source: Source, settings: Settings) -> str:
    """Return the command that draws a figure, or all, with these settings."""
    options = settings.options(source.settled(Settings()))
    words = shlex.join([figure, *source.options, *options, "--out", str(folder)])
    return f"`python -m paper_figures {words}`"


def _check_settings(path: Path, record: Mapping[str, Any], settings: Settings, again: str) -> None:
    """Raise a `UserError` for a figure that is recorded to be drawn with other settings than the page's."""
    recorded = record.get("settings")
    resampling = ("resamples", "seed") if settings.method.is_resampled else ()
    for name in ("selection", "interval", *resampling):
        wanted = getattr(settings, name)
        if isinstance(recorded, dict) and recorded.get(name, wanted) != wanted:
            given = visible(str(recorded[name]))
            raise UserError(f"{path}: was drawn with {name} {given}, and the page is of {wanted}; {again}")


def _contents(files: Mapping[str, Path], again: str) -> dict[str, bytes]:
    """Return the bytes of a figure's files, compared with the hashes in its provenance, where it has one."""
    made = provenance_path(files["csv"])
    try:
        hashes = read_provenance(made).get(FILES)
    except UserError as error:
        raise UserError(f"{error}; {again}") from None
    contents = {ending: path.read_bytes() for ending, path in files.items()}
    for ending, path in files.items():
        if hashes is not None and hashes.get(path.name) != sha256_bytes(contents[ending]):
            raise UserError(f"{path}: is not what was drawn, by the hash in {made.name}; {again}")
    return contents


def _picture(files: Mapping[str, Path], record: Mapping[str, Any], source: Source, again: str) -> Picture:
    contents, name = _contents(files, again), files["csv"].stem
    csv = contents["csv"].decode("utf-8", errors="replace")
    try:
        data = pd.read_csv(io.StringIO(csv), dtype={"panel": str, "series": str})
        drawn = list(data.columns) == COLUMNS and len(data) > 0
        for column in ("mean", "low", "high", "n_seeds") if drawn else ():
            pd.to_numeric(data[column])
    except ValueError as error:
        raise UserError(
            f"{files['csv']}: holds no table that can be drawn ({first_line(error)}); {again}"
        ) from None
    axis = record.get("x_axis", {})
    panels = (
        draw_panels(
            data,
            x_label=str(axis.get("label", "")),
            log_x=bool(axis.get("log")),
            expected=axis.get("expected", {}),
        )
        if drawn
        else ()
    )
    width, height = _size(contents["svg"])
    return Picture(
        name=name, title=str(record["title"]), caption=_own_caption(str(record["caption"]), source),
        alt=contents["txt"].decode("utf-8", errors="replace").strip(),
        width=width, height=height, panels=tuple(panels),
        svg=Download(name=f"{name}.svg", label="SVG", content=contents["svg"]),
        csv=Download(name=f"{name}.csv", label="CSV", content=csv),
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


def _source_name(record: Mapping[str, Any]) -> str:
    named = record["source"]
    return str(named.get("name")) if isinstance(named, dict) else ""
