"""The colours of an answer, one table for figures, terminal and report: of objectives, verdicts and signs.

No two kinds share a colour, so that none is taken for another. All but the objectives are readable as text on white
(4.5:1, WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

OBJECTIVE = {"MLM": "#15508f", "CLM": "#d9523d", "CLM then MLM": "#7c4aa9"}
"""What a model was pretrained on; MLM is blue and CLM red, as in the paper."""

VERDICT = {
    "holds": "#1f7a5c",
    "fails": "#8c1d40",
    "holds in k of n": "#8a6200",
    "open": "#5c5f66",
}
"""What evidence says of a statement (`analysis.claims.verdicts`)."""

SIGN = {"+": "#00707f", "-": "#b0437f"}
"""On which side of zero a difference is shown to be."""
