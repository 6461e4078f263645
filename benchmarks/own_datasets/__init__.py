"""Datasets of one's own: the file that defines them, its forms, and the definitions that come with the package."""
