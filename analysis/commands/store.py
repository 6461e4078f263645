"""`clm-or-mlm ingest` and `fetch-released`: runs in."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from analysis.store import release
from common.cli import MANY, offered
from common.errors import UserError, nearest
from common.plain_text import counted
from pretraining.paper_models import FIGURE_MODELS, MODELS, TABLES

if TYPE_CHECKING:
    from analysis.store.scan import Problem

logger = logging.getLogger(__name__)

_MOST_LOGGED = 10
"""How many problems of a harmless kind are logged one by one."""


def ingest(
    store: Path,
    /,
    *,
    out: Annotated[Path, Parameter(metavar="FILE")],
    instances: Annotated[Path | None, Parameter(metavar="FOLDER")] = None,
    add_model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    protocol: Literal["paper", "standard"] = "paper",
) -> int:
    """Convert a run store, in the layout of the authors' release, to a runs table (docs/run-store.md).

    Exit code: 0 if all runs found were good; 1 if only the good ones were written; 2 if nothing was written.

    example: clm-or-mlm ingest results/ --out runs.parquet --instances instances/

    Args:
        store: the store or its results folder
        out: the runs table, .parquet or .csv
        instances: also write the per-instance scores to this folder
        add_model: also accept models of this name, even outside the paper's scheme (name or pattern; may be repeated)
        protocol: metrics: the paper's, or the field's (standard)
    """
    from analysis.store.ingest import RefusedStoreError
    from analysis.store.ingest import ingest as read_store
    from analysis.store.runs_table import log_doubts
    from analysis.store.scan import summary

    try:
        read = read_store(
            store, out, instances=instances, add_models=add_model, protocol=protocol
        )
    except RefusedStoreError as refused:
        _log_problems(refused.problems)
        raise

    _log_problems(read.problems)
    runs = read.runs
    log_doubts(str(store), len(runs), read.unsealed, read.differences)
    logger.info(
        "%s: %s runs of %s; %s complete, %s with fewer than 30 runs; %s",
        out,
        f"{len(runs):,}",
        counted(runs["model"].nunique(), "model"),
        counted(read.complete, "cell"),
        f"{read.incomplete:,}",
        summary(read.problems),
    )
    return read.status


def _log_problems(problems: Sequence[Problem]) -> None:
    """Log the problems by kind, the harmless ones first; of many harmless problems of a kind only the first."""
    # Harmless ones first: `not harmless` is False for them, and False sorts before True. `groupby` below
    # needs those of a kind side by side.
    ordered = sorted(
        problems, key=lambda problem: (not problem.harmless, problem.kind, problem)
    )
    for _, group in groupby(ordered, key=lambda problem: problem.kind):
        of_kind = list(group)
        # All problems of a kind are harmless, or none is.
        if not of_kind[0].harmless:
            for problem in of_kind:
                logger.warning("%s", problem)
            continue

        for problem in of_kind[:_MOST_LOGGED]:
            logger.info("%s", problem)
        not_logged = len(of_kind) - _MOST_LOGGED
        if not_logged > 0:
            logger.info("... and %s more like that", f"{not_logged:,}")


# Table 1 has no models.
_MODELS_FOR: dict[str, tuple[str, ...]] = {
    **{f"figure{number}": names for number, names in FIGURE_MODELS.items()},
    **{f"table{number}": names for number, names in TABLES.items() if names},
    "all": tuple(MODELS),
    **{name: (name,) for name in MODELS},
}
"""By what `fetch-released` takes (a figure, a table, `all` or a model) the models that it needs."""


if TYPE_CHECKING:
    ReleasedName = str
else:
    ReleasedName = offered(_MODELS_FOR)


def models_for(what: str) -> tuple[str, ...]:
    """Return the models that `figure3`, `table10`, `all` or a model's name needs; `UserError` for anything else."""
    if what not in _MODELS_FOR:
        hint = nearest(what, _MODELS_FOR)
        if what == "table1":
            hint = "; Table 1 has settings, not scores"
        raise UserError(
            f"no figure, table or model {what!r}; give figure1 to figure12, table2 to table17, a model, or all{hint}"
        )
    return _MODELS_FOR[what]


def fetch_released(
    *what: Annotated[ReleasedName, Parameter(metavar="FIGURE|TABLE|MODEL")],
    url: str = release.URL,
) -> int:
    """Download the authors' result files at the pinned commit into the cache, with git.

    Cached files are not fetched again, and an interrupted fetch can be resumed. Once fetched, --source released works
    offline. The cache is $CLM_OR_MLM_CACHE, by default clm-or-mlm in the user's cache folder.

    example: clm-or-mlm fetch-released figure3 610m-clm-42k

    Args:
        what: a figure or table (figure3, table10, ...), for its models, or a model's name (default: all, 5.5 GB)
        url: the authors' repository or a mirror of it
    """
    models: list[str] = []
    for word in what or ["all"]:
        models += models_for(word)
    # The commit is given, though it is the default: a default is fixed when `release` is imported, but tests replace
    # the commit later.
    store = release.released_store(models, url=url, commit=release.COMMIT)
    logger.info(
        "%d released models are in %s",
        len(release.cached_release(commit=release.COMMIT)),
        store,
    )
    sys.stdout.write(f"{store}\n")
    return 0
