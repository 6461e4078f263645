"""Commands that turn runs, or the paper's printed cells, into tables, verdicts and the audit."""
