"""Run stores opened through the cache, so that only what changed is read again."""

from __future__ import annotations

import hashlib
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.store.problems import summary
from benchmarks.protocol import PAPER
from common.errors import UserError
from common.files import cache_folder
from common.locks import wait_for_lock

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["open_store"]

logger = logging.getLogger(__name__)


def open_store(
    store: Path, *, instances: bool = False, add_models: Sequence[str] = (), protocol: str = PAPER
) -> tuple[pd.DataFrame, Path | None]:
    """Return a run store's runs table and, if wanted, the folder of its per-instance scores.

    The store is read as `ingest` does, into the cache: unchanged files are not read again the next time.
    `add_models` are names or shell patterns of models outside the released naming scheme, `protocol` chooses the
    scores (`ingest`).

    Raises:
        UserError: no store, no usable run in it, or a cache that cannot be written.
    """
    from analysis.store.ingest import ingest

    what = [str(store.resolve()), *sorted(add_models), *([protocol] if protocol != PAPER else [])]
    key = hashlib.sha256("\0".join(what).encode(errors="surrogateescape")).hexdigest()[:16]
    folder = cache_folder() / "stores" / f"{store.resolve().name}-{key}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: the cache cannot be written ({error.strerror}); set CLM_OR_MLM_CACHE to a folder that can"
        ) from None
    target = folder / "instances.parquet" if instances else None
    with wait_for_lock(folder / "lock", f"another process reads {store}; waiting for it"):
        ingested = ingest(
            store, folder / "runs.parquet", instances=target, add_models=add_models, protocol=protocol
        )
    if ingested.status:
        logger.warning(
            "%s: %s; `python -m analysis ingest %s --out runs.parquet` names them",
            store, summary(ingested.problems), shlex.quote(str(store)),
        )  # fmt: skip
    return ingested.runs, target
