"""The grades of a claim, in the order in which they are tried: the first that fits is the claim's. docs/claims.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.registry import Registry

__all__ = [
    "ALPHA", "CONTRADICTED", "GRADES", "SUPPORTED", "UNDECIDABLE", "UNDECIDED", "Grade", "Weighed", "grade_of",
]  # fmt: skip

ALPHA = 0.05
"""Level of every test; families are held to it by Holm's adjustment."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """What the evidence says about a statement, in the numbers that a grade follows from."""

    p_for: float
    """p of the whole statement."""
    p_for_adjusted: float
    """The same after Holm over the family."""
    p_against: float
    p_against_adjusted: float
    hold: int
    """Parts that hold at least (simultaneous 95 %)."""
    fail: int
    """Parts that fail at least (simultaneous 95 %)."""
    outside: bool
    """Whether the interval of the comparison that speaks most against it is wholly outside its claimed region."""
    known: bool
    """Whether every comparison could be computed."""


@dataclass(frozen=True, kw_only=True)
class Grade:
    """What a claim is worth."""

    name: str
    short: str
    """One or two words for narrow columns."""
    symbol: str
    """One character for grids."""
    meaning: str
    """When it is given."""
    counted: tuple[str, str]
    """What one finding of this grade does, and what several do."""
    fits: Callable[[Weighed], bool]
    sided: int = 0
    """1 when it speaks for the claim, -1 when against, 0 when neither."""


GRADES: Registry[Grade] = Registry(
    "grade",
    (
        Grade(
            name="supported", short="supported", symbol="+", sided=1,
            meaning="the whole statement holds after Holm's adjustment over its family",
            counted=("holds as stated", "hold as stated"),
            fits=lambda found: found.p_for_adjusted <= ALPHA,
        ),
        Grade(
            name="supported before adjustment", short="supported unadj.", symbol="p", sided=1,
            meaning="the whole statement holds on its own but not after the adjustment over its family",
            counted=("holds only without correction for multiple tests",
                     "hold only without correction for multiple tests"),
            fits=lambda found: found.p_for <= ALPHA,
        ),
        Grade(
            name="mixed", short="mixed", symbol="m",
            meaning="at least one part holds and at least one fails",
            counted=("is mixed", "are mixed"),
            fits=lambda found: found.hold > 0 and found.fail > 0,
        ),
        Grade(
            name="contradicted", short="contradicted", symbol="x", sided=-1,
            meaning="the statement fails after Holm's adjustment over its family, and no part is shown to hold",
            counted=("is contradicted", "are contradicted"),
            fits=lambda found: found.p_against_adjusted <= ALPHA,
        ),
        Grade(
            name="contradicted before adjustment", short="contradicted unadj.", symbol="c", sided=-1,
            meaning="the statement fails on its own, or the interval of a comparison that it needs is wholly outside "
            "the claimed region, and no part is shown to hold",
            counted=("is contradicted only without correction", "are contradicted only without correction"),
            fits=lambda found: found.p_against <= ALPHA or (found.outside and not found.hold),
        ),
        Grade(
            name="partly supported", short="partly", symbol="/",
            meaning="some parts hold and none is shown to fail",
            counted=("holds in part", "hold in part"),
            fits=lambda found: found.hold > 0,
        ),
        Grade(
            name="undecided", short="undecided", symbol="o",
            meaning="no part is shown to hold or to fail, although every comparison could be computed",
            counted=("stays open", "stay open"),
            fits=lambda found: found.known,
        ),
        Grade(
            name="not decidable from this source", short="not decidable", symbol=".",
            meaning="no part is shown to hold or to fail, and some comparisons could not be computed",
            counted=("cannot be decided without individual runs",) * 2,
            fits=lambda found: True,
        ),
    ),
)  # fmt: skip
"""The grades; the first that fits is given."""

SUPPORTED = GRADES["supported"]
CONTRADICTED = GRADES["contradicted"]
UNDECIDED = GRADES["undecided"]
UNDECIDABLE = GRADES["not decidable from this source"]


def grade_of(found: Weighed) -> Grade:
    """Return the first of `GRADES` that fits."""
    return next(grade for grade in GRADES.values() if grade.fits(found))
