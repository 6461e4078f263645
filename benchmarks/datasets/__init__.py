"""Datasets: fetched or imported, in one local form, listed and verified.

A new dataset: a module in `readers/` and an entry in `benchmarks/protocol.py` (docs/add-a-dataset.md).
"""
