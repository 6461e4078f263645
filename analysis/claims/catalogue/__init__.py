"""The paper's findings as data. To add a claim, add an entry to the module of its family.

Each entry says what has to hold, in contrasts of task averages (in points of percent). The rules by which a
source of scores supports or contradicts an entry are the same for all: docs/claims.md.
"""

from __future__ import annotations

import re

from analysis.claims.catalogue import continued, dynamics, objective, ratio, two_stage
from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.statements import Claim

__all__ = ["CLAIMS", "FAMILIES", "MARGINS"]

FAMILIES = {
    "objective": "MLM against CLM at the full budget",
    "ratio": "the masking ratio",
    "dynamics": "early steps and fine-tuning stability",
    "two-stage": "CLM then MLM from scratch",
    "continued": "continued pretraining",
}
"""The questions; Holm's adjustment is over the claims of one."""


def _place(claim: Claim) -> tuple[int, str]:
    match = re.fullmatch(r"F(\d+)([a-z]?)", claim.id)
    assert match is not None, claim.id
    return int(match[1]), match[2]


CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in sorted(
        (*objective.CLAIMS, *ratio.CLAIMS, *dynamics.CLAIMS, *two_stage.CLAIMS, *continued.CLAIMS), key=_place
    )
}
"""Every claim by id, in the order of the findings."""
