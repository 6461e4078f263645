"""Time of comparing two models and of ranking all models of a runs table, imports included.

python tests/performance/analysis/standin.py /tmp/release --share 0.02
python -m analysis ingest /tmp/release --out /tmp/release/runs.parquet
python tests/performance/analysis/compare.py /tmp/release/runs.parquet
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.performance.analysis.claims import timed_command  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="a runs table")
    parser.add_argument("--resamples", type=int, default=10_000)
    args = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    pair = ("610m-mlm40-42k", "610m-clm-42k")
    for interval in ("studentised", "t"):
        options = ("--source", args.runs, "--resamples", args.resamples, "--interval", interval)
        timed_command(f"two models, {interval}", "-m", "analysis", "compare", *pair, *options)
        what = f"all models, {interval}, {args.resamples:,} resamples"
        timed_command(what, "-m", "analysis", "compare", "*", *options)


if __name__ == "__main__":
    main()
