"""Models whose blocks torch.compile takes one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn


class CompiledBlocks:
    """A model that compiles some of its parts, each by itself, so that equal parts share one compiled graph."""

    @property
    def compiled_parts(self) -> Iterable[nn.Module]:
        """The modules to compile."""
        raise NotImplementedError

    def compile_blocks(self, **options: Any) -> None:
        """Compile each part with torch.compile.

        The number of tokens differs between batches. torch's default (`dynamic=None`) finds that at the second batch
        and makes it, and nothing else, a variable of the graph. With `dynamic=True` the model's width would be a
        variable as well, on which compiling fails.

        Args:
            options: arguments of torch.compile.
        """
        for part in self.compiled_parts:
            part.compile(**options)

    def uncompile_blocks(self) -> None:
        """Undo `compile_blocks`, as when compiling failed."""
        # torch has no public way to undo `Module.compile`; a module calls this attribute if it is set.
        for part in self.compiled_parts:
            part._compiled_call_impl = None

    @property
    def blocks_compiled(self) -> bool:
        """Whether `compile_blocks` is in force; the loss that `linear_cross_entropy` computes is then also compiled."""
        return any(part._compiled_call_impl is not None for part in self.compiled_parts)
