"""The commands of `python -m benchmarks`."""

from pathlib import Path

__all__ = ["DATA"]

DATA = Path("data")
"""Folder of the datasets where none is named."""
