"""Figures that the paper does not have: the findings, a finding by dataset, the coverage of intervals."""
