"""`python -m benchmarks validate`: check everything a run needs, and estimate time and memory, without a GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.datasets.local_dataset import load as load_data
from benchmarks.finetuning.encoders import Encoder, Loaded, load
from benchmarks.finetuning.tokenization import (
    classification_text,
    document_text,
    encode_texts,
    query_text,
    question_text,
)
from benchmarks.protocol import DATASETS
from benchmarks.runs import SPLITS
from benchmarks.sweep.jobs import check_labels, jobs_of
from benchmarks.sweep.options import Request, add_run_options, read_request
from benchmarks.sweep.run_state import is_done
from benchmarks.tasks.registry import tuning_steps
from common.old_parser import Parser
from common.progress import progress

__all__ = ["Workload", "activation_bytes", "main", "workload"]

_SAMPLE = 256
_GPU_TFLOPS = 100.0


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Tokens that one run of a cell processes."""

    steps: int
    """Optimiser steps."""
    trained: int
    """Tokens in fine-tuning."""
    evaluated: int
    """Tokens in evaluation."""
    longest: int
    """Longest sampled input, in tokens."""


def main(argv: Sequence[str]) -> int:
    """Check and estimate; `UserError` at the first thing that a run would stumble over."""
    parser = Parser(
        prog="python -m benchmarks validate",
        description="Check model, data and settings of a run without using a GPU; estimate its time and memory.",
        epilog="Tokens are counted on a sample of each split. Times are matrix-product FLOPs at a sustained rate\n"
        f"(--tflops; {_GPU_TFLOPS:g} by default on a GPU, measured on a CPU), so expect a factor of two.",
    )
    add_run_options(parser)
    parser.add_argument("--tflops", type=float, help="sustained TFLOP/s of the device that will do it")
    options = parser.parse_args(argv)
    request = read_request(options)
    gpu = options.device.startswith("cuda") or (options.device == "auto" and torch.cuda.is_available())
    precision = ("bf16" if gpu else "fp32") if options.precision == "auto" else options.precision
    names = dict.fromkeys(n for d in request.datasets for n in (DATASETS[d].trained_on, d))
    sets = {name: load_data(request.data, name) for name in progress(names, "checking data", unit="dataset")}
    for dataset in sets.values():
        check_labels(dataset)
    loaded = load(
        request.model,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
        max_length=request.tuning.max_length,
    )
    rate = 1e12 * (options.tflops or (_GPU_TFLOPS if gpu else _cpu_tflops()))
    positions = options.positions or (16_384 if gpu else 2_048)
    print(_describe(request, loaded, precision, positions, gpu=gpu))
    print(f"{'dataset':14}{'steps':>7}{'trained':>12}{'evaluated':>12}{'longest':>9}{'runs':>6}{'hours':>8}")
    total = 0.0
    for job in jobs_of(request.datasets, model=request.name, lrs=request.lrs, seeds=request.seeds,
                       data=request.data, store=request.store, tuning=request.tuning):  # fmt: skip
        for number, name in enumerate(job.datasets):
            load_ = workload(sets[job.trained_on], sets[name], loaded, request)
            left = sum(not is_done(job.store, key) for key in job.keys if key.dataset == name)
            # The fine-tuning that retrieval datasets share counts once.
            flops = _flops(loaded.encoder, 0 if number else load_.trained, load_.evaluated)
            hours = left * flops / rate / 3600
            total += hours
            print(f"{name:14}{load_.steps:7}{load_.trained:12,}{load_.evaluated:12,}{load_.longest:9}"
                  f"{left:6}{hours:8.2f}")  # fmt: skip
    print(f"about {total:.2f} hours in all at {rate / 1e12:.3g} TFLOP/s; everything a run needs is there")
    return 0


def workload(trained_on: LocalDataset, dataset: LocalDataset, loaded: Loaded, request: Request) -> Workload:
    """Count the tokens of one run on samples of the splits."""
    steps = tuning_steps(trained_on, request.tuning)
    train = _lengths(trained_on, "train", loaded)
    splits = [(_lengths(dataset, split, loaded), _size(dataset, split)) for split in SPLITS]
    if dataset.dataset.task == "IR":
        splits.append((_lengths(dataset, "corpus", loaded), dataset.corpus.num_rows))
    # Retrieval is evaluated twice: with the paper's special tokens and with those of fine-tuning.
    twice = 2 if dataset.dataset.task == "IR" else 1
    return Workload(
        steps=steps,
        trained=round(steps * request.tuning.batch * train.mean()),
        evaluated=round(twice * sum(size * lengths.mean() for lengths, size in splits)),
        longest=int(max(lengths.max() for lengths in (train, *(lengths for lengths, _ in splits)))),
    )


def activation_bytes(encoder: Encoder, precision: str, length: int = 64) -> int:
    """Return the bytes that one token position keeps for the backward pass, counted in a small pass on the CPU."""
    seen: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in encoder.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.zeros((1, length), dtype=torch.long)
    lengths = torch.tensor([length])
    kept = []
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision != "fp32"),
    ):
        kept.append(encoder(ids, lengths))
    return sum(seen.values()) // length


def _describe(request: Request, loaded: Loaded, precision: str, positions: int, *, gpu: bool) -> str:
    parameters = sum(p.numel() for p in loaded.encoder.parameters())
    # Weights, the copy they are reset from, gradients, and AdamW's two moments.
    fixed = parameters * 5 * (2 if precision == "bf16" else 4)
    moving = activation_bytes(loaded.encoder, precision) * positions
    each = "" if gpu else " (each of the runs that --workers computes side by side)"
    kind = type(loaded.encoder.base).__name__
    direction = "causal mask lifted" if loaded.encoder.lifted else "bidirectional"
    return (
        f"model {request.name}: {kind}, {parameters / 1e6:,.1f}M parameters, "
        f"{direction}, inputs up to {loaded.limits[0]} tokens\n"
        f"memory: {_gigabytes(fixed)} for weights, gradients and optimiser in {precision}, "
        f"{_gigabytes(moving)} for the activations of {positions:,} positions (--positions){each}"
    )


def _lengths(dataset: LocalDataset, split: str, loaded: Loaded) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the lengths of a sample of a split's inputs, in tokens; query and document together for pairs."""
    task = dataset.dataset.task
    if task == "IR" and split != "train":
        table = dataset.corpus if split == "corpus" else dataset.queries(split)
    else:
        table = dataset.train if split == "train" else dataset.tables[split]
    step = max(1, table.num_rows // _SAMPLE)
    rows = table.take(np.arange(0, table.num_rows, step)[:_SAMPLE]).to_pylist()
    if task == "SC":
        texts = [classification_text(dataset.name, row["first"], row["second"]) for row in rows]
    elif task == "TC":
        texts = [" ".join(row["words"]) for row in rows]
    elif task == "QA":
        texts = [question_text(row["question"]) + row["context"] for row in rows]
    elif split == "train":
        texts = [query_text(row["query"]) for row in rows]
        positives = [document_text(row["positive"]) for row in rows]
        both = encode_texts(loaded.tokenizer, positives, loaded.limits[0]).lengths
        return both + encode_texts(loaded.tokenizer, texts, loaded.limits[0]).lengths
    elif split == "corpus":
        texts = [document_text(row["text"], row["title"]) for row in rows]
    else:
        texts = [query_text(row["text"]) for row in rows]
    return encode_texts(loaded.tokenizer, texts, loaded.limits[0]).lengths


def _size(dataset: LocalDataset, split: str) -> int:
    rows: int = (dataset.queries(split) if dataset.dataset.task == "IR" else dataset.tables[split]).num_rows
    return rows


def _flops(encoder: Encoder, trained: int, evaluated: int) -> float:
    embedding = encoder.base.get_input_embeddings().weight.numel()  # type: ignore[operator]
    body = sum(p.numel() for p in encoder.parameters()) - embedding
    return float(body) * (6.0 * trained + 2.0 * evaluated)


def _cpu_tflops() -> float:
    matrix = torch.randn(1_024, 1_024)
    matrix @ matrix
    start = time.perf_counter()
    for _ in range(4):
        matrix @ matrix
    return 4 * 2 * 1_024**3 / (time.perf_counter() - start) / 1e12 / 4


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
