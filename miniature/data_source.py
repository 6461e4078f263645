"""The sources of a miniature's text and tasks, as `DATA` names them: nothing, the hubs, or a folder of files."""

from __future__ import annotations

from pathlib import Path

from benchmarks.datasets.schema import MANIFEST
from common.errors import UserError
from common.files import write_text
from miniature.folders import LIMITS, Folders, dataset_job
from miniature.forms import FAMILIES, Form
from miniature.grammar import jsonl
from miniature.local import LocalFiles
from workflow.jobs import KINDS, Job, marker

__all__ = ["HUB", "MADE_UP", "TEXT", "DataSource", "get_data_source"]

TEXT = "hf:HuggingFaceFW/fineweb-edu:sample-10BT"
"""The pretraining text. Documents are read over the network until there are enough; the manifest of the shards has the
commit."""

_SAMPLED = (
    "Samples are rows at even distances. A SQuAD context is the sentence that holds the answer, if it has at most",
    "200 characters, for inputs to be short. Retrieval is trained on MS MARCO's pairs; NQ's corpus is what is judged",
    "for the questions taken.",
)

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


class Hub:
    """Text and tasks from the hubs. Datasets are fetched whole, once for all forms, as for the study itself."""

    folder = "hub"
    about = (
        "the hubs: FineWeb-Edu (sample-10BT); SST-2, UNER (EWT), sentences of SQuAD and NQ, some rows of each"
    )
    needs_network = True
    kind = "samples of FineWeb-Edu and of the paper's datasets"
    sampled = _SAMPLED
    max_vocab = None

    def text(self, form: Form, folders: Folders) -> list[str]:
        """Return the text's place on its hub."""
        return [TEXT]

    def datasets(self, form: Form, folders: Folders) -> list[Job]:
        """Return the jobs that fetch the datasets and take rows of them."""
        fetched, jobs = self.fetched(folders), []
        for name in (*FAMILIES.values(), "msmarco"):
            jobs.append(
                Job(
                    kind=KINDS["data"],
                    name=f"fetch-{name}",
                    commands=(("benchmarks", "fetch", name, "--out", str(fetched)),),
                    makes=(str(fetched / name / MANIFEST),),
                    network=True,
                    **LIMITS,
                )
            )
            words = (name, "--form", form.name, "--data", str(fetched), "--out", folders.data.name)
            needs = (marker("data", f"fetch-{name}"),)
            jobs.append(dataset_job(name, [("miniature", "sample", *words)], [name], folders, needs=needs))
        return jobs

    @staticmethod
    def fetched(folders: Folders) -> Path:
        """Return the folder of the whole datasets."""
        return folders.root.parent / "fetched"


MADE_UP, HUB = MadeUp(), Hub()

DataSource = MadeUp | Hub | LocalFiles
"""A source of text and tasks."""


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
