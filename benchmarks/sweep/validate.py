"""Check everything that a run needs, and estimate its time and memory, without a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.finetuning.device import Precision, choose_kind
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.tokenization import encode_texts, texts_of
from benchmarks.sweep.jobs import check_finished, check_sources, descriptions, jobs_of
from benchmarks.sweep.memory import run_bytes
from benchmarks.sweep.preflight import preflight
from benchmarks.sweep.request import Request
from benchmarks.tasks.families import fine_tuning_steps

__all__ = ["validate"]

_SAMPLE = 256


def validate(request: Request, tflops: float | None = None) -> Iterator[str]:
    """Check everything that a run needs, and yield lines that estimate its time and memory.

    Args:
        request: what a run would do.
        tflops: sustained TFLOP/s of the device; None for a default by device.

    Raises:
        UserError: the first thing that a run would stumble over.
    """
    check_sources(request)
    check_finished(request, descriptions(request))
    sets, loaded, precision = preflight(request)
    kind = choose_kind(request.device)
    yield from _describe(request, loaded, precision, request.positions or kind.positions)
    yield from _estimate(request, sets, loaded, 1e12 * (tflops or kind.tflops or _measured_tflops()))


def _describe(request: Request, loaded: LoadedModel, precision: Precision, positions: int) -> Iterator[str]:
    parameters = sum(p.numel() for p in loaded.encoder.parameters())
    model, moving = (f"{size / 2**30:.2f} GiB" for size in run_bytes(loaded.encoder, precision, positions))
    base = type(loaded.encoder.base).__name__
    yield (
        f"model {request.name}: {base}, {parameters / 1e6:,.1f}M parameters, "
        f"{loaded.encoder.description}, inputs up to {loaded.limits.labelled} tokens"
    )
    yield (
        f"memory: {model} for weights, gradients and optimiser in {precision.name}, {moving} for the activations of "
        f"{positions:,} positions (--positions), of each of the runs that --workers computes side by side"
    )


def _estimate(
    request: Request, sets: Mapping[str, LocalDataset], loaded: LoadedModel, rate: float
) -> Iterator[str]:
    """Yield a line for each dataset with the tokens and hours of its runs, at so many operations a second."""
    encoder = loaded.encoder
    embedding = encoder.base.get_input_embeddings().weight.numel()  # type: ignore[operator]
    body = float(sum(p.numel() for p in encoder.parameters()) - embedding)
    yield f"{'dataset':14}{'steps':>7}{'trained':>12}{'evaluated':>12}{'longest':>9}{'runs':>6}{'hours':>8}"
    total = 0.0
    for job in jobs_of(request):
        source = sets[job.trained_on]
        steps = fine_tuning_steps(source, request.fine_tuning)
        lengths = _lengths(source, source.train, loaded)
        trained, longest = round(steps * request.fine_tuning.batch * lengths.mean()), lengths.max()
        for number, name in enumerate(job.datasets):
            evaluated, times = (
                0.0,
                2 if sets[name].dataset.task == "IR" else 1,
            )  # as the paper reads, and as trained
            for table in sets[name].evaluated().values():
                lengths = _lengths(sets[name], table, loaded)
                evaluated += times * table.num_rows * lengths.mean()
                longest = max(longest, lengths.max())
            left = sum(key.dataset == name for key in job.pending())
            # The fine-tuning that retrieval datasets share counts once.
            hours = left * body * ((0 if number else 6 * trained) + 2 * evaluated) / rate / 3600
            total += hours
            yield f"{name:14}{steps:7}{trained:12,}{evaluated:12,.0f}{longest:9}{left:6}{hours:8.2f}"
    yield f"about {total:.2f} hours in all at {rate / 1e12:.3g} TFLOP/s; everything a run needs is there"


def _lengths(dataset: LocalDataset, table: pa.Table, loaded: LoadedModel) -> NDArray[np.int64]:
    """Return the lengths of a sample of a table's rows, in tokens: all texts of a row together."""
    step = max(1, table.num_rows // _SAMPLE)
    rows = table.take(np.arange(0, table.num_rows, step)[:_SAMPLE]).to_pylist()
    columns = zip(*(texts_of(dataset.dataset, row) for row in rows), strict=True)
    lengths = [encode_texts(loaded.tokenizer, column, loaded.limits.labelled).lengths for column in columns]
    return np.asarray(np.sum(lengths, axis=0))


def _measured_tflops() -> float:
    """Return a quarter of the rate of large matrix products on this CPU: about what fine-tuning sustains."""
    matrix = torch.randn(1_024, 1_024)
    matrix @ matrix
    start = time.perf_counter()
    for _ in range(4):
        matrix @ matrix
    return 2 * 1_024**3 / (time.perf_counter() - start) / 1e12
