"""Datasets: fetched or imported, in one local form, listed and verified.

One of your own is a table of a TOML file (docs/add-a-dataset.md).
"""
