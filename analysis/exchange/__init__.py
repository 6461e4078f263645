"""Runs and scores in the formats that the field exchanges, and back (docs/exchange.md)."""
