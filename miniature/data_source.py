"""The sources of a miniature's text and tasks, as `DATA` names them: nothing, the hubs, or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets.schema import MANIFEST
from common.errors import UserError
from common.files import write_text
from miniature.forms import FAMILIES, Form
from miniature.grammar import jsonl
from workflow.jobs import KINDS, Command, Job

__all__ = ["DATA", "HUB", "MADE_UP", "TEXT", "DataSource", "Samples", "get_data_source", "job_of"]

DATA = "data"
"""Folder of the datasets, below that of a miniature: jobs work there."""
TEXT = "hf:HuggingFaceFW/fineweb-edu:sample-10BT"
"""The hub's pretraining text. Documents are read over the network until there are enough; the manifest of the shards
has the commit."""

_DATASETS = (*FAMILIES.values(), "msmarco")
_TEXT_FILE = "raw/text.jsonl"
_DOCUMENT_TOKENS = 150


def job_of(
    kind: str,
    name: str,
    commands: Sequence[Command],
    makes: tuple[str, ...],
    needs: Sequence[str] = (),
    **more: Any,
) -> Job:
    """Return a job with no time limit that matters."""
    return Job(
        kind=KINDS[kind], name=name, commands=tuple(commands), makes=makes, needs=tuple(needs), gpu_hours=10.0,
        limit_hours=24.0, **more,
    )  # fmt: skip


class MadeUp:
    """Made-up text and tasks."""

    folder = "made-up"
    about = "made-up text from a small grammar and made-up tasks, for no DATA was given"
    kind = "made-up text and tasks"
    needs_network = False
    samples = False
    max_vocab = 512
    """Its few words allow no more. The networks' further rows stay unused."""

    def text(self, form: Form, root: Path) -> str:
        """Write the text, and return its file."""
        if not (root / _TEXT_FILE).is_file():
            write_text(root / _TEXT_FILE, jsonl(form.tokens // _DOCUMENT_TOKENS))
        return _TEXT_FILE

    def datasets(self, form: Form, root: Path) -> list[Job]:
        """Return the job that writes the tasks."""
        del root
        commands = []
        for task, name in (*FAMILIES.items(), ("IR", "msmarco")):
            train, rest = map(str, form.examples[task])
            words = ("benchmarks", "synthetic", name, "--train", train, "--evaluation", rest, "--out", DATA)
            commands.append(words)
        return [job_of("data", "datasets", commands, tuple(_manifest(DATA, name) for name in _DATASETS))]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Some rows of whole datasets: of those in a folder, or of the hubs', fetched once for all forms."""

    folder: str
    about: str
    kind: str
    place: Path | None = None
    """The whole datasets in the local form, and documents in `text`; None for the hubs."""
    samples = True
    max_vocab = None

    @property
    def needs_network(self) -> bool:
        """Whether the text comes over the network."""
        return self.place is None

    def text(self, form: Form, root: Path) -> str:
        """Return the text's place."""
        del form, root
        return TEXT if self.place is None else str(self.place / "text")

    def whole(self, root: Path) -> Path:
        """Return the folder of the whole datasets."""
        return self.place or root.parent / "fetched"

    def datasets(self, form: Form, root: Path) -> list[Job]:
        """Return the jobs that fetch datasets where they are not in a folder, and take rows of them."""
        jobs, whole = [], str(self.whole(root))
        for name in _DATASETS:
            needs: list[str] = []
            if self.place is None:
                words: Command = ("benchmarks", "fetch", name, "--out", whole)
                jobs.append(job_of("data", f"fetch-{name}", [words], (_manifest(whole, name),), network=True))
                needs = [jobs[-1].marker]
            words = ("miniature", "sample", name, "--form", form.name, "--data", whole, "--out", DATA)
            jobs.append(job_of("data", name, [words], (_manifest(DATA, name),), needs))
        return jobs


def _manifest(folder: str, dataset: str) -> str:
    return f"{folder}/{dataset}/{MANIFEST}"


DataSource = MadeUp | Samples
"""A source of text and tasks."""

_ROWS = "SST-2, UNER (EWT), sentences of SQuAD and NQ, some rows of each"

MADE_UP = MadeUp()
HUB = Samples(
    folder="hub",
    about=f"the hubs: FineWeb-Edu (sample-10BT); {_ROWS}",
    kind="samples of FineWeb-Edu and of the paper's datasets",
)


def get_data_source(data: str | None) -> DataSource:
    """Return the data source that DATA names: a folder, `hub`, or nothing for made-up text and tasks.

    Raises:
        UserError: the folder lacks its `text` or a dataset.
    """
    if not data:
        return MADE_UP
    if data == "hub":
        return HUB
    place = Path(data).resolve()  # jobs work in another folder
    for part in ("text", *_DATASETS):
        if not (place / part).is_dir():
            raise UserError(
                f"--data {data}: there is no folder {part} in it (docs/miniature.md); or give `hub` on a machine with "
                f"network"
            )
    return Samples(
        folder="real",
        about=f"a folder: its text; {_ROWS}",
        kind="samples of real text and tasks",
        place=place,
    )
