"""GPUs by name: peak rate, memory and bandwidth as their makers publish them.

Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from common.errors import UserError, nearest

__all__ = ["DEVICES", "Device", "find_device", "peak_flops"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU, as a program sees it."""

    name: str
    """As `--device` takes it."""
    peak: float
    """Dense bf16 FLOP/s with sums in float32."""
    bandwidth: float
    """Bytes/s of its memory."""
    memory_gb: float | None
    """GB of the smallest GPU of the name; None: not known."""


# NVIDIA: data sheets of A100, H100, H200, GH200, HGX B200, L40S; appendices of the Ada and RTX Blackwell white papers.
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
        ("RTX 4090", 165.2, 24, 1.008),
        ("RTX 5090", 209.5, 32, 1.792),
        ("RTX PRO 6000", 503.8, 96, 1.792),
        ("MI250X", 191.5, 64, 1.6),
        ("MI300X", 1307.4, 192, 5.3),
    )
}
"""The devices that hours can be estimated for."""


def find_device(name: str, tflops: float | None = None) -> Device:
    """Return the device of that name, with another peak rate where one is given.

    Args:
        name: a key of `DEVICES`, in any case; with `tflops` any other name, whose memory then is not known.
        tflops: dense bf16 TFLOP/s.

    Raises:
        UserError: an unknown device without a rate.
    """
    known = {key.lower(): device for key, device in DEVICES.items()}
    device = known.get(name.lower())
    if device is None and tflops is None:
        raise UserError(
            f"unknown device {name!r}; devices are {', '.join(DEVICES)}; give the dense bf16 rate of any other as "
            f"--tflops{nearest(name, DEVICES)}"
        )
    if device is None:
        like = DEVICES["H100"]  # its bytes for each FLOP
        device = replace(like, name=name, memory_gb=None)
    if tflops is None:
        return device
    peak = tflops * 1e12
    bandwidth = device.bandwidth if name.lower() in known else device.bandwidth * peak / device.peak
    return replace(device, peak=peak, bandwidth=bandwidth)


def peak_flops(device_name: str) -> float | None:
    """Return the dense bf16 FLOP/s of the device of that name as torch prints it, or None when it is unknown.

    `NVIDIA H100 80GB HBM3` is an H100, `NVIDIA H100 PCIe` a slower one, `AMD Instinct MI250X` one GCD. A laptop's GPU
    is not the card whose name it bears.
    """
    words = device_name.replace("-", " ").replace("/", " ").split()
    known = [name for name in DEVICES if all(part in words for part in name.split())]
    return DEVICES[max(known, key=len)].peak if known and "Laptop" not in words else None
