"""Plans of training: study files, settings, stages, FLOPs."""
