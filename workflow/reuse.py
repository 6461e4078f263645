"""What is done already is reused only where it was made by the same commands; the folder's workflow.json names them.

Left out of the comparison are what decides no result, such as `--workers`, and what a study may grow by: models,
datasets, learning rates, seeds.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Collection, Iterable
from pathlib import Path

from benchmarks.protocol import DATASETS
from common.errors import UserError
from pretraining.plan.config import TrainingConfig
from workflow.jobs import WORKFLOW, Job, Workflow, load

__all__ = ["refuse_other_settings"]

log = logging.getLogger(__name__)

Words = dict[tuple[str, str], tuple[str, ...]]
"""Words after each option, by what is called (`pretraining train`) and the option."""


def refuse_other_settings(workflow: Workflow, folder: Path, live: Collection[str] = ()) -> None:
    """Refuse a workflow that would reuse what the folder's earlier one made by other commands.

    Args:
        workflow: what is to be done now.
        folder: its folder; nothing is compared where it has no workflow.json.
        live: markers of jobs of an earlier call that are still queued or running.

    Raises:
        UserError: a complete or live job was made with other words; the sentence says which.
    """
    made = {path: job for job in _earlier(folder) for path in job.makes}
    for marker, job in workflow.jobs.items():
        if job.kind.follows or not (marker in live or job.is_complete(folder)):
            continue
        # By what is made, since packed cells are other jobs than single ones.
        makers = {made[path].marker: made[path] for path in job.makes if path in made}
        for before in makers.values():
            if found := _difference(before, job):
                raise UserError(
                    f"{folder}: {job.kind.name} {job.name} was made {found[0]}, and now would be {found[1]}; put the "
                    "setting back, or choose another folder"
                )


def _earlier(folder: Path) -> Iterable[Job]:
    """Return the jobs of the folder's workflow.json."""
    if not (folder / WORKFLOW).is_file():
        return ()
    try:
        return load(folder).jobs.values()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s cannot be read (%s): what is there is not compared", folder / WORKFLOW, error)
        return ()


def _difference(before: Job, now: Job) -> tuple[str, str] | None:
    """Return what was said and what is, of the first option in which two jobs differ."""
    old, new = _words(before), _words(now)
    for place in dict.fromkeys((*old, *new)):
        if old.get(place) != new.get(place):
            return _said(place, old.get(place)), _said(place, new.get(place))
    return None


def _said(place: tuple[str, str], words: tuple[str, ...] | None) -> str:
    what = " ".join(part for part in place if part)
    if words is None:
        return f"without `{what}`"
    return f"with `{textwrap.shorten(' '.join((what, *words)), 200)}`"


def _words(job: Job) -> Words:
    """Return the words of a job's commands that decide what it makes."""
    found: dict[tuple[str, str], list[str]] = {}
    for command in job.commands:
        called, option = " ".join(command[:2]), ""
        for word in command[2:]:
            name, equals, value = word.partition("=") if word.startswith("--") else ("", "=", word)
            option = name or option
            words = found.setdefault((called, option), [])
            words += [value] if equals and _decides(option, value) else []
    return {
        (called, option): tuple(words)
        for (called, option), words in found.items()
        if option not in job.kind.free and (words or option not in _PARTLY)
    }


_PARTLY = ("", "--set")
"""Where some words decide and others do not: words before the first option, and settings of pretraining."""


def _decides(option: str, word: str) -> bool:
    if option == "--set":
        # A training that is resumed may change the others.
        return word.partition("=")[0].strip() in TrainingConfig().science()
    # Made-up datasets are named before the first option; a study may have more of them.
    return bool(option) or word not in DATASETS
