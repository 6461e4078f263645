"""From scores to what they say: contrasts of cells, their estimates and intervals, results."""
