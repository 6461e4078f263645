"""A miniature from nothing: text from a small grammar and made-up tasks over its words, so that it always works."""

from __future__ import annotations

from common.files import write_text
from miniature.grammar import jsonl
from miniature.job import Folders, Job
from miniature.recipe import FAMILIES, Form

__all__ = ["MADE_UP"]

_DOCUMENT_TOKENS = 150


class MadeUp:
    """Made-up text and tasks."""

    folder = "made-up"
    about = "made-up text from a small grammar and made-up tasks, for no DATA was given"
    needs_network = False
    kind = "made-up text and tasks"
    sampled = ()
    most_ids = 512
    """Its few words give no more. The networks' further rows stay unused."""

    def text(self, form: Form, folders: Folders) -> list[str]:
        """Write the text, and return its file."""
        path = folders.raw / "text.jsonl"
        if not path.is_file():
            write_text(path, jsonl(form.tokens // _DOCUMENT_TOKENS))
        return [str(path)]

    def datasets(self, form: Form, folders: Folders) -> list[Job]:
        """Return the jobs that write the tasks."""
        found = []
        for task, name in {**FAMILIES, "pairs": "msmarco"}.items():
            train, rest = map(str, form.examples["IR" if task == "pairs" else task])
            words = (name, "--train", train, "--evaluation", rest, "--out", str(folders.data))
            found.append(Job(name=f"dataset {name}", command=("benchmarks", "synthetic", *words)))
        return found


MADE_UP = MadeUp()
