"""Any two models, or many, held against each other."""
