"""Models whose blocks torch.compile takes one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn


class CompiledBlocks:
    """A model that compiles the parts that it names; equal parts share one graph."""

    @property
    def compiled_parts(self) -> Iterable[nn.Module]:
        """The modules to compile."""
        raise NotImplementedError

    def compile_blocks(self, **options: Any) -> None:
        """Compile each part with torch.compile and its options.

        The number of tokens becomes a variable of the graph with the second batch, and only it: torch's own choice
        (`dynamic=None`), where `dynamic=True` would leave the model's width open as well, and fail on it.
        """
        for part in self.compiled_parts:
            part.compile(**options)

    def uncompile_blocks(self) -> None:
        """Undo `compile_blocks`, as when compiling failed."""
        for part in self.compiled_parts:
            part._compiled_call_impl = None

    @property
    def blocks_compiled(self) -> bool:
        """Whether `compile_blocks` is in force; the loss that `linear_cross_entropy` computes is then also compiled."""
        return any(part._compiled_call_impl is not None for part in self.compiled_parts)
