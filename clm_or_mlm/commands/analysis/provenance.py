"""`python -m analysis provenance`: whether the runs of a store may stand in one table, and which failed and why."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from analysis.tables.provenance import ASPECTS, Provenance, audit_provenance

__all__ = ["add_parser", "report"]


def add_parser(subparsers: Any) -> None:
    """Add `provenance`."""
    parser = subparsers.add_parser(
        "provenance",
        help="whether all runs of a table were made with the same code, data and hardware",
        description="Compare what the runs of a store were made with, and list failed runs with their logs' ends.",
        epilog="exit code: 0 all agree; 1 some differ",
    )
    parser.add_argument("store", type=Path, help="a run store, or its results folder")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="the workflow's logs (logs beside results)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=_main)


def _main(args: argparse.Namespace) -> int:
    found = audit_provenance(args.store, args.logs)
    text = json.dumps(dataclasses.asdict(found), indent=1) + "\n" if args.json else report(found)
    sys.stdout.write(text)
    return 1 if found.mismatches else 0


def report(found: Provenance) -> str:
    """Return the findings as text."""
    lines = [f"{found.runs} runs, {found.recorded} of them with a record of what they were made with"]
    for item in found.mismatches:
        lines.append(f"DIFFERS  {item.table}: {ASPECTS[item.aspect][0]}")
        lines += [f"    {count:>6} runs  {value[:100]}" for value, count in item.values.items()]
        lines += [f"            such as {name}" for name in item.examples]
    if not found.mismatches:
        lines.append(f"all agree within each table on {', '.join(title for title, _ in ASPECTS.values())}")
    for run in found.failed:
        lines.append(f"FAILED   {run.run}: {run.reason}")
        lines += [f"            {line[:160]}" for line in run.log]
    lines.append(f"{len(found.mismatches)} mismatches, {len(found.failed)} failed runs")
    return "\n".join(lines) + "\n"
