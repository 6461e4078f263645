"""From runs to knowledge: selection, intervals, tables, findings, audit. No torch, transformers or Composer here."""
