"""Where a miniature's text and tasks come from, as `DATA` says."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from common.errors import UserError
from miniature.hub import HUB
from miniature.job import Folders, Job
from miniature.local import LocalFiles
from miniature.made_up import MADE_UP
from miniature.recipe import Form

__all__ = ["Origin", "get_origin"]


class Origin(Protocol):
    """A source of text and tasks."""

    @property
    def folder(self) -> str:
        """What the miniature's folder is called after."""

    @property
    def about(self) -> str:
        """The source in words."""

    @property
    def kind(self) -> str:
        """The source in the words of a caption."""

    @property
    def sampled(self) -> tuple[str, ...]:
        """Lines of the page about what was taken of it."""

    @property
    def most_ids(self) -> int | None:
        """Ids that its text gives a tokenizer at most; None for more than any form has."""

    @property
    def needs_network(self) -> bool:
        """Whether making it needs network."""

    def text(self, form: Form, folders: Folders) -> list[str]:
        """Return the sources of the pretraining text, as `python -m pretraining shards` takes them.

        Raises:
            UserError: a file is missing.
        """

    def datasets(self, form: Form, folders: Folders) -> list[Job]:
        """Return the jobs that make the datasets, each called `dataset NAME`, and what these wait for.

        Raises:
            UserError: a file is missing.
        """


def get_origin(data: str | None) -> Origin:
    """Return the origin that DATA names: a folder, `hub`, or nothing for made-up text and tasks.

    Raises:
        UserError: there is no such folder.
    """
    if not data:
        return MADE_UP
    if data == "hub":
        return HUB
    if not Path(data).is_dir():
        raise UserError(f"--data {data}: no such folder; give one, or `hub` on a machine with network")
    return LocalFiles(Path(data))
