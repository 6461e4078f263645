"""Figures that the paper does not have: the answer to its question, the findings."""
