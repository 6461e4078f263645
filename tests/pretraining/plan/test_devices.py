from __future__ import annotations

import pytest

from common.errors import UserError
from pretraining.plan.devices import DEVICES, find_device, peak_flops


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989.4e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989.4e12),
        ("NVIDIA GH200 480GB", 989.4e12),
        ("AMD Instinct MI250X", 191.5e12),
        ("AMD Instinct MI250X/MI250", 191.5e12),
        ("AMD Instinct MI300X", 1307.4e12),
        ("NVIDIA L40S", 362.05e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8e12),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 3060", None),
        ("cpu", None),
    ],
)
def test_peaks_by_the_name_torch_prints(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


def test_a_device_is_found_in_any_case_and_any_other_needs_its_rate() -> None:
    assert find_device("rtx 4090") == DEVICES["RTX 4090"]
    with pytest.raises(UserError, match=r"--tflops; did you mean 'RTX 4090'"):
        find_device("RTX 4091")
    other, faster = find_device("mine", 494.7), find_device("H100", 1_978.8)
    assert other.memory_gb is None and other.peak == 494.7e12
    assert other.bandwidth == pytest.approx(DEVICES["H100"].bandwidth / 2)
    assert faster.bandwidth == DEVICES["H100"].bandwidth and faster.memory_gb == 80
