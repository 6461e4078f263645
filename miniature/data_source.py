"""The sources of a miniature's text and tasks, as `DATA` names them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from common.errors import UserError
from miniature.folders import Folders
from miniature.forms import Form
from miniature.hub import HUB
from miniature.local import LocalFiles
from miniature.made_up import MADE_UP
from workflow.jobs import Job

__all__ = ["DataSource", "get_data_source"]


class DataSource(Protocol):
    """A source of text and tasks."""

    @property
    def folder(self) -> str:
        """What the miniature's folder is named after."""

    @property
    def about(self) -> str:
        """The source in words."""

    @property
    def kind(self) -> str:
        """The source in the words of a caption."""

    @property
    def sampled(self) -> tuple[str, ...]:
        """Lines of the page about how it was sampled."""

    @property
    def max_vocab(self) -> int | None:
        """Tokens that a tokenizer can learn from its text at most; None for more than any form has."""

    @property
    def needs_network(self) -> bool:
        """Whether its jobs need network."""

    def text(self, form: Form, folders: Folders) -> list[str]:
        """Return the sources of the pretraining text, as `python -m pretraining shards` takes them.

        Raises:
            UserError: a file is missing.
        """

    def datasets(self, form: Form, folders: Folders) -> list[Job]:
        """Return the jobs that make the datasets.

        Raises:
            UserError: a file is missing.
        """


def get_data_source(data: str | None) -> DataSource:
    """Return the data source that DATA names: a folder, `hub`, or nothing for made-up text and tasks.

    Raises:
        UserError: there is no such folder.
    """
    if not data:
        return MADE_UP
    if data == "hub":
        return HUB
    if not Path(data).is_dir():
        raise UserError(f"--data {data}: no such folder; give one, or `hub` on a machine with network")
    return LocalFiles(Path(data).resolve())
