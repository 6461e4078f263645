"""Whether an environment breaks the declared bounds that requirements/overrides.txt lifts, and no others.

Composer and streaming declare upper bounds that the lock passes over (docs/dependencies.md). `pip check` reports
every bound that is broken; this reads what it reported, so that a new conflict is not lost among the known ones and
a bound that nothing declares any more does not stay lifted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from container.inventory import ROOT, canonical

__all__ = ["OVERRIDES", "broken_bounds", "lifted_bounds", "problems"]

OVERRIDES = ROOT / "requirements" / "overrides.txt"

DECLARED_BY = frozenset({"mosaicml", "mosaicml-streaming"})
"""Whose bounds may be lifted: Composer and streaming."""

_BROKEN = re.compile(
    r"(?P<package>\S+) \S+ has requirement (?P<bound>[A-Za-z0-9._-]+).*, but you have \S+ \S+$"
)
_SOUND = "No broken requirements found."


def broken_bounds(report: str) -> dict[str, set[str]]:
    """Return what `pip check` reported: for each package whose bound is broken, the packages that declare it.

    Raises:
        UserError: the report is empty, or has a line of another kind, such as a package that is missing.
    """
    lines = report.splitlines()
    if not lines:
        raise UserError("`pip check` reported nothing, so it did not run")
    found: dict[str, set[str]] = {}
    for line in lines:
        if line == _SOUND:
            continue
        match = _BROKEN.match(line)
        if match is None:
            raise UserError(f"the packages do not fit together: {line}")
        found.setdefault(canonical(match["bound"]), set()).add(canonical(match["package"]))
    return found


def lifted_bounds(overrides: Path = OVERRIDES) -> set[str]:
    """Return the packages whose declared bounds the lock lifts."""
    lines = overrides.read_text("utf-8").splitlines()
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
    return {canonical(name[0]) for name in names if name}


def problems(broken: dict[str, set[str]], lifted: set[str]) -> list[str]:
    """Return a clause for each bound that is broken and may not be, or lifted without need; none when all is well."""
    clauses = []
    for name in sorted({*broken, *lifted}):
        others = sorted(broken.get(name, set()) - DECLARED_BY)
        if others:
            clauses.append(f"the version of {name} is not one that {' and '.join(others)} take")
        elif name not in lifted:
            clauses.append(f"{' and '.join(sorted(broken[name]))} bound {name}, which is not lifted")
        elif name not in broken:
            clauses.append(f"the bound of {name} is lifted and nothing breaks it")
    return clauses


def main(argv: Sequence[str]) -> int | None:
    if argv:
        raise UserError(
            "container.bounds takes no words; `pip check | python -m container.bounds` has it read the report"
        )
    broken = broken_bounds(sys.stdin.read())
    found = problems(broken, lifted_bounds())
    if found:
        raise UserError(f"{'; '.join(found)}; requirements/overrides.txt and the lock do not agree")
    sys.stdout.write(f"bounds lifted, and no others broken: {', '.join(sorted(broken))}\n")
    return None


if __name__ == "__main__":
    run(main)
