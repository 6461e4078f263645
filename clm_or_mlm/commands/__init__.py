"""The functions of all commands: a module a room, or a folder of them (`clm_or_mlm.rooms` lists them)."""
