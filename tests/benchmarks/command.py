"""The commands of `clm-or-mlm benchmarks`, called in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.__main__ import main


def command(*names: str) -> Callable[[Sequence[str]], int]:
    """Return a command: words -> exit code."""
    return lambda words: main([*names, *words]) or 0
