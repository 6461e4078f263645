"""What is to be trained: study files, settings, stages, FLOPs."""
