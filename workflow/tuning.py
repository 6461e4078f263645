"""How many fine-tunings share a GPU, and how long one takes: by measured lengths and what an H100 was measured at.

docs/performance.md has the measurements; other devices are slower or faster by their makers' rates. Standard library
only.
"""

from __future__ import annotations

from benchmarks.protocol import DATASETS, FINE_TUNING
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.flops import PEAK_FLOPS, model_flops_per_token

__all__ = ["TOKENS", "runs_at_a_time", "tuning_hours"]

TOKENS = {
    "sst2": 25, "qqp": 36, "mnli_m": 45, "ontonotes": 22, "conll2003_en": 20, "uner_en": 19,
    "squad": 183, "squad_v2": 191, "record": 256, "nq": 150, "msmarco": 180, "mldr_en": 2_060,
}  # fmt: skip
"""Mean tokens of an instance, in retrieval of a query and its share of the documents: by Llama 3's tokenizer on
thousands of instances (ReCoRD 32, MS MARCO 200); OntoNotes and CoNLL by their words, MLDR by the longest input."""

_STEP_SECONDS = {4: 0.043, 2: 0.051, 1: 0.100}
"""Of a step of 610M on short texts on an H100, by the number of runs that share it."""
_RUN_SECONDS = 10.0
"""To set a model back, and to write results."""
_OF_PRETRAINING = 0.75
"""Share of pretraining's rate that long texts reach, whose padding is computed too."""

_MEMORY_GB = {
    "A100": 40, "H100": 80, "H100 PCIe": 80, "H100 NVL": 94, "H200": 141, "GH200": 96, "MI250X": 64, "MI300X": 192,
}  # fmt: skip
"""Of the smallest device of the name."""
_PARAMETER_BYTES, _ACTIVATION_BYTES, _POSITIONS = 10, 37, 16_384
"""Of a run in bf16: by parameter, and by position, layer and channel of its largest pass; 23 GB for 610M."""


def runs_at_a_time(shape: Shape, device: str, cores: int) -> int:
    """Return how many fine-tunings share a GPU: 4, 2 or 1, as its memory and its cores allow.

    Args:
        shape: the model's.
        device: a key of `PEAK_FLOPS`.
        cores: CPU cores for each GPU; every run keeps one busy.
    """
    parameters = shape.body_parameters + shape.embedding_parameters
    one = _PARAMETER_BYTES * parameters + _ACTIVATION_BYTES * _POSITIONS * shape.layers * shape.hidden
    most = min(cores, int(0.95e9 * _MEMORY_GB[device] / one))
    return next((runs for runs in _STEP_SECONDS if runs <= most), 1)


def tuning_hours(shape: Shape, datasets: tuple[str, ...], device: str, mfu: float, runs: int) -> float:
    """Return the hours of a GPU that one fine-tuning and its evaluations take, on the high side.

    Args:
        shape: the model's.
        datasets: those that it is measured on; it is trained on what the first is trained on.
        device: a key of `PEAK_FLOPS`.
        mfu: share of the device's peak that pretraining reaches.
        runs: how many share the GPU, of `runs_at_a_time`.
    """
    trained_on = DATASETS[DATASETS[datasets[0]].trained_on]
    steps = FINE_TUNING.steps
    if trained_on.epochs:
        steps = trained_on.epochs * trained_on.counts["train"] // FINE_TUNING.batch

    def flops(name: str, rows: int) -> float:
        return rows * TOKENS[name] * model_flops_per_token(shape, length=TOKENS[name], predicted=0.0)

    # A forward pass is a third of a training step.
    measured = sum(
        flops(name, DATASETS[name].counts["validation"] + DATASETS[name].counts["test"]) for name in datasets
    )
    computed = flops(trained_on.name, steps * FINE_TUNING.batch) + measured / 3
    slower = max(1.0, PEAK_FLOPS["H100"] / PEAK_FLOPS[device])
    waited = steps * _STEP_SECONDS[runs] * slower * shape.layers / SHAPES["610m"].layers
    return (_RUN_SECONDS + waited + computed / (PEAK_FLOPS[device] * mfu * _OF_PRETRAINING)) / 3_600
