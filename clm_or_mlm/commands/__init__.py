"""The functions of all commands: a module a room, or a folder of them; a docstring is a command's help."""
