"""Keeping the encoder of each cell's best run, by validation, where `benchmarks.sweep.kept` says.

A run's scores are written before its encoder is kept, and never depend on that. The folder of a better run appears
whole before the folder that it replaces is removed. Where the best run's weights are not there, as after a killed
process or in a store of runs without `--keep`, only that run is repeated (`lost_jobs`): its seed makes it the same.

A cell is one model on one dataset: a run for each learning rate and seed.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from scipy.stats import t as student

from benchmarks.datasets.local_dataset import (
    LocalDataset,
    dataset_manifest,
    load_dataset,
)
from benchmarks.finetuning.device import choose_device, choose_precision
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.heads import POOLINGS
from benchmarks.finetuning.own_ends import ending_tokenizer
from benchmarks.finetuning.plain_folder import (
    HEAD_FILE,
    write_model,
    write_tokenizer,
)
from benchmarks.finetuning.tokenization import (
    end_of_text,
    question_text,
    texts_of,
)
from benchmarks.protocol import STANDARD, TASKS
from benchmarks.runs import DETAILS, RERUN, RunKey, key_of, record_of
from benchmarks.sweep.kept import (
    CARD,
    is_unedited,
    kept_files,
    write_card,
)
from benchmarks.sweep.request import RunRequest
from benchmarks.sweep.run_store import RunStore
from benchmarks.tasks.base import Setting, TaskModel
from benchmarks.tasks.families import family_of, new_model
from common.description import description_hash
from common.embedding import write_pooling, write_prompts
from common.errors import UserError
from common.files import (
    atomic_folder,
    nearest_existing,
    remove_leftovers,
    sha256_file,
    temporary_folder,
)
from common.level import ALPHA, LEVEL_IN_WORDS
from common.locks import wait_for_lease
from common.manifest import (
    MANIFEST,
    read_manifest,
    remove_ours,
    write_manifest,
)
from common.model_files import licence_of, resolve
from common.plain_text import first_of
from common.reading import read_json

log = logging.getLogger(__name__)

_PROBLEMS = {
    "SC": "single_label_classification",
    "SC-labels": "multi_label_classification",
    "SC-value": "regression",
}
"""transformers' `problem_type` for a dataset's form."""
_OUTPUTS = {"QA": ("outside", "inside"), "SC-value": ("value",)}
"""Names of a head's outputs, for forms whose data have no labels."""


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """Writes the fine-tuned models of a request's best runs into the store."""

    request: RunRequest
    """Store, datasets and settings."""
    setting: Setting
    """The model with its tokenizer, and the device that it is on."""
    sets: Mapping[str, LocalDataset]
    """The datasets by name."""

    def keep(self, key: RunKey, model: TaskModel) -> None:
        """Keep the model of a run whose scores are written, if it is the best of its cell, and remove what it replaces.

        Raises:
            UserError: the model cannot be written, or files that this package did not write are in its place.
        """
        store, dataset = self.request.runs, self.request.known[key.dataset]
        lock = store.path / "locks" / f"{key.model}__{key.dataset}__keep.lock"
        what = (
            f"another process is keeping the best run of {key.model} on {key.dataset}"
        )
        with wait_for_lease(lock, what):
            # Lost: the run is the best of its cell, and its weights are not kept. Another process may have
            # finished a better run meanwhile.
            if not store.is_lost(key):
                return
            folder = store.kept_folder(key)
            try:
                with atomic_folder(folder) as new_folder:
                    class_name = self.write(key.dataset, model, new_folder)
                    self._describe(key, new_folder, class_name)
            except SafetensorError as error:
                raise UserError(
                    f"{folder} could not be written: {error}; the run's scores are there, and the same command keeps "
                    "its weights once the cause is gone"
                ) from None

            # Unfinished folders of killed processes.
            remove_leftovers(folder.parent)
            # Older runs are removed last, so that a killed process leaves two kept runs of a cell, never none.
            for other in folder.parent.iterdir():
                has_name_of_run = key_of(other.name, key.model, dataset) is not None
                is_kept_run = has_name_of_run and (other / MANIFEST).is_file()
                # What others have put next to the runs stays: other names, folders without a manifest, links.
                if other == folder or not is_kept_run or other.is_symlink():
                    continue

                # Files that this package did not write are left, and the folder with them.
                left = remove_ours(other, kept_files(other))
                if left:
                    log.warning(
                        "%s: a better run's encoder replaces the one in it, but it stays, for it holds %s",
                        other,
                        first_of(left),
                    )

    def _describe(self, key: RunKey, folder: Path, class_name: str) -> None:
        """Write the manifest and the card of an encoder into its folder, where the weights are already."""
        # A run that was written has a description, unless something else has changed its manifest since.
        made_from = self.request.runs.state(key).description or {}
        record = {
            "model": key.model,
            "dataset": key.dataset,
            "lr": key.lr,
            "seed": key.seed,
            "class": class_name,
            "description_sha256": description_hash(made_from),
        }
        hashes = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                hashes[path.relative_to(folder).as_posix()] = sha256_file(path)

        write_manifest(folder / MANIFEST, record, hashes)
        # The card is written after the manifest, from which it reads the model's class.
        write_card(folder / CARD, _card(self.request, key, folder))

    def write(self, name: str, model: TaskModel, folder: Path) -> str:
        """Write a model that was fine-tuned for a dataset into a folder; return the name of its class in transformers.

        Args:
            name: the dataset.
            model: encoder and head.
            folder: an existing folder to write into.

        Raises:
            UserError: plain transformers does not compute what the model computes, or reads texts otherwise.
        """
        # The weights, in the class of transformers that has them.
        setting = self.setting
        local, loaded = self.sets[name], setting.loaded
        form = local.dataset.form

        # Only retrieval has no head, and so no number of outputs.
        is_retrieval = local.dataset.labels is None
        # Names of the head's outputs: fixed ones where the data have no labels.
        labels = _OUTPUTS.get(form, local.labels)
        class_name = write_model(
            model.encoder,
            model.head,
            folder,
            setting.device,
            labels,
            _PROBLEMS.get(form, ""),
        )

        # Example texts (pairs for QA), which the written tokenizer has to read as the run did. They are
        # stripped, as the paper's evaluation strips texts of retrieval (D6). The comparison is
        # fair for other tasks as well: below, the run's tokenizer reads the same stripped texts.
        # The first table is that of validation; of retrieval, its queries.
        first_split = next(iter(local.evaluated().values()))
        examples: list[tuple[str, ...]] = []
        for row in first_split.slice(0, 4).to_pylist():
            if form == "QA":
                examples.append((question_text(row["question"]), row["context"]))
            else:
                texts = texts_of(local.dataset, row, setting.reading)
                examples += [(text.strip(),) for text in texts]

        # The tokenizer to write, and the ids of the examples as the run read them.
        if not is_retrieval:
            # In the run, the end of text was put behind each text; the written tokenizer does that by itself.
            limit = loaded.limits.labelled
            end = end_of_text(loaded.tokenizer)
            ids_of_run = []
            for example in examples:
                # Behind the last text: the only one, or the context of a pair.
                ended = (*example[:-1], example[-1] + end)
                encoded = loaded.tokenizer(*ended, add_special_tokens=False)
                ids_of_run.append(encoded["input_ids"])

            tokenizer = ending_tokenizer(loaded.tokenizer, alone=True)
        else:
            # D6: the paper evaluates retrieval with begin-of-text and without end-of-text, so its sets are read so.
            limit = loaded.limits.paper_retrieval
            tokenizer = loaded.retrieval_tokenizer
            # One's own sets are read as the model's maker says, in training and afterwards.
            if local.dataset.is_own:
                limit = setting.own_longest
                tokenizer = setting.own_tokenizer
            ids_of_run = [tokenizer(*example)["input_ids"] for example in examples]

        write_tokenizer(
            tokenizer,
            folder,
            max_length=limit,
            read=zip(examples, ids_of_run, strict=True),
        )

        # What sentence-transformers needs to make vectors.
        if is_retrieval:
            width = model.encoder.hidden_size
            write_pooling(folder, width, setting.pooling.mode, longest=limit)
            write_prompts(folder, setting.reading)

        return class_name


def check_keeping(request: RunRequest, loaded: LoadedModel) -> None:
    """Refuse a model that could not be kept, before anything is fine-tuned: it is written once and removed again.

    Raises:
        UserError: the model needs code of its own or is half of an encoder-decoder, the store cannot be written, the
            disk has too little room, or plain transformers does not compute the model or its pooling.
    """
    # What request and model rule out.
    # A kept folder must load in plain transformers or sentence-transformers, without code of its own.
    if request.trust_remote_code:
        raise UserError(
            "--keep best writes folders without code, so it cannot keep a model that needs --trust-remote-code; leave "
            "one of them out"
        )

    for name in request.datasets:
        # `mode` is sentence-transformers' name for a pooling; empty where that library does not have it.
        chosen = request.reading(name).pooling
        if not POOLINGS[chosen].mode:
            possible = ", ".join(each for each in POOLINGS if POOLINGS[each].mode)
            raise UserError(
                f"--keep best cannot keep an encoder with the pooling {chosen!r}, only with {possible}; "
                "leave out --keep"
            )

    # `part` names the whole of which the encoder is one half; empty where the encoder is a whole model.
    if loaded.encoder.part:
        raise UserError(
            f"--keep best cannot keep {loaded.source}: plain transformers has no class for the "
            f"encoder{loaded.encoder.part} alone; leave out --keep"
        )

    # Room in the store.
    base = nearest_existing(request.store.absolute())
    if not os.access(base, os.W_OK):
        raise UserError(
            f"{base} cannot be written, so no encoder can be kept there; choose another store with --out"
        )

    _check_disk(request, loaded, base)
    # One model for each form, written and removed again.
    known = request.known
    sets = {name: load_dataset(request.data, known[name]) for name in request.datasets}
    # The model is on the CPU in float32, as it was loaded.
    device = choose_device("cpu", "fp32")
    setting = Setting(loaded=loaded, device=device, head=request.head)

    # The class of a written model follows from the dataset's form, so one model of each form is tried.
    one_of_form = {local.dataset.form: name for name, local in sets.items()}
    for name in one_of_form.values():
        as_read = setting.reading_as(request.reading(name))
        keeper = Keeper(request=request, setting=as_read, sets=sets)
        model = new_model(known[name], loaded.encoder, as_read.pooling, setting.head)
        try:
            # A new folder next to that path, so in `base`, on the disk on which encoders are kept.
            with temporary_folder(base / "keep") as folder:
                keeper.write(name, model, folder)
        except SafetensorError as error:
            # A quota may be full although the disk has free space.
            raise UserError(
                f"{base} has no room for an encoder ({error}); make room, or choose another --out"
            ) from None


def _check_disk(request: RunRequest, loaded: LoadedModel, folder: Path) -> None:
    """Refuse a folder whose disk lacks room for the encoders that are still to be kept, and for one more.

    The one more is there while a better run's encoder replaces another.
    """
    precision = choose_precision(request.device, request.precision)
    weights = sum(parameter.numel() for parameter in loaded.encoder.parameters())
    size = precision.weights.itemsize * weights
    lacking = 0
    for name in request.datasets:
        best = request.runs.best(request.name, name)
        if best is None or not request.runs.is_kept(best):
            lacking += 1

    needed = size * (lacking + 1)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"--keep best needs {needed / 1e9:,.1f} GB for {lacking} encoders and a copy, but {folder} has "
            f"{free / 1e9:,.1f} GB free; make room, or run fewer datasets at a time with --dataset"
        )


def write_cards(request: RunRequest) -> list[Path]:
    """Write the cards of a request's kept encoders again, with the scores of all seeds; return their folders."""
    folders = []
    for name in request.datasets:
        key = request.runs.best(request.name, name)
        if key is None or not request.runs.is_kept(key):
            continue
        folder = request.runs.kept_folder(key)
        if is_unedited(folder / CARD):
            write_card(folder / CARD, _card(request, key, folder))
        else:
            log.warning(
                "%s was changed, so it stays; remove it, and this command writes it again",
                folder / CARD,
            )

        folders.append(folder)

    return folders


def _card(request: RunRequest, key: RunKey, folder: Path) -> str:
    """Return the text of a kept run's model card: its use in Python, its scores, and the mean over the cell's seeds.

    Args:
        request: store, datasets and settings.
        key: the run.
        folder: the folder of its encoder, with manifest and tokenizer.
    """
    # The rows of the card's table: scores, then what the encoder was made from.
    dataset = request.known[key.dataset]
    record = record_of(request.runs.folder(key))
    # A kept run has scores, unless something else has changed its files since.
    validation, test = request.runs.scores(key) or (math.nan, math.nan)
    # What these scores are: `runs.scores` counts a dataset of one's own by the metric of its definition.
    metric = dataset.headline
    if not dataset.is_own:
        metric = f"{TASKS[dataset.task].metric}, paper protocol"
    rows = {
        f"test, this run ({metric})": f"{100 * test:.2f}",
        "validation, this run": f"{100 * validation:.2f}",
        **_over_seeds(request.runs, key),
    }

    # A dataset of one's own has its standard metric in the first row already.
    standard = record.get(STANDARD, {}).get("test", {}).get(dataset.headline)
    if standard is not None and not dataset.is_own:
        name = f"test, this run ({dataset.headline}, standard protocol)"
        rows[name] = f"{100 * standard:.2f}"

    rows["learning rate, seed"] = f"{key.lr:g}, {key.seed}"
    rows |= _data_rows(request, key.dataset)
    start = request.model

    # For a folder only its last part: a card is passed on, and the path would say nothing to others.
    if Path(request.model).is_dir():
        start = Path(request.model).name

    # Without its code: a model that needs some is not kept (`check_keeping`).
    source = resolve(request.model, revision=request.revision)
    licence = licence_of(source) or "not stated in its folder"
    rows["start"] = f"{start} (licence: {licence})"

    # The page around the table.
    folder_of_templates = Path(__file__).with_name("templates")
    template = (folder_of_templates / "kept_card.md").read_text("utf-8")
    family = family_of(dataset)
    pooling = POOLINGS[request.reading(dataset.name).pooling]
    has_head_file = (folder / HEAD_FILE).is_file()
    remedy = "run this command again"
    longest = read_json(folder / "tokenizer_config.json", remedy)["model_max_length"]
    # Without a number of labels it is a retrieval set, whose encoder makes vectors. `family.code` is Python that
    # uses the encoder, `family.reads` a sentence on how the encoder reads a text.
    return Template(template).substitute(
        library="sentence-transformers" if dataset.labels is None else "transformers",
        start=start,
        kind=read_manifest(folder / MANIFEST, remedy)["class"],
        model=key.model,
        title=dataset.title,
        trained_on=request.known[dataset.trained_on].title,
        code=family.code(pooling, has_head_file=has_head_file),
        reads=family.reads(dataset, longest),
        rows=_card_table(rows),
    )


def _data_rows(request: RunRequest, dataset: str) -> dict[str, str]:
    """Return the rows of a card that say which data were used, for what, and under which licence."""
    trained_on = request.known[dataset].trained_on
    uses = {trained_on: "trained", dataset: "scored"}
    if trained_on == dataset:
        uses = {dataset: "trained and scored"}
    rows = {}
    for name, use in uses.items():
        licence = dataset_manifest(request.data, request.known[name]).licence
        rows[f"data ({use})"] = f"{request.known[name].title} (licence: {licence})"
    return rows


def _card_table(rows: Mapping[str, str]) -> str:
    """Return rows of a card as the lines of a Markdown table."""
    lines = []
    for name, value in rows.items():
        escaped = value.replace("|", "\\|")
        lines.append(f"| {name} | {escaped} |")
    return "\n".join(lines)


def _over_seeds(store: RunStore, of_cell: RunKey) -> dict[str, str]:
    """Return a card's row with the mean test score over a cell's seeds and Student's t interval.

    Each seed counts with its run at the learning rate that is best by validation, as in the paper.

    Args:
        store: the run store.
        of_cell: any run of the cell, which tells its model and its dataset.

    Returns:
        The row's value by its name; nothing with fewer than two seeds.
    """
    best_runs: dict[int, RunKey] = {}  # by seed
    scores: dict[RunKey, tuple[float, float]] = {}  # validation and test
    for key in store.found(of_cell.model, of_cell.dataset):
        of_run = store.scores(key)
        if of_run is None:
            continue
        scores[key] = of_run

        # The best run of the seed so far; for its first run, that run itself.
        other = best_runs.setdefault(key.seed, key)
        # Between equal validation scores the smallest rate counts.
        if (of_run[0], -key.lr) > (scores[other][0], -other.lr):
            best_runs[key.seed] = key

    tests = [100 * scores[key][1] for key in best_runs.values()]
    seeds = len(tests)
    if seeds < 2:
        return {}
    mean = f"test, mean over {seeds} seeds and its {LEVEL_IN_WORDS} interval"
    row_name = f"{mean} (Student's t)"
    variance = statistics.variance(tests) / seeds
    df = seeds - 1.0
    if store.known[of_cell.dataset].is_own_retrieval:
        # One's own set has few queries, so other queries would also move the mean: their variance is added.
        by_query = np.array([_by_query(store, key) for key in best_runs.values()])
        variance, df = _with_queries(variance, by_query)
        queries = by_query.shape[1]
        row_name = f"{mean} over seeds and {queries} queries"

    half = float(student.ppf(1 - ALPHA / 2, df)) * math.sqrt(variance)
    return {row_name: f"{statistics.fmean(tests):.2f} ± {half:.2f}"}


def _with_queries(
    by_seeds: float, by_query: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the variance of a mean over seeds and queries, and its degrees of freedom (Satterthwaite).

    Args:
        by_seeds: the variance of the mean over seeds, the queries as they are.
        by_query: scores, shape (seeds, queries); two seeds or more.
    """
    seeds, queries = by_query.shape
    df = seeds - 1.0
    # Shape (seeds, seeds): how the mean scores of two seeds would vary together from one sample of queries to
    # another. Means over queries have the covariance of single queries, divided by their number.
    covariance = np.cov(by_query) / queries

    # The queries' part of the variance is what seeds share: the mean covariance of two different seeds. The
    # diagonal, a seed with itself, is left out, as the variance over seeds holds it already.
    between_seeds = float(covariance.sum() - np.trace(covariance))

    # The sum is over each seed with each other one: `seeds` times `seeds - 1`, which is `df`.
    # An estimated covariance can be below 0, a part of a variance cannot.
    over_queries = max(0.0, between_seeds / (seeds * df))
    variance = by_seeds + over_queries

    # Satterthwaite: the squared variance, over the sum of its squared parts by their degrees of freedom.
    uncertainty = by_seeds**2 / df + over_queries**2 / max(1, queries - 1)
    # Without any spread the formula would divide 0 by 0.
    if uncertainty == 0:
        return variance, df
    return variance, variance**2 / uncertainty


def _by_query(store: RunStore, key: RunKey) -> list[float]:
    """Return a run's score on each test query by the dataset's headline metric, in percent."""
    details = read_json(store.folder(key) / DETAILS, RERUN)
    values = details[STANDARD]["test"][store.known[key.dataset].headline]
    return [100 * value for value in values]
