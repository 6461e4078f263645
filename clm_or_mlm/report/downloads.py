"""Files inside the page: each as a link that holds its content, so that saving it needs no network and no script."""

from __future__ import annotations

import base64
from dataclasses import dataclass

__all__ = ["Download"]

_MEDIA = {
    "csv": "text/csv;charset=utf-8", "md": "text/markdown;charset=utf-8", "svg": "image/svg+xml",
    "tex": "application/x-tex;charset=utf-8",
}  # fmt: skip


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
        ending = self.name.rsplit(".", 1)[-1]
        content = self.content.encode() if isinstance(self.content, str) else self.content
        return f"data:{_MEDIA[ending]};base64,{base64.b64encode(content).decode('ascii')}"
