"""Which run's weights a store keeps: of each cell the one with the best validation score. Light: no torch.

encoders/<model>/<task>/<dataset>/lr1e-04_sd0/      config.json, model.safetensors, tokenizer, manifest, README.md
"""

from __future__ import annotations

import logging
import math
import statistics
from pathlib import Path
from string import Template

from scipy.stats import t as student

from benchmarks.datasets.local_dataset import read_manifest as read_dataset
from benchmarks.protocol import STANDARD, TASKS, Dataset
from benchmarks.runs import RunKey, found_keys, record_of
from benchmarks.sweep.request import RunRequest
from benchmarks.sweep.status import counted_scores_of, folder_of, state_of
from common.description import description_hash
from common.errors import UserError
from common.manifest import FILES, MANIFEST, check_files, read_manifest
from common.model_files import licence_of, resolve

log = logging.getLogger(__name__)

CARD = "README.md"
_REMEDY = "run this command again to make it again"


def kept_folder(store: Path, key: RunKey) -> Path:
    """Return where the weights of a run are while it is the best of its cell."""
    return store / "encoders" / key.folder


def best_run(store: Path, model: str, dataset: Dataset) -> RunKey | None:
    """Return the run of a cell with the best validation score, of equal ones that of the lowest rate, then seed."""
    done = [
        (scores[0], -key.lr, -key.seed, key)
        for key in found_keys(store, model, dataset)
        if (scores := counted_scores_of(store, key, dataset)) is not None
    ]
    return max(done)[-1] if done else None


def is_lost(store: Path, key: RunKey, dataset: Dataset) -> bool:
    """Return whether a run is the best of its cell and its weights are not there."""
    return best_run(store, key.model, dataset) == key and not is_kept(store, key)


def is_kept(store: Path, key: RunKey) -> bool:
    """Return whether the weights of a run that is done are there, undamaged, and made by what its description says.

    Raises:
        UserError: something else is in their place.
    """
    folder = kept_folder(store, key)
    try:
        record = read_manifest(folder / MANIFEST, _REMEDY)
        check_files(folder, record[FILES], _REMEDY)
    except FileNotFoundError:
        if folder.exists():
            raise UserError(
                f"{folder} is no encoder that --keep wrote; move it elsewhere, for the best run's weights go there"
            ) from None
        return False
    except UserError as error:
        log.warning("%s; it will be made again", error)
        return False
    state = state_of(store, key)
    return record.get("description_sha256") == description_hash(state.description or {})


def card(request: RunRequest, key: RunKey, kind: str, code: str, reads: str) -> str:
    """Return the model card of a kept run: its use, its scores, and those of the cell's seeds as far as there are any.

    Args:
        request: what was asked for.
        key: the run.
        kind: the class of the model.
        code: how it is used, in Python.
        reads: how it reads a text, in a sentence.
    """
    dataset = request.known[key.dataset]
    record = record_of(folder_of(request.store, key))
    scores = counted_scores_of(request.store, key, dataset) or (math.nan, math.nan)
    metric = dataset.headline if dataset.is_own else f"{TASKS[dataset.task].metric}, paper protocol"
    rows = {
        f"test, this run ({metric})": f"{100 * scores[1]:.2f}",
        "validation, this run": f"{100 * scores[0]:.2f}",
        **_over_seeds(request.store, key.model, dataset),
    }
    usual = record.get(STANDARD, {}).get("test", {}).get(dataset.headline)
    if usual is not None and not dataset.is_own:
        rows[f"test, this run ({dataset.headline}, standard protocol)"] = f"{100 * usual:.2f}"
    rows["learning rate, seed"] = f"{key.lr:g}, {key.seed}"
    for name in dict.fromkeys((dataset.trained_on, dataset.name)):
        manifest = read_dataset(request.data, request.known[name])
        role = "trained and " * (name == dataset.trained_on) + "scored" if name == dataset.name else "trained"
        rows[f"data ({role})"] = f"{request.known[name].title} (licence: {manifest.licence})"
    folder = resolve(request.model, revision=request.revision)
    start = Path(request.model).name if Path(request.model).is_dir() else request.model
    rows["start"] = f"{start} (licence: {licence_of(folder) or 'not stated in its folder'})"
    text = Path(__file__).with_name("templates").joinpath("kept_card.md").read_text("utf-8")
    return Template(text).substitute(
        library="sentence-transformers" if dataset.labels is None else "transformers",
        start=start,
        kind=kind,
        model=key.model,
        title=dataset.title,
        trained_on=request.known[dataset.trained_on].title,
        code=code,
        reads=reads,
        rows="\n".join(f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows.items()),
    )


def _over_seeds(store: Path, model: str, dataset: Dataset) -> dict[str, str]:
    """Return the mean test score over seeds, each at its best rate by validation, with Student's t interval."""
    best: dict[int, tuple[float, float, float]] = {}
    for key in found_keys(store, model, dataset):
        if (scores := counted_scores_of(store, key, dataset)) is not None:
            validation, test = scores
            best[key.seed] = max(best.get(key.seed, (-1.0, 0.0, 0.0)), (validation, -key.lr, test))
    tests = [100 * found[2] for found in best.values()]
    if len(tests) < 2:
        return {}
    half = student.ppf(0.975, len(tests) - 1) * statistics.stdev(tests) / math.sqrt(len(tests))
    words = f"test, mean over {len(tests)} seeds and its 95 % interval (Student's t)"
    return {words: f"{statistics.fmean(tests):.2f} ± {half:.2f}"}
