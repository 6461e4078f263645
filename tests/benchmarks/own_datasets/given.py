"""A definition that nothing is wrong with."""

GOOD = '[mine]\nkind = "text"\nlabels = ["a", "b"]\n'
