"""Lifted bounds: exactly those that the environment breaks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from common.errors import UserError
from container.bounds import broken_bounds, lifted_bounds, main, problems

KNOWN = """\
mosaicml 0.32.1 has requirement numpy<2.3.0,>=1.21.5, but you have numpy 2.4.6.
mosaicml 0.32.1 has requirement torch<2.7.1,>=2.6.0, but you have torch 2.15.0.
mosaicml-streaming 0.13.0 has requirement numpy<2.2.0,>=1.21.5, but you have numpy 2.4.6.
"""
LIFTED = {"numpy", "torch"}


@pytest.fixture(scope="module")
def report() -> str:
    """What pip says of the environment of these tests."""
    command = [sys.executable, "-m", "pip", "check"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def judged(report: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "container.bounds"]
    return subprocess.run(command, input=report, capture_output=True, text=True, check=False)


def test_the_bounds_lifted_are_exactly_those_that_this_environment_breaks(report: str) -> None:
    assert set(broken_bounds(report)) == lifted_bounds()
    done = judged(report)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith(": " + ", ".join(sorted(lifted_bounds())))


def test_known_ones_are_no_problem() -> None:
    broken = broken_bounds(KNOWN)
    assert broken == {"numpy": {"mosaicml", "mosaicml-streaming"}, "torch": {"mosaicml"}}
    assert problems(broken, LIFTED) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "mosaicml 0.32.1 has requirement Pillow_X[a]<2, but you have pillow-x 3.0.",
            "mosaicml bound pillow-x, which is not lifted",
        ),
        (
            "scipy 1.0 has requirement numpy<2.1, but you have numpy 2.4.6.",
            "the version of numpy is not one that scipy take",
        ),
    ],
)
def test_a_new_conflict_is_a_problem(line: str, said: str) -> None:
    assert problems(broken_bounds(f"{KNOWN}{line}\n"), LIFTED) == [said]


def test_a_bound_that_nothing_breaks_is_not_lifted() -> None:
    assert problems(broken_bounds(KNOWN), LIFTED | {"pillow"}) == [
        "the bound of pillow is lifted and nothing breaks it"
    ]
    assert problems(broken_bounds("No broken requirements found.\n"), set()) == []


def test_a_package_that_is_missing_and_a_check_that_did_not_run_are_reported() -> None:
    with pytest.raises(UserError, match=r"do not fit together: torch 2\.15\.0 requires jinja2"):
        broken_bounds(f"{KNOWN}torch 2.15.0 requires jinja2, which is not installed.\n")
    with pytest.raises(UserError, match="did not run"):
        broken_bounds("")


def test_a_conflict_ends_with_a_sentence() -> None:
    done = judged(f"{KNOWN}scipy 1.0 has requirement numpy<2.1, but you have numpy 2.4.6.\n")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "scipy" in done.stderr
    with pytest.raises(UserError, match="takes no words"):
        main(["report.txt"])
