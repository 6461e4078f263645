"""What decides whether runs compare: the fields of `run.json` that say what a run was made from. Standard library only.

`benchmarks run` writes the description and compares all of it with that of the runs of its store. `ingest` leaves out
runs of another model under one name, and says, as `compare` does, what differs between models. The audit names what
runs of a table do not share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Decides = Literal["of the model", "alike", "by choice", "within a model", "may matter"]
"""Which runs must share a field. `of the model`: all runs of a model. `alike`: all runs on a dataset, whatever the
model. `by choice`: the same, but a difference is named as a choice. `within a model`: all runs of a model on a dataset.
`may matter`: none, though the field may change a score."""


@dataclass(frozen=True)
class RunField:
    """Something that a run was made with."""

    name: str
    title: str
    """Name in a sentence."""
    path: str
    """Where a run's record says it, sections separated by points."""
    decides: Decides
    of_dataset: bool = False
    """Whether it differs between datasets."""
    is_audited: bool = False
    """Whether the audit compares it."""

    @cached_property
    def _sections(self) -> tuple[str, ...]:
        return tuple(self.path.split("."))

    def of(self, record: Mapping[str, Any]) -> Any:
        """Return what a run's record says of it; None for nothing."""
        value: Any = record
        for section in self._sections:
            value = value.get(section) if isinstance(value, dict) else None
        return value

    def text(self, record: Mapping[str, Any]) -> str:
        """Return what a run's record says of it, as short text; `?` for nothing."""
        value = self.of(record)
        if value is None:
            return "?"
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


RUN_FIELDS = (
    RunField(
        "commit",
        "commit of the code",
        "provenance.commit",
        "may matter",
        is_audited=True,
    ),
    RunField(
        "lock", "lock file", "provenance.lock.sha256", "may matter", is_audited=True
    ),
    RunField("python", "Python", "provenance.python", "may matter", is_audited=True),
    RunField(
        "versions",
        "package versions",
        "provenance.versions",
        "may matter",
        is_audited=True,
    ),
    RunField("protocol", "protocol", "protocol", "alike", is_audited=True),
    RunField(
        "protocol_version",
        "version of the protocol",
        "description.protocol_version",
        "alike",
        is_audited=True,
    ),
    RunField(
        "results_version",
        "version of the scores",
        "description.results_version",
        "alike",
        is_audited=True,
    ),
    RunField("weights", "weights", "description.weights", "of the model"),
    RunField("tokenizer", "tokenizer", "description.tokenizer", "of the model"),
    # Written only for decoders of other classes.
    RunField(
        "direction", "direction of attention", "description.direction", "within a model"
    ),
    RunField(
        "tuning", "fine-tuning settings", "description.tuning", "alike", is_audited=True
    ),
    RunField(
        "epochs",
        "epochs",
        "description.epochs",
        "alike",
        of_dataset=True,
        is_audited=True,
    ),
    RunField("pooling", "pooling", "description.pooling", "by choice", is_audited=True),
    # Written only for retrieval sets of one's own.
    RunField("reading", "prompts and longest text", "description.reading", "by choice"),
    RunField("head", "head", "description.head", "alike", is_audited=True),
    RunField(
        "prompt",
        "prompt",
        "description.prompt",
        "by choice",
        of_dataset=True,
        is_audited=True,
    ),
    RunField(
        "metric",
        "metric",
        "description.metric",
        "alike",
        of_dataset=True,
        is_audited=True,
    ),
    RunField(
        "precision", "precision", "description.precision", "by choice", is_audited=True
    ),
    RunField("device", "hardware", "machine.device", "may matter", is_audited=True),
    RunField(
        "training_data",
        "training data",
        "description.training_data",
        "alike",
        of_dataset=True,
        is_audited=True,
    ),
    RunField(
        "evaluation_data",
        "evaluation data",
        "description.evaluation_data",
        "alike",
        of_dataset=True,
        is_audited=True,
    ),
)
"""All fields, in the order in which the audit names them."""


def fields_that_decide(decides: Decides) -> tuple[str, ...]:
    """Return the names of the fields that these runs must share, in the order of `RUN_FIELDS`."""
    return tuple(field.name for field in RUN_FIELDS if field.decides == decides)
