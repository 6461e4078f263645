"""The paper's tables, published and recomputed, and the audit of one against the other."""
