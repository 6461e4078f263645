"""The commands of `python -m analysis`, by what they are about."""
