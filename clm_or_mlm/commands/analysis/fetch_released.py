"""`python -m analysis fetch-released [--for figure3] [--model NAME]`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.store import release
from common.cli import MANY
from common.errors import UserError, nearest
from pretraining.study import FIGURES, MODELS, TABLES

__all__ = ["fetch_released", "models_for"]

logger = logging.getLogger(__name__)

_SETS: dict[str, tuple[str, ...]] = {
    **{f"figure{number}": names for number, names in FIGURES.items()},
    **{f"table{number}": names for number, names in TABLES.items() if names},
    "all": tuple(MODELS),
}


def models_for(what: str) -> tuple[str, ...]:
    """Return the models that `figure3`, `table10` or `all` needs; `UserError` for anything else."""
    if what not in _SETS:
        table1 = "; Table 1 holds settings, no scores" if what == "table1" else nearest(what, _SETS)
        raise UserError(
            f"--for {what}: no such figure or table{table1}; give figure1 to 12, table2 to 17, or all"
        )
    return _SETS[what]


def fetch_released(
    *,
    for_: Annotated[tuple[str, ...], MANY, Parameter(name="--for", metavar="FIGURE|TABLE|all")] = (),
    model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    cache: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    url: str = release.URL,
) -> int:
    """Bring the authors' result files into the cache by git, at the pinned commit.

    What is there is not fetched again, and an interrupted fetch resumes. Afterwards --source released needs no
    network.

    Args:
        for_: the models of figure3, table10, ...; repeatable (default, without --model: all)
        model: this model; repeatable
        cache: where to keep them (default: CLM_OR_MLM_CACHE, else clm-or-mlm in the user's cache folder)
        url: a mirror of the authors' repository
    """
    for name in model:
        if name not in MODELS:
            raise UserError(f"--model {name}: not one of the study's models{nearest(name, MODELS)}")
    wanted = [*model, *(name for what in for_ for name in models_for(what))] or models_for("all")
    store = release.released_store(wanted, cache=cache, url=url, commit=release.COMMIT)
    logger.info(
        "%d released models are in %s", len(release.cached_release(cache, commit=release.COMMIT)), store
    )
    if cache is not None:
        logger.info("set CLM_OR_MLM_CACHE=%s for --source released to find them", cache)
    sys.stdout.write(f"{store}\n")
    return 0
