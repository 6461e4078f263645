"""From runs to verdicts: selection, intervals, tables, findings, audit. No torch, transformers or Composer here."""
