"""Datasets: fetched or imported, in one local form, listed and verified."""
