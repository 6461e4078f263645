"""From runs to knowledge: selection, intervals, tables, claims, audit. No torch, transformers or Composer here."""
