"""Check everything that a run needs, and estimate its time and memory, without a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from benchmarks.datasets.local_dataset import LocalDataset
from benchmarks.datasets.local_dataset import load as load_data
from benchmarks.finetuning.device import PRECISIONS, DeviceKind, Precision, choose_kind
from benchmarks.finetuning.encoders import Encoder, LoadedModel, load
from benchmarks.finetuning.heads import HEADS, POOLINGS, HeadKind, Pooling
from benchmarks.finetuning.tokenization import encode_texts, end_of_text
from benchmarks.sweep.jobs import check_finished, check_sources, descriptions, jobs_of
from benchmarks.sweep.request import Request
from benchmarks.sweep.run_state import is_done
from benchmarks.sweep.work import check_labels
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.families import family_of, fine_tuning_steps
from common.errors import UserError, first_line
from common.progress import progress

__all__ = ["Workload", "activation_bytes", "check_special_tokens", "dry_run", "validate", "workload"]

_SAMPLE = 256


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


def validate(request: Request, tflops: float | None = None) -> Iterator[str]:
    """Check everything that a run needs, and yield lines that estimate its time and memory.

    Args:
        request: what a run would do.
        tflops: sustained TFLOP/s of the device; None for a default by device.

    Raises:
        UserError: the first thing that a run would stumble over.
    """
    _ = POOLINGS[request.pooling]
    kind = choose_kind(request.device)
    precision = PRECISIONS[kind.precision if request.precision == "auto" else request.precision]
    check_sources(request)
    sources = progress(request.sources, "checking data", unit="dataset")
    sets = {name: load_data(request.data, request.known[name]) for name in sources}
    for dataset in sets.values():
        check_labels(dataset)
    check_finished(request, descriptions(request))
    loaded = load(
        request.model,
        revision=request.revision,
        trust_remote_code=request.trust_remote_code,
        max_length=request.fine_tuning.max_length,
    )
    check_special_tokens(loaded)
    pooling, head = POOLINGS[request.pooling], HEADS[request.head]
    # Datasets of one form differ in the number of labels alone.
    for dataset in {sets[name].dataset.form: sets[name] for name in request.datasets}.values():
        dry_run(dataset, loaded, precision, pooling, head)
    for dataset in sets.values():
        family_of(dataset.dataset).check(dataset, loaded)
    rate = 1e12 * (tflops or kind.tflops or _measured_tflops())
    yield from _describe(request, loaded, precision, kind)
    yield f"{'dataset':14}{'steps':>7}{'trained':>12}{'evaluated':>12}{'longest':>9}{'runs':>6}{'hours':>8}"
    total = 0.0
    for job in jobs_of(request):
        for number, name in enumerate(job.datasets):
            work = workload(sets[job.trained_on], sets[name], loaded, request)
            left = sum(not is_done(request.store, key) for key in job.keys if key.dataset == name)
            # The fine-tuning that retrieval datasets share counts once.
            flops = _flops(loaded.encoder, 0 if number else work.trained, work.evaluated)
            hours = left * flops / rate / 3600
            total += hours
            yield (f"{name:14}{work.steps:7}{work.trained:12,}{work.evaluated:12,}{work.longest:9}"
                   f"{left:6}{hours:8.2f}")  # fmt: skip
    yield f"about {total:.2f} hours in all at {rate / 1e12:.3g} TFLOP/s; everything a run needs is there"


def check_special_tokens(loaded: LoadedModel) -> None:
    """Check that the end of text is one token of the vocabulary, and that padding has a row.

    Raises:
        UserError: texts would end in pieces, in the unknown token, or in an id that the model has no row for.
    """
    rows = loaded.encoder.base.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    for tokenizer in (loaded.tokenizer, loaded.retrieval_tokenizer):
        end = end_of_text(tokenizer)
        ids = tokenizer(f"a{end}", add_special_tokens=False)["input_ids"]
        number = tokenizer.convert_tokens_to_ids(end)
        if ids[-1] != number or number == tokenizer.unk_token_id:
            raise UserError(
                f"{loaded.source}: the end of text {end!r} is not one token of the vocabulary, so that texts would "
                "end in pieces of it; add it to tokenizer.json as a special token"
            )
        if max(number, tokenizer.pad_token_id) >= rows:
            raise UserError(
                f"{loaded.source}: the end of text or the padding has an id behind the {rows} rows of the embedding; "
                "set eos_token and pad_token in tokenizer_config.json to tokens that the model knows"
            )


@torch.no_grad()
def dry_run(
    dataset: LocalDataset, loaded: LoadedModel, precision: Precision, pooling: Pooling, head: HeadKind
) -> int:
    """Put an input of the largest length that a run may have through the model with the dataset's head.

    A row of the training or the evaluation data is repeated up to that length, computed on the CPU in the precision of
    the run, and the weights are as they were afterwards.

    Args:
        dataset: what is evaluated.
        loaded: the model.
        precision: of the run.
        pooling: of the run.
        head: of the run.

    Returns:
        The length, in tokens.

    Raises:
        UserError: the model cannot read so many tokens, or its outputs are not finite.
    """
    family = family_of(dataset.dataset)
    part, table = next(iter(family.evaluated(dataset).items()))
    text = family.texts(dataset.dataset, part, table.slice(0, 1).to_pylist()[0])[0]
    limits = loaded.limits
    length = (
        max(limits.retrieval, limits.paper_retrieval) if dataset.dataset.labels is None else limits.labelled
    )
    found = loaded.tokenizer(text or "a", add_special_tokens=False)["input_ids"] or [
        loaded.tokenizer.pad_token_id
    ]
    ids = torch.from_numpy(np.resize(np.array(found, dtype=np.int64), (1, length)))
    encoder = loaded.encoder
    made = family.head(dataset.dataset, encoder, pooling, head)
    if made is not None:
        made.draw(encoder.init_std, 0)
    model = TaskModel(encoder, made)
    was_training = model.training
    before = {name: p.data for name, p in model.named_parameters()}
    try:
        for parameter in model.parameters():
            parameter.data = parameter.data.to(precision.weights)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast):
            out: Tensor = model.eval()(ids, torch.tensor([length]))
    except (IndexError, RuntimeError, ValueError, TypeError) as error:
        raise UserError(
            f"{loaded.source} cannot read {length} tokens, the most of an input of {dataset.name}: "
            f"{first_line(error)}; --max-length sets fewer, or set max_position_embeddings in config.json and "
            "model_max_length in tokenizer_config.json to what the model has"
        ) from None
    finally:
        for name, parameter in model.named_parameters():
            parameter.data = before[name]
        model.train(was_training)
    if not bool(torch.isfinite(out).all()):
        raise UserError(
            f"the outputs of {loaded.source} for {length} tokens are not finite in {precision.name}; try --precision "
            "mixed or fp32"
        )
    return length


def workload(
    trained_on: LocalDataset, dataset: LocalDataset, loaded: LoadedModel, request: Request
) -> Workload:
    """Count the tokens of one run on samples of the splits."""
    family = family_of(dataset.dataset)
    steps = fine_tuning_steps(trained_on, request.fine_tuning)
    train = _lengths(trained_on, "train", trained_on.train, loaded)
    parts = [
        (_lengths(dataset, name, table, loaded), table.num_rows)
        for name, table in family.evaluated(dataset).items()
    ]
    return Workload(
        steps=steps,
        trained=round(steps * request.fine_tuning.batch * train.mean()),
        evaluated=round(family.evaluations * sum(size * lengths.mean() for lengths, size in parts)),
        longest=int(max(lengths.max() for lengths in (train, *(lengths for lengths, _ in parts)))),
    )


def activation_bytes(encoder: Encoder, precision: Precision, length: int = 64) -> int:
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
    outputs = []
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast),
    ):
        outputs.append(encoder(ids, lengths))
    return sum(seen.values()) // length


def _describe(request: Request, loaded: LoadedModel, precision: Precision, kind: DeviceKind) -> Iterator[str]:
    parameters = sum(p.numel() for p in loaded.encoder.parameters())
    positions = request.positions or kind.positions
    # Weights, the copy they are reset from, gradients, and AdamW's two moments.
    fixed = parameters * 5 * precision.weights.itemsize
    moving = activation_bytes(loaded.encoder, precision) * positions
    each = " (each of the runs that --workers computes side by side)" if not kind.gpu else ""
    base = type(loaded.encoder.base).__name__
    direction = "causal mask lifted" if loaded.encoder.lifted else "bidirectional"
    yield (
        f"model {request.name}: {base}, {parameters / 1e6:,.1f}M parameters, "
        f"{direction}, inputs up to {loaded.limits.labelled} tokens"
    )
    yield (
        f"memory: {_gigabytes(fixed)} for weights, gradients and optimiser in {precision.name}, "
        f"{_gigabytes(moving)} for the activations of {positions:,} positions (--positions){each}"
    )


def _lengths(
    dataset: LocalDataset, part: str, table: pa.Table, loaded: LoadedModel
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the lengths of a sample of a part's rows, in tokens: all texts of a row together."""
    step = max(1, table.num_rows // _SAMPLE)
    rows = table.take(np.arange(0, table.num_rows, step)[:_SAMPLE]).to_pylist()
    texts = [family_of(dataset.dataset).texts(dataset.dataset, part, row) for row in rows]
    columns = zip(*texts, strict=True)
    lengths = [encode_texts(loaded.tokenizer, column, loaded.limits.labelled).lengths for column in columns]
    total: np.ndarray[Any, np.dtype[np.int64]] = np.sum(lengths, axis=0)
    return total


def _flops(encoder: Encoder, trained: int, evaluated: int) -> float:
    embedding = encoder.base.get_input_embeddings().weight.numel()  # type: ignore[operator]
    body = sum(p.numel() for p in encoder.parameters()) - embedding
    return float(body) * (6.0 * trained + 2.0 * evaluated)


def _measured_tflops() -> float:
    """Return a quarter of the rate of large matrix products on this CPU: about what fine-tuning sustains."""
    matrix = torch.randn(1_024, 1_024)
    matrix @ matrix
    start = time.perf_counter()
    for _ in range(4):
        matrix @ matrix
    return 2 * 1_024**3 / (time.perf_counter() - start) / 1e12


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
