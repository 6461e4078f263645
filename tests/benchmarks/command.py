"""Commands called in this process."""

from collections.abc import Callable, Sequence

from clm_or_mlm.__main__ import main


def command(*names: str) -> Callable[[Sequence[str]], int]:
    """Return a command: words -> exit code."""
    return lambda words: main([*names, *words]) or 0
