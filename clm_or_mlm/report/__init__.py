"""The report: one self-contained page with findings, figures, tables, the audit and where it all comes from."""
