"""A figure's files and its words."""
