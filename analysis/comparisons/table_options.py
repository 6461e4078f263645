"""How a table of scores is read, as options of `compare` and in Python; imports no NumPy, so that help is quick."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY, shared_options
from common.errors import UserError, nearest

SPREAD_KINDS = ("sd", "se", "ci95", "ci95-t")
"""What stands beside a mean: standard deviation, standard error, half an interval of 1.96 errors or of Student's t."""

_TITLES = """\
model model_name method system
dataset dataset_name benchmark task_name task
task
metric metric_name
seed run random_seed random_state trial
score test_score value main_score accuracy acc f1
lr rate learning_rate
validation_score val_score
mean
sd std stdev
se sem stderr
ci95
ci95_t
n n_seeds n_runs seeds runs count n_instances
lower_is_better
higher_is_better
ignore"""
"""A line for each role: the titles of its column, the first of which is also the role's name."""
ROLES = {line.split()[0]: line.split() for line in _TITLES.splitlines()}
"""For each role (what a column is for) the titles that it may have (docs/compare.md); the first that a header has
counts."""


@shared_options("how a table of scores is read")
@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table of scores is read."""

    columns: Annotated[
        tuple[str, ...], MANY, Parameter(metavar="ROLE=TITLE", show_default=False)
    ] = ()
    """what its columns are: score=eval/accuracy,dataset=task_name"""
    spread: Annotated[
        str,
        Parameter(choices=("", *SPREAD_KINDS), show_choices=False, show_default=False),
    ] = ""
    """what the second number of "91.2 ± 0.4" is: sd, se, ci95 (1.96 errors) or ci95-t (Student's)"""
    lower_is_better: Annotated[bool | None, Parameter(show_default=False)] = None
    """the better score is the lower one, as of a loss"""

    def __post_init__(self) -> None:
        if self.spread not in ("", *SPREAD_KINDS):
            raise UserError(f"spread {self.spread!r}: give {', '.join(SPREAD_KINDS)}")
        _ = self.titles  # refuses unknown roles

    @property
    def titles(self) -> list[tuple[str, str]]:
        """The roles that are named, each with the title of its column or a shell pattern, in the order given.

        Raises:
            UserError: an unknown role, or one without a title.
        """
        titles = []
        for pairs in self.columns:
            # Only a comma that `role=` follows is a separator, since a title may have commas: in
            # "score=acc,none,seed=run" the title of the score is acc,none (lm-evaluation-harness).
            for pair in re.split(r",(?=[\w-]+=)", pairs):
                name, _, title = pair.partition("=")
                role = name.strip().replace("-", "_")
                if role not in ROLES or not title.strip():
                    known = ", ".join(ROLES)
                    raise UserError(
                        f"--columns {pair!r:.60}: give ROLE=TITLE; the roles are {known}{nearest(role, ROLES)}"
                    )

                titles.append((role, title.strip()))

        return titles
