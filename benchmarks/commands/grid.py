"""`clm-or-mlm benchmarks run` and `status`; torch is imported once the options are understood."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from benchmarks.commands import DATA, DatasetName, Definitions
from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.protocol import FINE_TUNING, Dataset, FineTuning, HeadName  # noqa: F401  (inherited options are read here)
from benchmarks.runs import store_of
from benchmarks.sweep.request import (
    BM25,
    Computation,
    Keep,  # noqa: F401  (inherited options are read here)
    RunRequest,
    dataset_names,
    learning_rates,
    model_name,
    seeds_of,
)
from common.cli import MANY, shared_options
from common.errors import UserError
from common.model_files import resolve
from common.registry import Registry

log = logging.getLogger(__name__)

_RUNS = "the runs"


@shared_options(_RUNS)
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Which runs of a store."""

    dataset: Annotated[
        tuple[DatasetName, ...], MANY, Parameter(metavar="NAME", show_choices=False)
    ] = ()
    """datasets or tasks (default: those of --datasets, else the paper's twelve and the store's own)"""
    lr: Annotated[tuple[float, ...], MANY] = ()
    """learning rates (default: the paper's six; in `status`, those that `run` was called with)"""
    seed: Annotated[tuple[int, ...], MANY] = ()
    """seeds (default: 0 1 2 3 4; in `status`, those that `run` was called with)"""
    out: Path = Path("results")
    """run store; runs are in OUT/results"""

    datasets: Definitions = ()
    """files that define your own datasets, or ready-made ones: xnli, glue-cola"""

    def grid(
        self,
    ) -> tuple[
        Mapping[str, Dataset], tuple[str, ...], tuple[float, ...], tuple[int, ...]
    ]:
        """Return the known datasets by name, the names of those that are asked for, learning rates and seeds.

        Known are the paper's datasets, those that --datasets defines, and those that the store defines.
        """
        defined: list[Dataset] = []
        for file in self.datasets:
            defined += read_definitions(file)
        # A store keeps the definitions of its datasets, so that later commands need no --datasets. `store_of`
        # gives the store also where --out names the folder `results` inside of it.
        stored = stored_definitions(store_of(self.out))
        known = known_datasets([*defined, *stored])
        # `dataset` has the names that are asked for, `datasets` the files of definitions. Without names, all
        # that the files define are wanted.
        wanted = self.dataset or [definition.name for definition in defined]
        # Where nothing is wanted, these are the names of all known datasets, those of the store included.
        names = dataset_names(wanted, known)
        return known, names, learning_rates(self.lr), seeds_of(self.seed)


@shared_options(_RUNS)
@dataclass(frozen=True, kw_only=True)
class RunOptions(GridOptions, Computation):
    """Which runs of which model, and how they are computed."""

    model: Annotated[str, Parameter(metavar="PATH_OR_ID")]
    """model folder, hub id OWNER/NAME[@REVISION], or bm25"""
    revision: Annotated[str | None, Parameter(parse=False)] = None
    """what follows the @ of a hub id"""
    name: str | None = None
    """the model's name in the store (default: the last part of its path or hub id)"""
    data: Path = DATA
    """folder of the datasets"""
    steps: Annotated[int | None, Parameter(validator=Number(gte=0))] = None
    """optimiser steps (default: 1000, or the dataset's epochs); 0: not trained, own retrieval sets"""
    epochs: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    """passes over the training data, in place of steps"""
    batch: Annotated[int | None, Parameter(validator=Number(gte=4))] = None
    """examples a step (default: 32); of retrieval, also the documents of a query"""
    temperature: Annotated[float | None, Parameter(validator=Number(gt=0))] = None
    """of the loss of retrieval (default: 0.05)"""
    max_length: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    """longest input in tokens (default: 2028)"""

    def request(self, *, retry_failed: bool = False) -> RunRequest:
        """Return what these options ask for.

        Raises:
            UserError: an unknown dataset, or a rate or seed out of range.
        """
        # `datasets` are names of datasets; the field `self.datasets` has the files that define some.
        known, datasets, lrs, seeds = self.grid()
        # How long training is, and in which batches.
        if self.steps is not None and self.epochs is not None:
            raise UserError(
                "--steps and --epochs both say how long to train; leave one out"
            )

        if self.batch is not None and self.batch % FINE_TUNING.micro_batch:
            raise UserError(
                f"--batch {self.batch} is no multiple of {FINE_TUNING.micro_batch}, the examples of a micro-batch"
            )

        # D12: CoNLL and UNER train for one epoch in the paper; either option speaks for all datasets. With --steps no
        # dataset has epochs, and the steps count.
        if self.steps is not None or self.epochs is not None:
            changed_sets = (
                replace(dataset, epochs=self.epochs) for dataset in known.values()
            )
            known = Registry("dataset", changed_sets)

        # The model. Its revision is a part of its id: the inherited field `revision`, which is no option, is not
        # read here.
        model, revision = self.model, ""

        # NAME@REVISION, but a folder that exists may have an @ in its name.
        if not Path(self.model).exists():
            model, _, revision = self.model.partition("@")

        # BM25, a ranking by words, has nothing to train, whatever --steps says: so `steps`, not the option
        # `self.steps`, counts from here on. None: the paper's number of steps, or a dataset's epochs.
        steps = 0 if self.model == BM25 else self.steps
        if steps == 0:
            others = [name for name in datasets if not known[name].is_own_retrieval]
            if others:
                raise UserError(
                    f"only retrieval sets of your own are scored without training, and {others[0]} is none; give "
                    "yours with --datasets, or --steps above 0"
                )

            # Without training, nothing depends on a rate or a seed: one run says all.
            lrs, seeds = lrs[:1], seeds[:1]

        return RunRequest(
            **self._computation(model, revision),
            name=model_name(model, self.name),
            datasets=datasets,
            known=known,
            lrs=lrs,
            seeds=seeds,
            data=self.data,
            store=store_of(self.out),
            fine_tuning=self._fine_tuning(steps),
            retry_failed=retry_failed,
        )

    def _computation(self, model: str, revision: str) -> dict[str, Any]:
        """Return the fields of `Computation`, with this model and its revision on the hub; empty: no revision."""
        given = {field.name: getattr(self, field.name) for field in fields(Computation)}
        return given | {"model": model, "revision": revision or None}

    def _fine_tuning(self, steps: int | None) -> FineTuning:
        """Return the paper's fine-tuning with what the options change.

        Args:
            steps: the option --steps, but 0 for BM25; None: the option was not given.
        """
        options = {
            "steps": steps,
            "batch": self.batch,
            "temperature": self.temperature,
            "max_length": self.max_length,
        }
        given: dict[str, Any] = {
            option: value for option, value in options.items() if value is not None
        }
        return replace(FINE_TUNING, **given)


def run(
    *,
    options: RunOptions,
    retry_failed: bool = False,
    dry_run: bool = False,
) -> int:
    """Fine-tune a model with the paper's protocol and save its runs.

    To resume an interrupted command, run it again. Afterwards, `clm-or-mlm scores --source OUT` prints the scores.

    exit code: 0 all runs are done; 2 wrong input; 3 some runs failed; 4 another process is doing some of the runs;
    130 interrupted

    examples:
      clm-or-mlm benchmarks run --model pretrained/models/610m-clm-42k --data data/ --out results/
      clm-or-mlm benchmarks run --model google-bert/bert-base-uncased --dataset sst2 IR --lr 1e-5 5e-5 --seed 0 1
      clm-or-mlm benchmarks run --model google-bert/bert-base-uncased --dataset sst2 --dry-run
      clm-or-mlm benchmarks run --model google-bert/bert-base-uncased --dataset IR --keep best

    Args:
        retry_failed: repeat runs that failed
        dry_run: check model, data and settings without a GPU, and print what a run keeps in memory
    """
    request = options.request(retry_failed=retry_failed)
    # Before the modules with torch are imported, which takes seconds, a model or data that are not there are
    # refused. `resolve` is called for that only: it fetches a hub's model, with `code` also the model's Python
    # files.
    if request.model != BM25:
        resolve(
            request.model, revision=request.revision, code=request.trust_remote_code
        )

    # Imported here: it needs pyarrow, which an environment for `status` may lack.
    from benchmarks.datasets.local_dataset import find_manifest

    # Called only because it refuses a dataset that is not there.
    for name in request.datasets:
        find_manifest(request.data, request.known[name])

    # Only check, or do the runs.
    if dry_run:
        lines = iter(["bm25 needs no model; the data are there"])
        if request.model != BM25:
            from benchmarks.sweep.preflight import validate

            lines = validate(request)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 0

    if request.model == BM25:
        from benchmarks.sweep.lexical import run_bm25 as run_grid
    else:
        from benchmarks.sweep.queue import run_grid

    from benchmarks.sweep.status import status_code

    # Do the runs, then say why some failed and how many are done.
    cells = run_grid(request)
    for cell in cells:
        for name, reason in cell.failed.items():
            log.warning("failed: %s %s %s: %s", cell.model, cell.dataset, name, reason)

    total = sum(cell.runs for cell in cells)
    done = sum(cell.done for cell in cells)
    failed = sum(len(cell.failed) for cell in cells)
    left = sum(cell.missing for cell in cells)
    sys.stdout.write(
        f"{request.name}: {done} of {total} runs done, {failed} failed, {left} left\n"
    )
    return status_code(cells)


def status(
    *,
    model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    grid: GridOptions = GridOptions(),
    json: bool = False,
) -> int:
    """Show how many of each cell's runs are in a run store.

    By default it shows the datasets, learning rates and seeds that `run` was called with, and any other runs in the
    store. For runs from elsewhere it shows the paper's grid.

    In the table, 12/30 means that 12 of 30 runs are done, * that a process is working on the cell, and !2 that two runs
    failed; their reasons follow.

    exit code: 0 all done; 3 some failed, none missing; 4 some missing

    example: clm-or-mlm benchmarks status --out results/

    Args:
        model: models to show (default: all in the store)
        json: print the cells as a JSON list
    """
    from benchmarks.sweep.run_store import RunStore
    from benchmarks.sweep.status import (
        cell_status,
        models_in_store,
        status_code,
        status_table,
    )

    known, datasets, lrs, seeds = grid.grid()
    store = RunStore(store_of(grid.out), known)
    models = models_in_store(store.path, model)

    # Without --dataset or --datasets, show the datasets that any of the models was measured on or asked for.
    if not (grid.dataset or grid.datasets):
        touched = [
            dataset
            for dataset in known
            if any(store.touched(name, dataset) for name in models)
        ]
        # No dataset is touched where the folders of the models hold no run of a known dataset: then all known
        # ones are shown.
        datasets = tuple(touched) or datasets

    # Without --lr or --seed, cells have the runs that `run` was asked for, and any others that are there.
    others = not (grid.lr or grid.seed)
    cells = [
        cell_status(store, name, dataset, lrs, seeds, others=others)
        for name in models
        for dataset in datasets
    ]
    # `missing` is a property, which `asdict` leaves out.
    if json:
        rows = [{**asdict(cell), "missing": cell.missing} for cell in cells]
        text = dumps(rows, indent=1)
    else:
        text = status_table(cells, datasets)

    sys.stdout.write(text + "\n")
    return status_code(cells)
