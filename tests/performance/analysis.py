"""The analysis on a store of the release's size, command by command, next to what the same costs without it.

    python -m tests.performance.standin /tmp/release          # once: 5 GB
    python -m tests.performance.analysis /tmp/release [--only ingest figures tables claims compare]

References: parsing the same files with orjson and json in one thread; importing the figures' libraries;
scipy's bootstrap of the same cells; a plain loop over resamples and runs for the bootstrap over instances.
References that would take minutes are timed on a part and scaled, as their lines say.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from scipy import stats

from tests.performance.timing import command, line, machine, work

RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the timed commands work on."""

    store: Path
    scratch: Path
    every: int
    """References take every n-th file or cell."""

    @property
    def runs(self) -> Path:
        """The runs table; `ingest` writes it."""
        return self.scratch / "runs.parquet"

    @property
    def instances(self) -> Path:
        """The per-instance scores; `ingest` writes them."""
        return self.scratch / "instances"


def ingest(setting: Setting) -> None:
    """Read everything, with instances and without, and again when nothing has changed."""
    words = ("-m", "analysis", "ingest", setting.store, "--out")
    with_instances = (*words, setting.runs, "--instances", setting.instances)
    line("ingest with instances, first time", command(*with_instances))
    line("ingest with instances, again", command(*with_instances))
    ours = command(*words, setting.scratch / "other.parquet")
    line("ingest without instances, first time", ours)
    files = sorted(setting.store.rglob("results.json"))[:: setting.every]
    parsers: dict[str, Callable[[bytes], object]] = {"orjson": orjson.loads, "json": json.loads}
    for name, parse in parsers.items():
        parsed = work(lambda parse=parse: [parse(file.read_bytes()) for file in files])  # type: ignore[misc]
        note = f"every {setting.every}th file, times {setting.every}"
        line(f"reference: parsed with {name}", parsed.times(setting.every), ours, note)


def figures(setting: Setting) -> None:
    """Draw from the runs table, as PDF, PNG and SVG."""
    words = ("-m", "paper_figures", "--source", setting.runs, "--out", setting.scratch / "figures")
    ours = command(*words, 3)
    line("figure 3", ours)
    line("figure 3, BCa", command(*words, 3, "--interval", "bca"))
    line("all figures", command(*words, "all"))
    imports = "import pandas, pyarrow.parquet, matplotlib.figure"
    line("reference: imports of pandas, pyarrow, matplotlib", command("-c", imports), ours)


def tables(setting: Setting) -> None:
    """Compute every table and the audit from the runs table."""
    from analysis.statistics.scores_table import seed_scores
    from analysis.store.runs_table import read_runs

    source = ("--source", setting.runs)
    ours = command(
        "-m", "analysis", "table", "all", *source, "--out", setting.scratch / "tables", "--interval", "bootstrap"
    )  # fmt: skip
    line("all 17 tables, bootstrap", ours)
    line("audit", command("-m", "analysis", "audit", *source))
    cells = [row[np.isfinite(row)] for row in seed_scores(read_runs(setting.runs)).to_numpy()]
    some = [cell for cell in cells if len(cell) > 1][:: setting.every]

    def scipys() -> None:
        for cell in some:
            stats.bootstrap((cell,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=0)

    note = f"{len(cells)} cells; every {setting.every}th, times {setting.every}"
    line("reference: scipy.stats.bootstrap", work(scipys).times(setting.every), ours, note)


def claims(setting: Setting) -> None:
    """Judge all claims from a store that was never read, and again; and the bootstrap over instances next to a loop."""
    from analysis.statistics.instance_bootstrap import resample_instances
    from analysis.statistics.learning_rate_selection import select_runs
    from analysis.store.instances import read_instances
    from analysis.store.runs_table import read_runs
    from benchmarks.protocol import DATASETS

    words = ("-m", "analysis", "claims", "--source", setting.store, "--interval", "crossed")
    line("claims, published cells", command("-m", "analysis", "claims"))
    line("claims with instances, store read for the first time", command(*words))
    line("claims with instances, store read before", command(*words))
    chosen, rng, few = select_runs(read_runs(setting.runs)), np.random.default_rng(0), 20
    scores = {
        dataset: read_instances(setting.instances, dataset.name, chosen[chosen["dataset"] == dataset.name])
        for dataset in DATASETS.values()
    }

    def loop() -> None:
        for found in scores.values():
            for _ in range(few):
                picks = rng.integers(0, found.shape[1], found.shape[1])
                for run in found:
                    run[picks].mean()

    ours = work(
        lambda: [
            resample_instances(found, RESAMPLES, rng, paired=dataset.paired) for dataset, found in scores.items()
        ]
    )  # fmt: skip
    line(f"bootstrap over instances, {RESAMPLES:,} resamples", ours)
    line("reference: loop", work(loop).times(RESAMPLES / few), ours, f"{few} resamples, scaled")


def compare(setting: Setting) -> None:
    """Compare two models, and rank all of them."""
    words = ("-m", "analysis", "compare", "--source", setting.runs)
    line("compare two models", command(*words, "610m-mlm40-42k", "610m-clm-42k"))
    line("compare all models", command(*words, "*"))


SECTIONS = {section.__name__: section for section in (ingest, figures, tables, claims, compare)}


def main() -> None:
    """Time the sections."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path, help="a store of the release's size (tests.performance.standin)")
    parser.add_argument("--every", type=int, default=10, help="references take every n-th file (default: 10)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    store = options.store.resolve()
    sizes = [file.stat().st_size for file in store.rglob("results.json")]
    print(f"{len(sizes):,} files, {sum(sizes) / 1e9:.1f} GB; {machine()}")
    with tempfile.TemporaryDirectory(prefix="analysis-") as scratch:
        os.environ["CLM_OR_MLM_CACHE"] = str(Path(scratch) / "cache")
        setting = Setting(store=store, scratch=Path(scratch), every=options.every)
        if "ingest" not in options.only:
            command(
                "-m", "analysis", "ingest", store, "--out", setting.runs, "--instances", setting.instances
            )
        for name in options.only:
            SECTIONS[name](setting)


if __name__ == "__main__":
    main()
