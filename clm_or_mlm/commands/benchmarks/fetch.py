"""`python -m benchmarks fetch`."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.datasets.fetch import HuggingFaceHub, fetch_all
from benchmarks.datasets.import_files import report
from benchmarks.datasets.schema import Manifest
from clm_or_mlm.commands.benchmarks.options import DATA

__all__ = ["PARTIAL", "fetch"]

PARTIAL = 1
"""Exit code when some datasets could not be fetched and others could."""


def fetch(
    *datasets: str,
    out: Path = DATA,
    lock: Path | None = None,
    keep_downloads: bool = False,
    skip_bad_lines: bool = False,
    replace: bool = False,
) -> int:
    """Download datasets from their hubs into the local form. Needs network, once; everything after works offline.

    datasets: sst2, qqp, mnli_m, ontonotes, conll2003_en, uner_en, squad, squad_v2, record, nq, msmarco, mldr_en

    Args:
        datasets: which to fetch (default: all twelve)
        out: folder of the datasets
        lock: lock of commits and hashes, made when absent (default: OUT/hub.lock.json)
        keep_downloads: keep the downloaded files after use
        skip_bad_lines: leave bad lines out, with a warning for each
        replace: fetch again what is there already
    """

    def done(manifest: Manifest) -> None:
        sys.stdout.write(report(manifest, out / manifest.dataset) + "\n")

    failed = fetch_all(
        datasets,
        out,
        HuggingFaceHub(),
        done,
        lock=lock,
        keep=keep_downloads,
        replace_old=replace,
        skip_bad=skip_bad_lines,
    )
    return PARTIAL if failed else 0
