"""Verdicts for people and programs: text, Markdown, JSON, CSV."""
