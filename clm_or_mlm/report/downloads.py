"""Files inside the page: each as a link that holds its content, so that saving it needs no network and no script."""

from __future__ import annotations

import base64
from dataclasses import dataclass

__all__ = ["Download"]

_MEDIA = {"csv": "text/csv", "md": "text/markdown", "tex": "application/x-tex", "zip": "application/zip"}


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file that the page hands out."""

    name: str
    """File name with its ending."""
    label: str
    """What the link says."""
    content: str | bytes

    @property
    def address(self) -> str:
        """The content as a data address."""
        media = _MEDIA[self.name.rsplit(".", 1)[-1]]
        if isinstance(self.content, bytes):
            return f"data:{media};base64,{base64.b64encode(self.content).decode('ascii')}"
        return f"data:{media};charset=utf-8;base64,{base64.b64encode(self.content.encode()).decode('ascii')}"
