"""Hours of fine-tuning and its evaluations on a GPU; those of pretraining are `Plan.costs`, where stages are planned.

Both follow from one speed, `Device.tokens_per_second`. What commands say that something takes is a sum of these two:
`plan`, `adapt`, a study's jobs and its status.
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
"""Mean tokens of an instance, in retrieval of a query and its share of the documents: by Llama 3's tokenizer on
thousands of instances (ReCoRD 32, MS MARCO 200); OntoNotes and CoNLL by their words, MLDR by the longest input."""

# Measured on an H100 (docs/maintainers.md); hours of other devices are scaled by their makers' rates.
_STEP_SECONDS = {4: 0.043, 2: 0.051, 1: 0.100}
"""Of a step of 610M on short texts on an H100, by the number of runs that share it."""
_BUSY_SECONDS = 0.027
"""Of these 0.1 the GPU computes; the rest is the host's, however fast the GPU."""
_RUN_SECONDS = 10.0
"""To set a model back, and to write results."""
_OF_PRETRAINING = 0.75
"""Share of pretraining's rate that long texts reach, whose padding is computed too."""

_PARAMETER_BYTES, _ACTIVATION_BYTES, _POSITIONS = 10, 37, 16_384
"""Of a run in bf16: by parameter, and by position, layer and channel of its largest pass; 23 GB for 610M."""


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
    memory = 0.95e9 * (device.memory_gb or 1e3)
    most = min(cores, int(memory / run_bytes))
    return next((runs for runs in _STEP_SECONDS if runs <= most), 1)


def tuning_hours(
    shape: Shape, datasets: Iterable[str], device: Device, runs: int
) -> float:
    """Return the hours of a GPU that one rate and seed take on some datasets, on the high side.

    Args:
        shape: the model's.
        datasets: those that it is measured on, after one fine-tuning for all that are trained on the same.
        device: the GPU, and what pretraining reaches on it.
        runs: how many share the GPU, of `runs_at_a_time`.
    """
    measured: dict[str, list[str]] = {}
    for name in datasets:
        measured.setdefault(DATASETS[name].trained_on, []).append(name)
    return sum(
        _run_hours(shape, source, names, device, runs)
        for source, names in measured.items()
    )


def _run_hours(
    shape: Shape, source: str, measured: list[str], device: Device, runs: int
) -> float:
    """Return the hours of one fine-tuning on a dataset and of its evaluations on others."""
    trained_on = DATASETS[source]
    steps = FINE_TUNING.steps
    if trained_on.epochs:
        steps = trained_on.epochs * trained_on.counts["train"] // FINE_TUNING.batch

    def flops(name: str, rows: int) -> float:
        length = TOKENS[name]
        a_token = model_flops_per_token(shape, length=length, predicted=0.0)
        return rows * length * a_token

    evaluated = 0.0
    for name in measured:
        counts = DATASETS[name].counts
        evaluated += flops(name, counts["validation"] + counts["test"])
    # A forward pass is a third of a training step.
    computed = flops(source, steps * FINE_TUNING.batch) + evaluated / 3
    # On short texts the GPU waits for the host, which launches each layer's kernels: more layers, more waiting.
    usual = SHAPES["610m"]
    launching = _STEP_SECONDS[runs] * shape.layers / usual.layers
    slower = _BUSY_SECONDS * H100.peak / device.peak
    busy = slower * shape.body_parameters / usual.body_parameters
    waited = steps * max(launching, busy)
    tokens = device.tokens_per_second(shape, predicted=0.4)
    reached = tokens * model_flops_per_token(shape, predicted=0.4)
    return (_RUN_SECONDS + waited + computed / (reached * _OF_PRETRAINING)) / 3_600
