"""The commands of every room, a module each."""
