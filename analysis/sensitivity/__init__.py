"""What it would take to overturn a verdict: other pretraining seeds, correlated seeds, other analyses."""
