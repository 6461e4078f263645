"""A miniature from the hubs, on a machine with network: a share of FineWeb-Edu, and rows of the fetched datasets."""

from __future__ import annotations

from pathlib import Path

from benchmarks.datasets.schema import MANIFEST
from miniature.folders import LIMITS, Folders, dataset_job
from miniature.forms import FAMILIES, Form
from workflow.jobs import Job, marker
from workflow.kinds import KINDS

__all__ = ["HUB", "TEXT"]

TEXT = "hf:HuggingFaceFW/fineweb-edu:sample-10BT"
"""The pretraining text. Documents are read over the network until there are enough; the manifest of the shards has the
commit."""

_SAMPLED = (
    "Samples are rows at even distances. A SQuAD context is the sentence that holds the answer, if it has at most",
    "200 characters, for inputs to be short. Retrieval is trained on MS MARCO's pairs; NQ's corpus is what is judged",
    "for the questions taken.",
)


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


HUB = Hub()
