"""What was measured and how: 12 datasets, 4 task families, the fine-tuning protocol, the run store.

`protocol` and `runs` are light (no torch) and may be imported by `analysis`; the other modules need the full
environment.
"""
