"""What is to be measured: a model, datasets, learning rates, seeds, and how. Light: no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from benchmarks.protocol import (
    DATASETS,
    FINE_TUNING,
    LEARNING_RATES,
    SEEDS,
    TASKS,
    Dataset,
    FineTuning,
    HeadName,
    datasets_of,
)
from common.embedding import COMPUTED, PAPER_READING, Embedding, made_embedding
from common.errors import UserError, nearest
from common.model_files import resolve

if TYPE_CHECKING:
    from benchmarks.sweep.run_store import RunStore

Keep = Literal["none", "best"]
"""Which runs' weights are kept."""

BM25 = "bm25"
"""In place of a model: the ranking by words."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Which model is measured, and how its runs are computed: what the options of the command line are called, too."""

    model: str
    """model folder, or hub id OWNER/NAME; bm25: the ranking by words, of your own retrieval sets"""
    revision: str | None = None
    """branch, tag or commit of a hub id"""
    pooling: str | None = None
    """mean, first, last or late (default: mean; for own retrieval sets the model's)"""
    prompts: Annotated[tuple[str, str] | None, Parameter(metavar="QUERY DOC")] = None
    """before own queries and documents (default: what the model's folder says)"""
    head: HeadName = "paper"
    """the class's own head (paper), or the same on all (ours)"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    precision: str = "auto"
    """bf16 (the paper's; default on a GPU), mixed, or fp32 (default on a CPU)"""
    positions: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    """most token positions of a forward pass (default: 16384 on a GPU, 2048 on a CPU)"""
    exact_micro_batches: bool = False
    """one micro-batch of 4 at a time, as the paper's code (slower)"""
    workers: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    """parallel runs, spread over the GPUs (default: 1; on a CPU, as many as fit)"""
    trust_remote_code: bool = False
    """run the code that comes with the model (read it first)"""
    keep: Keep = "none"
    """best: keep each dataset's best encoder, in encoders/"""


@dataclass(frozen=True, kw_only=True)
class RunRequest(Computation):
    """What `run` and `validate` are to do."""

    name: str
    """The model's name in the store."""
    datasets: tuple[str, ...]
    """Dataset names."""
    known: Mapping[str, Dataset] = field(default_factory=lambda: DATASETS, repr=False)
    """The datasets by name: the paper's, and those of one's own."""
    lrs: tuple[float, ...]
    """Peak learning rates."""
    seeds: tuple[int, ...]
    """Seeds."""
    data: Path
    """Folder of the local datasets."""
    store: Path
    """The run store."""
    fine_tuning: FineTuning
    """Hyper-parameters."""
    retry_failed: bool = False
    """Whether runs that failed are tried again."""

    @cached_property
    def runs(self) -> RunStore:
        """The store with its runs."""
        # Imported here: options of other commands do not need the store's readers.
        from benchmarks.sweep.run_store import RunStore

        return RunStore(self.store, self.known)

    @cached_property
    def _as_made(self) -> Embedding:
        """How the model's maker means texts to be read."""
        # Cached, so that the model's folder is looked for and read once for all datasets.
        return made_embedding(
            resolve(self.model, revision=self.revision, code=self.trust_remote_code)
        )

    def reading(self, name: str) -> Embedding:
        """Return how texts of a dataset become vectors: pooling, prompts, longest text.

        Retrieval sets of one's own are read as the model's maker means it, where options say nothing else. All other
        datasets are read in the paper's way, with the pooling of the options. A trained model is scored as it was
        trained, so that the dataset that it is trained on decides; without training, the dataset itself does.

        Raises:
            UserError: the model is not there, or its maker's pooling is not computed here.
        """
        longest = self.fine_tuning.max_length
        deciding = self.known[name]
        if self.fine_tuning.steps != 0:
            deciding = self.known[deciding.trained_on]
        if not deciding.is_own_retrieval:
            return replace(
                PAPER_READING, pooling=self.pooling or "mean", longest=longest
            )

        made = self._as_made
        pooling = self.pooling or made.pooling
        if self.pooling is None and pooling not in COMPUTED:
            raise UserError(
                f"{self.model} is pooled by {pooling}, which is not computed here; give --pooling "
                "mean, first or last"
            )

        # --max-length is at its default: the model's own length counts, where the model's folder says one.
        if longest == FINE_TUNING.max_length:
            longest = made.longest or longest
        # Without --prompts, those of the model's maker.
        query, document = self.prompts or (made.query, made.document)

        # Where the vector is the last token's although the maker did not mean it to be, texts have to end in
        # one token: the end of text (`Embedding.ends`).
        # The maker's pooling may go on behind the word: `last without the prompt`.
        is_made_for_last = made.pooling.startswith("last")
        return Embedding(
            pooling=pooling,
            query=query,
            document=document,
            ends=pooling == "last" and not is_made_for_last,
            longest=longest,
            lower=made.lower,
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the datasets that have to be there, each once: those trained on, and those evaluated."""
        names: list[str] = []
        for name in self.datasets:
            names += (self.known[name].trained_on, name)
        return tuple(dict.fromkeys(names))


def model_name(model: str, name: str | None) -> str:
    """Return the model's name in the store: as given, or the last part of its path or id."""
    # Resolved, because the paths `.` and `..` themselves end in no name.
    chosen = name or Path(model).expanduser().resolve().name
    if not _NAME.fullmatch(chosen):
        raise UserError(
            f"{chosen!r} cannot be a model's name in the store; --name may contain letters, digits, dots, dashes "
            "and underscores"
        )
    return chosen


def dataset_names(
    words: Sequence[str], known: Mapping[str, Dataset] = DATASETS
) -> tuple[str, ...]:
    """Return names of datasets, each once; all known datasets if no word is given.

    Args:
        words: names of datasets, and of tasks, which stand for the paper's three datasets of the task.
        known: the datasets by name.

    Raises:
        UserError: a word is neither.
    """
    names: list[str] = []
    for word in words or known:
        if word in TASKS:
            names += datasets_of(word)
        elif word in known:
            names.append(word)
        else:
            choices = [*known, *TASKS]
            raise UserError(
                f"unknown dataset {word!r}; use one of {', '.join(choices)}, or define your own with "
                f"--datasets FILE{nearest(word, choices)}"
            )

    return tuple(dict.fromkeys(names))


def learning_rates(rates: Sequence[float]) -> tuple[float, ...]:
    """Return learning rates, each once; the paper's six for none."""
    for rate in rates:
        if not (math.isfinite(rate) and 1e-9 <= rate < 1):
            raise UserError(
                f"{rate:g} is not a learning rate; it must be between 1e-9 and 1"
            )
    return tuple(dict.fromkeys(rates)) or LEARNING_RATES


def seeds_of(seeds: Sequence[int]) -> tuple[int, ...]:
    """Return seeds, each once; the paper's five for none."""
    for seed in seeds:
        if not 0 <= seed < 2**31:
            raise UserError(
                f"{seed} is not a seed; seeds are whole numbers from 0 to {2**31 - 1}"
            )
    return tuple(dict.fromkeys(seeds)) or SEEDS
