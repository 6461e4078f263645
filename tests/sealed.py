"""Runs with a manifest, as `benchmarks run` leaves them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.runs import DETAILS, RESULTS, RUN
from common.files import sha256_file
from common.manifest import write_manifest


def seal(
    folder: Path,
    content: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write the manifest of the run in `folder`, which says of it what its path says, and what else is given.

    Without `files` it has the hashes of those that are there.
    """
    model, task, dataset, name = folder.parts[-4:]
    lr, seed = re.findall(r"lr(.+)_sd(\d+)$", name)[0]
    said = {
        "model": model,
        "task": task,
        "dataset": dataset,
        "lr": float(lr),
        "seed": int(seed),
    }
    found = {
        one: sha256_file(folder / one)
        for one in (RESULTS, DETAILS)
        if (folder / one).is_file()
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(
        folder / RUN, {**said, **(content or {})}, found if files is None else files
    )
    return folder
