"""Objects of one kind by name: an interval, a metric, a figure; an unknown name is refused with the nearest one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from common.errors import UserError, nearest

__all__ = ["Named", "Registry", "UnknownNameError"]


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """What users call it."""


T = TypeVar("T", bound=Named)


class UnknownNameError(UserError, KeyError):
    """A name that is not in a registry; the sentence names the nearest one and lists all."""

    def __str__(self) -> str:
        return str(self.args[0])


class Registry(Mapping[str, T]):
    """The objects of one kind, in the order in which they were registered."""

    def __init__(self, kind: str, items: Iterable[T] = ()) -> None:
        """Start with `items`.

        Args:
            kind: what one object is, in the words of an error message: `interval`, `selection rule`.
            items: the first objects.
        """
        self.kind = kind
        self._items: dict[str, T] = {}
        for item in items:
            self.register(item)

    def register(self, item: T) -> T:
        """Add an object and return it, so that this can decorate or wrap a definition.

        Raises:
            ValueError: the name is taken.
        """
        if item.name in self._items:
            raise ValueError(f"there is already a {self.kind} called {item.name!r}")
        self._items[item.name] = item
        return item

    def unregister(self, name: str) -> None:
        """Remove an object, as a test does with one that it made up."""
        del self._items[name]

    def __getitem__(self, name: str) -> T:
        """Return the object of that name.

        Raises:
            UnknownNameError: there is none; a `UserError` and a `KeyError`.
        """
        try:
            return self._items[name]
        except (KeyError, TypeError):
            known = ", ".join(self._items)
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}{nearest(str(name), self._items)}; one of {known}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
