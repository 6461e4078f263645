"""From a run store to a runs table: scan, read, check, remember."""
