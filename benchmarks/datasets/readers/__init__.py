"""How original files become the local form: a module for each task."""
