"""What every room shares: errors, command lines, files, provenance. Standard library and tqdm only."""
