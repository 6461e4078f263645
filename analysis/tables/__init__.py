"""The paper's tables, published and recomputed, and the audit of one against the other."""

TABLE_FORMATS = ("text", "markdown", "latex", "csv")
"""How the paper's tables are printed."""
