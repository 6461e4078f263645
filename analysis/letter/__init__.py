"""The audit as a letter of one page that a reviewer could send."""
