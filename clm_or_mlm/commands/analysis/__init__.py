"""`python -m analysis`."""

from __future__ import annotations

from clm_or_mlm.rooms import Room

__all__ = ["ROOM"]

ROOM = Room(
    name="analysis",
    description="From runs, or from the paper's printed cells, to tables, claims, the audit and the report.",
    commands={
        "report": ("clm_or_mlm.commands.analysis.report:report", "one self-contained page of everything"),
        "reproduce": (
            "clm_or_mlm.commands.analysis.reproduce:reproduce",
            "all that a source allows: scores, tables, audit, claims, figures",
        ),
    },
)
