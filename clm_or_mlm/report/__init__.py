"""The report: one self-contained page with figures, tables, findings, audit, coverage and where it all comes from."""
