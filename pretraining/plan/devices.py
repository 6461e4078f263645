"""GPUs by name: what their makers publish, how fast each trains a model, and what fits in its memory.

The time of a step is estimated in two parts. First it is counted as the sum of the times of matrix products, of
attention, and of reading and writing memory. Each of the three runs at a share of the device's published rate; a trace
of the 610M model on an H100 showed these shares (docs/maintainers.md). Then the counted speed is multiplied by the
share of it that measured trainings reached (`reached`). Each of the three measured sizes, when left out of that share,
is predicted within 5 %.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from common.errors import UserError, nearest
from pretraining.paper_settings import (
    GPU_HOURS,
    SHAPES,
    TRAINING,
    Shape,
    effective_length,
)
from pretraining.plan.flops import model_flops_per_token

MEASURED_SPEEDS = {"210m": 308_000.0, "610m": 105_500.0, "1b": 60_000.0}
"""Tokens/s of one H100 with MLM at 40 % and the default settings, by size (docs/maintainers.md)."""

# Measured rates over an H100's 989.4 TFLOP/s and 3.35 TB/s.
_PRODUCTS, _ATTENTION, _MEMORY = 753 / 989.4, 175 / 989.4, 2.1 / 3.35
"""Shares of the peak rate that matrix products and attention reach, and share of the memory's bandwidth."""
_HOST_SECONDS = 0.002
"""Seconds that the host (Python and the driver) takes to launch a layer's kernels in one pass; measured with a stand-in
for the GPU."""
_PLAIN_MOVED, _PLAIN_HOST_SECONDS = 5.5, 0.005
"""For blocks that are not compiled, such as transformers' own: how many times as many bytes they read and write, and
the host's seconds for a layer. Fits a Llama of 135M on an H100 in passes of 6,144, 16,384 and 32,768 tokens within
10 % (docs/maintainers.md)."""
_PASS_TOKENS, _FULL = TRAINING.device_batch * TRAINING.max_length, 0.95
"""Most tokens of a pass in the measured trainings, and the share of these tokens that passes have on average."""
# Fit the three sizes of docs/maintainers.md, on one and two GPUs, within 5 % (bf16, compiled blocks, MLM at 40 %).
_PARAMETER_BYTES, _REDUCED_BYTES, _BLOCK_BYTES, _LOGIT_BYTES = 16, 6, 36, 1.6
"""Bytes of GPU memory: for a parameter (weight, gradient and AdamW's two moments in float32); for a parameter in
addition where several GPUs sum gradients; for a token in each layer and channel; for a token and an entry of the
vocabulary."""
_FILLED = 0.9
"""Share of a GPU's free memory that training may take: the allocator cannot fill the rest."""
_MOST = 2**16
"""Tokens of a pass above which training gets no faster."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU, as a program sees it."""

    name: str
    """Name that `--device` takes."""
    peak: float
    """Dense bf16 FLOP/s with sums in float32."""
    bandwidth: float
    """Bytes/s of its memory."""
    memory_gb: float | None
    """GB of the smallest GPU of the name; None: not known."""
    mfu: float | None = None
    """Share of its peak rate that every training reaches; None: by size and objective."""

    def basis(self, shapes: Iterable[Shape]) -> str:
        """Return in words where the estimated speed comes from, for models of these shapes."""
        if self.mfu is not None:
            return f"from --mfu {self.mfu:g}"
        if self.name == "MI250X":
            return "estimated from the paper's own hours"
        # The comparison is of all fields: an H100 with another peak rate (`find_device`) was not measured
        # either.
        if self != H100:
            return "estimated from an H100's speeds and data sheets"
        measured = [SHAPES[size] for size in MEASURED_SPEEDS]
        if all(shape in measured for shape in shapes):
            return "from speeds measured on this device"
        return "estimated from other sizes' speeds on this device"

    def tokens_per_second(
        self,
        shape: Shape,
        *,
        predicted: float,
        length: float | None = None,
        pass_tokens: int = _PASS_TOKENS,
        compiled: bool = True,
    ) -> float:
        """Return the tokens/s of training.

        Args:
            shape: the model's shape.
            predicted: share of positions that pass the head: 1 for CLM, the masking ratio for MLM.
            length: mean length of the sequence that a token is in, `effective_length()` when left out.
            pass_tokens: most tokens of one forward and backward pass.
            compiled: whether the model's blocks are compiled.
        """
        length = effective_length() if length is None else length
        if self.mfu is not None:
            flops = model_flops_per_token(shape, length=length, predicted=predicted)
            return self.mfu * self.peak / flops
        counted_seconds = _seconds(
            shape, self, predicted, length, pass_tokens, compiled=compiled
        )
        return reached(self.name) / counted_seconds


# NVIDIA: data sheets of A100, H100, H200, GH200, HGX B200, L40S, L4, A10, RTX A6000; appendices of the
# Ampere GA102, Ada and RTX Blackwell white papers. Older ones, as the T4, have no bf16.
# GeForce cards halve their rate where sums are float32, as in training, so the headline figure is twice this one.
# AMD: data sheets of MI250X, which is two devices (GCDs) of half its rate, memory and bandwidth, and of MI300X.
DEVICES: dict[str, Device] = {
    name: Device(name=name, peak=tflops * 1e12, bandwidth=tb * 1e12, memory_gb=gb)
    for name, tflops, gb, tb in (
        ("A100", 312, 40, 1.555),
        ("A100 80GB", 312, 80, 1.935),
        ("H100", 989.4, 80, 3.35),
        ("H100 PCIe", 756, 80, 2.0),
        ("H100 NVL", 835, 94, 3.9),
        ("H200", 989.4, 141, 4.8),
        ("GH200", 989.4, 96, 4.0),
        ("B200", 2250, 180, 7.7),
        ("L40S", 362.05, 48, 0.864),
        ("L4", 121, 24, 0.3),
        ("A10", 125, 24, 0.6),
        ("RTX A6000", 154.8, 48, 0.768),
        ("RTX 3090", 71, 24, 0.936),
        ("RTX 4090", 165.2, 24, 1.008),
        ("RTX 5090", 209.5, 32, 1.792),
        ("RTX PRO 6000", 503.8, 96, 1.792),
        ("MI250X", 191.5, 64, 1.6),
        ("MI300X", 1307.4, 192, 5.3),
    )
}
"""The devices that hours can be estimated for."""
H100 = DEVICES["H100"]
"""The one that was measured."""


def find_device(name: str, tflops: float | None = None) -> Device:
    """Return the device of that name, with another peak rate where one is given.

    Args:
        name: a key of `DEVICES`, in upper or lower case; with `tflops`, also the name of an unknown device.
        tflops: dense bf16 TFLOP/s, in place of the known rate.

    Raises:
        UserError: the device is unknown, and no rate is given.
    """
    known = {key.lower(): device for key, device in DEVICES.items()}
    device = known.get(name.lower())
    if device is None and tflops is None:
        raise UserError(
            f"unknown device {name!r}; devices are {', '.join(DEVICES)}; give the dense bf16 rate of any other as "
            f"--tflops{nearest(name, DEVICES)}"
        )

    # An unknown device has an H100's data until its own rate, and the bandwidth that follows, replace them below.
    if device is None:
        device = replace(H100, name=name, memory_gb=None)
    if tflops is None:
        return device
    peak = tflops * 1e12
    bandwidth = device.bandwidth
    if name.lower() not in known:
        # The bandwidth of an unknown GPU is guessed: as many bytes for each FLOP as an H100 has (its data stand above).
        bandwidth = device.bandwidth * peak / device.peak

    return replace(device, peak=peak, bandwidth=bandwidth)


def device_of(name: str) -> Device | None:
    """Return the device that torch calls by a name, or None when the device is unknown.

    `NVIDIA H100 80GB HBM3` is an H100, `NVIDIA H100 PCIe` a slower one, `AMD Instinct MI250X` one GCD. A laptop's GPU
    is slower than the card whose name it has, and is unknown.
    """
    words = name.replace("-", " ").replace("/", " ").split()
    # The devices of whose names all words stand in torch's.
    matches = [known for known in DEVICES if set(known.split()) <= set(words)]
    if not matches or "Laptop" in words:
        return None
    # The longest match: `H100 PCIe` rather than `H100`.
    return DEVICES[max(matches, key=len)]


def mfu(
    tokens_per_second: float, flops_per_token: float, device_name: str, devices: int = 1
) -> float | None:
    """Return model FLOPs utilisation, 0 to 1, of a job on a number of equal devices; None for an unknown device."""
    device = device_of(device_name)
    if device is None:
        return None
    return tokens_per_second * flops_per_token / (device.peak * devices)


def _seconds(
    shape: Shape,
    device: Device,
    predicted: float,
    length: float,
    pass_tokens: int,
    *,
    compiled: bool = True,
) -> float:
    """Return the counted seconds that a device takes for a token, forward and backward.

    They are the GPU's time for matrix products, attention and memory, or the time in which the host launches them if
    that is longer. The arguments are those of `Device.tokens_per_second`.
    """
    width = shape.heads * shape.head_dim
    kv_width = shape.kv_heads * shape.head_dim
    layer_host_seconds, times_moved = _HOST_SECONDS, 1.0
    if not compiled:
        layer_host_seconds, times_moved = _PLAIN_HOST_SECONDS, _PLAIN_MOVED

    # FLOPs of a token, counted as in `model_flops_per_token`.
    products = 6 * (shape.body_parameters + predicted * shape.embedding_parameters)
    attention = 12 * shape.layers * width * length
    products_seconds = products / (_PRODUCTS * device.peak)
    attention_seconds = attention / (_ATTENTION * device.peak)

    # Bytes that a token reads and writes, forward and backward. The factors are bytes for each channel: 2 in
    # bf16 or 4 in float32 (the residual), each time that a kernel reads or writes it. `tests/speed/budget.py`
    # counts a step in this way, kernel by kernel.
    norms_and_residual = 56 * shape.hidden
    rotary = 16 * (width + kv_width)
    swiglu = 18 * shape.mlp
    layer_bytes = norms_and_residual + rotary + swiglu
    # Logits have a channel for each entry of the vocabulary, and only predicted positions have logits.
    logits_bytes = 8 * predicted * shape.vocab
    moved_bytes = shape.layers * layer_bytes * times_moved + logits_bytes

    # In each pass weights are cast to bf16 and gradients are added up: 22 bytes for each parameter, of which
    # a token has a share.
    pass_length = _FULL * pass_tokens
    moved_bytes += 22 * shape.trained_parameters / pass_length
    memory_seconds = moved_bytes / (_MEMORY * device.bandwidth)

    host_seconds = layer_host_seconds * shape.layers / pass_length
    return max(products_seconds + attention_seconds + memory_seconds, host_seconds)


@cache
def reached(name: str, left_out: str = "") -> float:
    """Return the share of the counted speed that measured trainings reached.

    For an MI250X it follows from the hours that the paper states, for all other devices from speeds on one H100.

    Args:
        name: name of the device.
        left_out: a measured size that is not used, so that it can be predicted from the others.
    """
    length = effective_length()
    if name == "MI250X":
        # The hours that are counted for the paper's 15 base models (four masking ratios and CLM in each size), divided
        # by the hours that the paper states for them. They were trained with another program than this one.
        tokens = 42_000 * TRAINING.tokens_per_step
        hours = 0.0
        for shape in SHAPES.values():
            for share in (0.2, 0.3, 0.4, 0.5, 1.0):
                seconds = _seconds(shape, DEVICES[name], share, length, _PASS_TOKENS)
                hours += tokens * seconds / 3600
        return hours / GPU_HOURS["base models"]

    # The geometric mean over the sizes: measured tokens/s times counted seconds of a token is the share for one size.
    logs = []
    for size, speed in MEASURED_SPEEDS.items():
        if size != left_out:
            # 0.4: the speeds were measured with MLM at 40 %.
            seconds = _seconds(SHAPES[size], H100, 0.4, length, _PASS_TOKENS)
            logs.append(math.log(speed * seconds))

    return math.exp(sum(logs) / len(logs))


def gradient_seconds(
    shape: Shape, device: Device, processes: int, network: float
) -> float:
    """Return the seconds of a step in which processes wait while they sum their float32 gradients over a ring.

    It is assumed that nothing else is computed meanwhile.

    Args:
        shape: the model's shape.
        device: the device of each process.
        processes: number of processes.
        network: bytes/s between nodes, of each process; infinite for a network whose time is not counted.
    """
    # The speed of an MI250X follows from the paper's hours on 192 of them, in which this time is included.
    if device.name == "MI250X":
        return 0.0
    # A ring sends all but one share of the gradients twice: once to add them up, once to give out the sums.
    times_sent = 2 * (processes - 1) / processes
    return times_sent * 4 * shape.trained_parameters / network


def training_gb(shape: Shape, pass_tokens: int, *, several: bool = False) -> float:
    """Return the GB of a GPU's memory that training takes.

    Args:
        shape: the model's shape.
        pass_tokens: most tokens of one forward and backward pass.
        several: whether several GPUs share the work.
    """
    parameter_bytes = _PARAMETER_BYTES
    if several:
        parameter_bytes += _REDUCED_BYTES
    fixed_bytes = shape.trained_parameters * parameter_bytes
    blocks_bytes = _BLOCK_BYTES * shape.layers * shape.hidden
    token_bytes = blocks_bytes + _LOGIT_BYTES * shape.vocab
    return (fixed_bytes + pass_tokens * token_bytes) / 1e9


def largest_microbatch(
    shape: Shape,
    free_gb: float,
    length: int,
    *,
    most: int | None = None,
    several: bool = False,
) -> int:
    """Return the most sequences that one pass may have in a GPU's free memory, 0 where not even one fits.

    Args:
        shape: the model's shape.
        free_gb: the GPU's free memory; infinite where it is not known.
        length: tokens of the longest sequence.
        most: the largest number to return; when left out, the number above which training gets no faster.
        several: whether several GPUs share the work.
    """
    fixed_gb = training_gb(shape, 0, several=several)
    each_gb = training_gb(shape, length, several=several) - fixed_gb
    return sequences_that_fit(
        free_gb, length, fixed_gb=fixed_gb, each_gb=each_gb, most=most
    )


def sequences_that_fit(
    free_gb: float,
    length: int,
    *,
    fixed_gb: float,
    each_gb: float,
    most: int | None = None,
) -> int:
    """Return the most sequences that one pass may have in a GPU's free memory, 0 where not even one fits.

    Args:
        free_gb: the GPU's free memory; infinite where it is not known.
        length: tokens of the longest sequence.
        fixed_gb: memory that training takes whatever the size of a pass.
        each_gb: memory that each sequence of a pass adds.
        most: the largest number to return; when left out, the number above which training gets no faster.
    """
    if most is None:
        most = max(1, _MOST // length)
    left_gb = _FILLED * free_gb - fixed_gb
    if left_gb == math.inf:
        return most
    fits = math.floor(left_gb / each_gb)
    return max(0, min(most, fits))
