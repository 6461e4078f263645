"""The commands of `python -m analysis`."""
