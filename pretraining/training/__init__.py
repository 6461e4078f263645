"""Training: data loader, objectives, schedule, checkpoints, the Composer adapter."""
