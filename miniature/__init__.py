"""The whole study at toy scale: the same commands as the real one, only the plan is small.

A plan and a page; its jobs are the workflow's. Nothing but the top room imports it, and it imports the rooms below.
"""
