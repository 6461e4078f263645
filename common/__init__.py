"""What every room shares: errors, command lines, files, settings, tables, provenance."""
