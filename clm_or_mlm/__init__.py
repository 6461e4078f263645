"""The room on top: the commands, the report, and everything a source allows in one go."""
