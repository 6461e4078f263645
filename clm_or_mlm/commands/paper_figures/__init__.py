"""`python -m paper_figures`."""

from __future__ import annotations

from clm_or_mlm.rooms import Room

__all__ = ["ROOM"]

ROOM = Room(
    name="paper_figures",
    description="The paper's figures as PDF, PNG and SVG, each with its numbers and its alt text.",
    default="clm_or_mlm.commands.paper_figures.draw:draw",
)
