"""Many fine-tunings: jobs, the processes that do them, and the state of each run."""
