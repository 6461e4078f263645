"""Hours of fine-tuning and its evaluations on a GPU; hours of pretraining are `Plan.costs`, where stages are planned.

Both kinds of hours follow from one speed, `Device.tokens_per_second`. `plan`, `adapt`, a study's jobs and its status
show the sum of both.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.protocol import DATASETS, FINE_TUNING
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.devices import H100, Device
from pretraining.plan.flops import model_flops_per_token

TOKENS = {
    "sst2": 25,
    "qqp": 36,
    "mnli_m": 45,
    "ontonotes": 22,
    "conll2003_en": 20,
    "uner_en": 19,
    "squad": 183,
    "squad_v2": 191,
    "record": 256,
    "nq": 150,
    "msmarco": 180,
    "mldr_en": 2_060,
}
"""Mean tokens of an instance; in retrieval, of a query together with its share of the documents.

Counted by Llama 3's tokenizer on thousands of instances (ReCoRD: 32, MS MARCO: 200), but for OntoNotes and CoNLL, where
words are counted, and MLDR, which has the longest input."""

# Measured on an H100 (docs/maintainers.md); hours of other devices are scaled by their makers' rates.
_STEP_SECONDS = {4: 0.043, 2: 0.051, 1: 0.100}
"""Seconds of an H100 that one step of 610M on short texts takes, by the number of runs that share the GPU.

A run that shares it is charged its part of the time only: two runs together take 0.102 seconds for a step of each.
Most runs first."""
_BUSY_SECONDS = 0.027
"""Seconds in which the GPU computes during the 0.100 of a run without company; for the rest it waits for the host."""
_RUN_SECONDS = 10.0
"""Seconds of a run outside of steps and evaluations: to reset the model and to write results."""
_OF_PRETRAINING = 0.75
"""Share of pretraining's FLOP/s that fine-tuning on long texts reaches, because padding is computed as well."""

_PARAMETER_BYTES, _ACTIVATION_BYTES, _POSITIONS = 10, 37, 16_384
"""Memory of a run in bf16: bytes for each parameter, bytes for each position, layer and channel of the largest forward
pass, and the positions of that pass. Together they make 23 GB for 610M."""


def runs_at_a_time(shape: Shape, device: Device, cores: int) -> int:
    """Return how many fine-tunings share a GPU: 4, 2 or 1, as its memory and its cores allow.

    Args:
        shape: the model's.
        device: the GPU; four share it where its memory is not known.
        cores: CPU cores for each GPU; every run keeps one busy.
    """
    parameters = shape.body_parameters + shape.embedding_parameters
    activations = _ACTIVATION_BYTES * _POSITIONS * shape.layers * shape.hidden
    run_bytes = _PARAMETER_BYTES * parameters + activations
    # Runs may take 95 % of the memory; a GB has 1e9 bytes.
    # Where the memory is not known, 1,000 GB stand for it: then only the cores are a limit.
    usable_bytes = 0.95e9 * (device.memory_gb or 1e3)
    most = min(cores, int(usable_bytes / run_bytes))
    # The keys are numbers of runs, the largest first: the first one that is possible is the most.
    for runs in _STEP_SECONDS:
        if runs <= most:
            return runs
    # By this estimate not even one run fits, or there is no core: one is the least.
    return 1


def tuning_hours(
    shape: Shape, datasets: Iterable[str], device: Device, runs: int
) -> float:
    """Return the hours of a GPU that one learning rate and seed take on some datasets, on the high side.

    Args:
        shape: the model's.
        datasets: names of the datasets that the model is scored on. Datasets with the same training data share one
            fine-tuning.
        device: the GPU, and what pretraining reaches on it.
        runs: how many fine-tunings share the GPU, as `runs_at_a_time` returns it.
    """
    scored: dict[str, list[str]] = {}
    for name in datasets:
        trained_on = DATASETS[name].trained_on
        scored.setdefault(trained_on, []).append(name)
    return sum(
        _run_hours(shape, trained_on, names, device, runs)
        for trained_on, names in scored.items()
    )


def _run_hours(
    shape: Shape, trained_on: str, scored: list[str], device: Device, runs: int
) -> float:
    """Return the hours of a fine-tuning on the dataset `trained_on` and of its evaluations on those of `scored`.

    They are hours of the GPU, which `runs` fine-tunings share: each counts only its part of the time.
    """
    training = DATASETS[trained_on]
    steps = FINE_TUNING.steps
    if training.epochs:
        steps = training.epochs * training.counts["train"] // FINE_TUNING.batch

    def training_flops(name: str, rows: int) -> float:
        """Return the FLOPs of training on so many rows of a dataset."""
        length = TOKENS[name]
        # `predicted` is the share of positions that pass the head over the vocabulary: none in fine-tuning.
        flops_per_token = model_flops_per_token(shape, length=length, predicted=0.0)
        return rows * length * flops_per_token

    # The FLOPs that the evaluated rows would take if they were trained on.
    as_if_trained = 0.0
    for name in scored:
        counts = DATASETS[name].counts
        as_if_trained += training_flops(name, counts["validation"] + counts["test"])

    # Evaluation is only a forward pass, a third of the FLOPs of training on the same rows.
    flops = training_flops(trained_on, steps * FINE_TUNING.batch) + as_if_trained / 3
    # On short texts a step takes the longer of two times, both measured with 610M on an H100. The host launches each
    # layer's kernels, so its time grows with the layers; the GPU's own time grows with the parameters.
    measured = SHAPES["610m"]
    launching = _STEP_SECONDS[runs] * shape.layers / measured.layers
    device_seconds = _BUSY_SECONDS * H100.peak / device.peak
    computing = device_seconds * shape.body_parameters / measured.body_parameters
    short_texts = steps * max(launching, computing)

    # On long texts the FLOPs decide, at the rate of MLM with 40 % masked, whose speed was measured on an H100. The
    # times for short and for long texts are added whatever the dataset, so the hours are on the high side.
    tokens_per_second = device.tokens_per_second(shape, predicted=0.4)
    pretraining_rate = tokens_per_second * model_flops_per_token(shape, predicted=0.4)
    long_texts = flops / (pretraining_rate * _OF_PRETRAINING)
    return (_RUN_SECONDS + short_texts + long_texts) / 3_600
