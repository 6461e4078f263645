"""Runs of a small study whose models stand in the places of the paper's: `stand_ins.json` next to them says how.

    {"title": "MINIATURE", "note": "...", "steps": 100, "models": {"mini-m-clm-420": "610m-clm-42k"}, "others": [],
     "stages": {"mini-m-clm": "610m-clm"}, "families": {"SC": ["sst2"]}, "sizes": {"610M": "0.23M"},
     "logs": "pretrained/models"}

Tables, figures and findings are built around the paper's models. With stand-ins they show the small study's runs in
these places, say so in every caption, and print none of the paper's numbers with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from benchmarks.protocol import AVERAGE, datasets_of
from common.reading import inside, read_json
from common.settings import FileSettings, read_settings

STAND_INS = "stand_ins.json"
"""Name of the file, in a run store or next to a runs table."""

RECORDED_AS = "recorded_as"
"""A column that runs may have: the name of the model's folder in the store, where the column `model` has another."""
_FAMILY = "family"
"""A column that the runs of stand-ins have: the datasets over which the row's task is averaged, joined by commas."""


@dataclass(frozen=True, kw_only=True)
class StandIns(FileSettings):
    """How a small study's names map onto the paper's."""

    title: str
    """Put before every heading, such as `MINIATURE`."""
    note: str
    """What is shown instead of the paper's models; part of every caption."""
    steps: int
    """Steps of the paper for one step of a log."""
    models: dict[str, str]
    """By name of a model of the small study, the paper's model in whose place it stands."""
    others: tuple[str, ...]
    """Models of the small study that stand for none of the paper's and keep their names."""
    stages: dict[str, str]
    """By name of a stage in the small study's logs, the paper's stage in whose place it stands."""
    families: dict[str, tuple[str, ...]]
    """By task, the datasets over which it is averaged."""
    sizes: dict[str, str] = field(default_factory=dict)
    """What a figure writes in place of the paper's sizes, such as `0.23M` for `610M`."""
    floors: dict[str, float] = field(default_factory=dict)
    """By dataset, where it is known, the score in percent of a model that reads no input."""
    logs: Path | None = None
    """Folder of the training logs."""

    def in_place(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the runs under the names of the paper's models.

        Two columns are added: one for `averaged_datasets`, and one with the own names, by which
        `analysis.store.instances.read_instances` finds scores by instance.
        """
        own_names = list(runs["model"])
        names = [self.models.get(name, name) for name in own_names]
        families = [",".join(self.families.get(task, ())) for task in runs["task"]]
        columns = {_FAMILY: families, RECORDED_AS: own_names, "model": names}
        return runs.assign(**columns)


def averaged_datasets(
    runs: pd.DataFrame | None, task: str, dataset: str = AVERAGE
) -> tuple[str, ...]:
    """Return the datasets that a score is a mean over.

    For a dataset that is itself, for `average` the paper's datasets of the task, or those that stand-ins name.
    """
    if dataset != AVERAGE:
        return (dataset,)
    if runs is None or _FAMILY not in runs:
        return datasets_of(task)
    # All rows of a task have the same datasets.
    families = runs[_FAMILY].to_numpy()[(runs["task"] == task).to_numpy()]
    if not len(families):
        return datasets_of(task)
    # A task without datasets is an empty text, which `split` makes one empty name of.
    names = str(families[0]).split(",")
    return tuple(filter(None, names))


def read_stand_ins(source: Path) -> StandIns | None:
    """Return the stand-ins of a run store or runs table; None when there are none.

    Raises:
        UserError: the file is damaged.
    """
    path = (source if source.is_dir() else source.parent) / STAND_INS
    if not path.is_file():
        return None
    remedy = "make it again or remove it"
    content = read_json(path, remedy)
    # The folder of logs is given relative to the file, and must not lead out of the file's folder.
    if isinstance(content, dict) and "logs" in content:
        logs = content["logs"]
        content["logs"] = inside(path.parent, str(logs)) if logs else None
    return read_settings(StandIns, content, str(path), remedy=remedy)
