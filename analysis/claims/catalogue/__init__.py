"""The paper's findings as data. A finding is named in `analysis.claims.titles` and has an entry in its family's module.

Each entry says what has to hold, in contrasts of task averages (in points of percent). The rules by which a
source of scores supports or contradicts an entry are the same for all: docs/claims.md.
"""

from __future__ import annotations

from analysis.claims.catalogue import continued, dynamics, objective, ratio, two_stage
from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.catalogue.two_stage import ANSWERS
from analysis.claims.statements import Finding
from analysis.claims.titles import ANSWER, TITLES

__all__ = ["ANSWERS", "FAMILIES", "FINDINGS", "MARGINS", "SHOWN", "STATEMENTS"]

FAMILIES = {
    ANSWER: "the paper's question",
    "objective": "MLM against CLM at the full budget",
    "ratio": "the masking ratio",
    "dynamics": "early steps and fine-tuning stability",
    "two-stage": "CLM then MLM from scratch",
    "continued": "continued pretraining",
}
"""The families of findings, each with its question; Holm's adjustment is over the findings of one family."""


_ENTRIES = {
    finding.id: finding
    for module in (objective, ratio, dynamics, two_stage, continued)
    for finding in module.FINDINGS
}
assert _ENTRIES.keys() == TITLES.keys(), sorted(_ENTRIES.keys() ^ TITLES.keys())

FINDINGS: dict[str, Finding] = {name: _ENTRIES[name] for name in TITLES}
"""Every finding by id, in the order of the titles."""

STATEMENTS: dict[str, Finding] = {
    finding.id: finding for finding in (*ANSWERS.values(), *FINDINGS.values())
}
"""All that is judged by id: what answers the paper's question, and the findings."""

SHOWN = (ANSWER, *FINDINGS)
"""Those with a row of their own wherever findings are shown: the answer at its split, and every finding."""
