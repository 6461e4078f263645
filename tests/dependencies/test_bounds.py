"""The bounds of Composer and streaming that requirements/overrides.txt lifts are exactly those that are broken, and
what requirements/excludes.txt leaves out is what streaming asks for and nothing else.
"""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from common.provenance import ROOT
from tests.commands import python
from tests.locks import read_requirements

LOCKS = ROOT / "requirements"
DECLARED_BY = {"mosaicml", "mosaicml-streaming"}
"""Whose bounds may be lifted (docs/maintainers.md)."""

_BROKEN = re.compile(
    r"(?P<package>\S+) \S+ has requirement (?P<bound>[\w.-]+).*, but you have \S+ \S+$"
)
_MISSING = re.compile(
    r"mosaicml-streaming \S+ requires (?P<package>[\w.-]+), which is not installed\.$"
)


def broken_bounds(report: str) -> dict[str, set[str]]:
    """Return what `pip check` reported: for each package whose bound is broken, the packages that declare it."""
    found: dict[str, set[str]] = {}
    for line in report.splitlines():
        missing = _MISSING.match(line)
        if missing is not None and missing["package"] in excluded():
            continue
        match = _BROKEN.match(line)
        assert match is not None, f"the packages do not fit together: {line}"
        found.setdefault(canonicalize_name(match["bound"]), set()).add(
            canonicalize_name(match["package"])
        )
    return found


def _named_in(path: Path) -> set[str]:
    """Return the packages of a file for uv; comments name none."""
    names = (
        re.match(r"[A-Za-z0-9._-]+", line)
        for line in path.read_text("utf-8").splitlines()
    )
    return {canonicalize_name(name[0]) for name in names if name}


def lifted_bounds() -> set[str]:
    """Return the packages whose declared bounds the lock lifts."""
    return _named_in(LOCKS / "overrides.txt")


def excluded() -> set[str]:
    """Return the packages that the lock leaves out although streaming declares them."""
    return _named_in(LOCKS / "excludes.txt")


@pytest.mark.slow
def test_lifted_bounds_are_those_that_this_environment_breaks() -> None:
    broken = broken_bounds(python("-m", "pip", "check").stdout)
    assert set(broken) == lifted_bounds()
    assert set().union(*broken.values()) <= DECLARED_BY


def test_new_conflicts_and_missing_packages_are_told_from_known() -> None:
    known = (
        "mosaicml 0.32.1 has requirement Pillow_X[a]<2,>=1, but you have pillow-x 3.0.\n"
        "mosaicml-streaming 0.13.0 requires oci, which is not installed.\n"
    )
    assert broken_bounds(known) == {"pillow-x": {"mosaicml"}}
    with pytest.raises(
        AssertionError, match=r"do not fit together: torch 2\.15\.0 requires jinja2"
    ):
        broken_bounds(f"{known}torch 2.15.0 requires jinja2, which is not installed.\n")


def test_no_lock_holds_what_is_left_out_of_streaming() -> None:
    declared = {
        canonicalize_name(Requirement(line).name)
        for line in requires("mosaicml-streaming") or []
    }
    assert excluded() and excluded() <= declared
    for lock in LOCKS.glob("*.txt"):
        if lock.name not in ("excludes.txt", "overrides.txt", "oracle-borrowed.txt"):
            pins = read_requirements(lock).keys()
            assert not excluded() & pins and not [
                name for name in pins if name.startswith("azure")
            ], lock
