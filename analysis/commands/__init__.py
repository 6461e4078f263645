"""Commands that turn runs, or the paper's printed cells, into tables, verdicts and the audit.

Each imports what it computes with when it is called, so that its help needs no NumPy.
"""
