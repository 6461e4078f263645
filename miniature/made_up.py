"""A miniature from nothing: text from a small grammar and made-up tasks over its words, so that it always works."""

from __future__ import annotations

from common.files import write_text
from miniature.folders import Folders, dataset_job
from miniature.forms import FAMILIES, Form
from miniature.grammar import jsonl
from workflow.jobs import Job

__all__ = ["MADE_UP"]

_DOCUMENT_TOKENS = 150


class MadeUp:
    """Made-up text and tasks."""

    folder = "made-up"
    about = "made-up text from a small grammar and made-up tasks, for no DATA was given"
    needs_network = False
    kind = "made-up text and tasks"
    sampled = ()
    max_vocab = 512
    """Its few words allow no more. The networks' further rows stay unused."""

    def text(self, form: Form, folders: Folders) -> list[str]:
        """Write the text, and return its file."""
        path = folders.raw / "text.jsonl"
        if not path.is_file():
            write_text(path, jsonl(form.tokens // _DOCUMENT_TOKENS))
        return [str(path.relative_to(folders.root))]

    def datasets(self, form: Form, folders: Folders) -> list[Job]:
        """Return the job that writes the tasks."""
        commands = []
        for task, name in {**FAMILIES, "pairs": "msmarco"}.items():
            train, rest = map(str, form.examples["IR" if task == "pairs" else task])
            sizes = ("--train", train, "--evaluation", rest)
            commands.append(("benchmarks", "synthetic", name, *sizes, "--out", folders.data.name))
        return [dataset_job("datasets", commands, (*FAMILIES.values(), "msmarco"), folders)]


MADE_UP = MadeUp()
