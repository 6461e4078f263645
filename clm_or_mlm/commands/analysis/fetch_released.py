"""`python -m analysis fetch-released [--for figure3] [--model NAME]`."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from analysis.store import release
from common.errors import UserError, nearest
from common.old_parser import Parser
from pretraining.study import FIGURES, MODELS, TABLES

__all__ = ["add_parser", "models_for"]

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


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add `fetch-released` to the commands of `python -m analysis`."""
    parser = subparsers.add_parser(
        "fetch-released",
        help="bring the authors' result files into the cache",
        description="Bring the authors' result files into the cache by git, at the pinned commit; what is there "
        "is not fetched again, and a broken-off fetch goes on. Afterwards --source released needs no network.",
    )
    parser.add_argument(
        "--for", dest="sets", action="append", default=[], metavar="FIGURE|TABLE|all",
        help="the models of figure3, table10, ...; repeatable (default, without --model: all)",
    )  # fmt: skip
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="this model; repeatable")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR",
        help="where to keep them (default: CLM_OR_MLM_CACHE, else clm-or-mlm in the user's cache folder)",
    )  # fmt: skip
    parser.add_argument(
        "--url", default=release.URL, help="a mirror of the authors' repository (default: %(default)s)"
    )
    parser.set_defaults(function=_main)


def _main(args: argparse.Namespace) -> int:
    for name in args.model:
        if name not in MODELS:
            raise UserError(f"--model {name}: not one of the study's models{nearest(name, MODELS)}")
    wanted = [*args.model, *(name for what in args.sets for name in models_for(what))]
    if not wanted:
        wanted = list(models_for("all"))
    store = release.released_store(wanted, cache=args.cache, url=args.url, commit=release.COMMIT)
    here = release.cached_release(args.cache, commit=release.COMMIT)
    logger.info("%d released models are in %s", len(here), store)
    if args.cache is not None:
        logger.info("set CLM_OR_MLM_CACHE=%s for --source released to find them", args.cache)
    print(store)
    return 0
