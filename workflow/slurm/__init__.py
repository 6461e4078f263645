"""What the workflow says to Slurm and asks of it."""
