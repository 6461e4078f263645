"""Files inside the page: each as a link that holds its content, so that saving it needs no network and no script."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

__all__ = ["Download"]

_MEDIA = {
    "csv": "text/csv;charset=utf-8", "md": "text/markdown;charset=utf-8",
    "tex": "application/x-tex;charset=utf-8",
}  # fmt: skip


_GZIP = 31
"""zlib's name for a gzip header, in which it writes neither a time nor a name."""
_PACKED = {"svg": "svgz"}
"""Kinds that are packed, by the ending that they have then: outlines of letters shrink to a fifth."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file that the page hands out."""

    name: str
    """File name with its ending."""
    label: str
    """What the link says."""
    content: str | bytes

    @property
    def is_packed(self) -> bool:
        """Whether the address holds it packed with gzip; the page's script unpacks it when it is saved."""
        return self.name.rsplit(".", 1)[-1] in _PACKED

    @property
    def saved_as(self) -> str:
        """Name of the file that the link saves where no script runs."""
        stem, _, ending = self.name.rpartition(".")
        return f"{stem}.{_PACKED.get(ending, ending)}"

    @property
    def address(self) -> str:
        """The content as a data address."""
        ending = self.name.rsplit(".", 1)[-1]
        content = self.content.encode() if isinstance(self.content, str) else self.content
        if self.is_packed:
            return _address("application/gzip", zlib.compress(content, wbits=_GZIP))
        return _address(_MEDIA[ending], content)


def _address(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode('ascii')}"
