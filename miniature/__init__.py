"""The whole study at toy scale: the same commands as the real one, only the plan is small.

A room of its own, above all others: nothing imports it, and it imports and calls the rooms' commands. It does not
go through `workflow/`, whose jobs are processes: here a job lasts seconds, less than starting one takes.
"""
