"""Objects of one kind by name: an interval, a metric, a figure; an unknown name is refused with the nearest one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, Protocol, TypeVar

from common.errors import UserError, nearest


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """What users call it."""


_T = TypeVar("_T", bound=Named)


class Registry(dict[str, _T]):
    """The objects of one kind, in the order in which they were registered."""

    def __init__(self, kind: str, items: Iterable[_T] = ()) -> None:
        """Start with `items`; `kind` is what one is, in the words of a message: `interval`, `selection rule`."""
        super().__init__()
        self.kind = kind
        for item in items:
            self.register(item)

    def register(self, item: _T) -> _T:
        """Add an object and return it, so that this can decorate or wrap a definition.

        Raises:
            ValueError: the name is taken.
        """
        if item.name in self:
            raise ValueError(f"there is already a {self.kind} called {item.name!r}")
        self[item.name] = item
        return item

    def __missing__(self, name: str) -> NoReturn:
        raise UserError(
            f"unknown {self.kind} {name!r}; use one of {', '.join(self)}{nearest(name, self)}"
        )
