"""The bounds of Composer and streaming that requirements/overrides.txt lifts are exactly those that are broken."""

import re

import pytest
from packaging.utils import canonicalize_name

from common.provenance import ROOT
from tests.commands import python

DECLARED_BY = {"mosaicml", "mosaicml-streaming"}
"""Whose bounds may be lifted (docs/maintainers.md)."""

_BROKEN = re.compile(r"(?P<package>\S+) \S+ has requirement (?P<bound>[\w.-]+).*, but you have \S+ \S+$")


def broken_bounds(report: str) -> dict[str, set[str]]:
    """Return what `pip check` reported: for each package whose bound is broken, the packages that declare it."""
    found: dict[str, set[str]] = {}
    for line in report.splitlines():
        match = _BROKEN.match(line)
        assert match is not None, f"the packages do not fit together: {line}"
        found.setdefault(canonicalize_name(match["bound"]), set()).add(canonicalize_name(match["package"]))
    return found


def lifted_bounds() -> set[str]:
    """Return the packages whose declared bounds the lock lifts."""
    lines = (ROOT / "requirements" / "overrides.txt").read_text("utf-8").splitlines()
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
    return {canonicalize_name(name[0]) for name in names if name}


@pytest.mark.slow
def test_the_bounds_lifted_are_exactly_those_that_this_environment_breaks() -> None:
    broken = broken_bounds(python("-m", "pip", "check").stdout)
    assert set(broken) == lifted_bounds()
    assert set().union(*broken.values()) <= DECLARED_BY


def test_a_new_conflict_and_a_missing_package_are_distinguished_from_known_ones() -> None:
    known = "mosaicml 0.32.1 has requirement Pillow_X[a]<2,>=1, but you have pillow-x 3.0.\n"
    assert broken_bounds(known) == {"pillow-x": {"mosaicml"}}
    with pytest.raises(AssertionError, match=r"do not fit together: torch 2\.15\.0 requires jinja2"):
        broken_bounds(f"{known}torch 2.15.0 requires jinja2, which is not installed.\n")
