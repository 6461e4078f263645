import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pretraining.model.cross_entropy import IGNORE, linear_cross_entropy, rows_per_chunk


def problem(
    rows: int, vocab: int = 50, width: int = 8, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, width, generator=generator, dtype=dtype)
    weight = torch.randn(vocab, width, generator=generator, dtype=dtype)
    labels = torch.randint(0, vocab, (rows,), generator=generator)
    labels[::5] = IGNORE
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def plain(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight).float(), labels, reduction="sum")


@given(rows=st.integers(0, 40), chunk=st.integers(1, 50), scale=st.floats(-3, 3))
def test_value_and_gradient_equal_the_plain_computation(
    rows: int, chunk: int, scale: float
) -> None:
    grads, values = [], []
    for function in (plain, lambda *given_: linear_cross_entropy(*given_, chunk)):
        hidden, weight, labels = problem(rows)
        value = function(hidden, weight, labels)
        (value * scale).backward()
        values.append(value.detach())
        grads.append((hidden.grad, weight.grad))
    torch.testing.assert_close(values[1], values[0], rtol=2e-6, atol=1e-6)
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=3e-6)


def test_autocast_is_that_of_a_plain_head() -> None:
    results = []
    for function in (plain, linear_cross_entropy):
        hidden, weight, labels = problem(64, vocab=200, width=32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = function(hidden, weight, labels)
        value.backward()
        assert value.dtype == torch.float32
        assert weight.grad is not None and weight.grad.dtype == torch.float32
        results.append((value.detach(), hidden.grad, weight.grad))
    for ours, theirs in zip(results[1], results[0], strict=True):
        # bfloat16 keeps 8 bits: the two differ by the rounding of intermediate results only.
        assert (ours - theirs).norm() / theirs.norm() < 4e-3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_equals_eager(dtype: torch.dtype) -> None:
    for rows in (64, 39):
        results = []
        for fused in (False, True):
            hidden, weight, labels = problem(rows, vocab=200, width=32)
            with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
                value = linear_cross_entropy(hidden, weight, labels, 16, fused=fused)
                value.backward()
                with torch.no_grad():
                    unwatched = linear_cross_entropy(
                        hidden, weight, labels, 16, fused=fused
                    )
            torch.testing.assert_close(unwatched, value.detach(), rtol=1e-5, atol=0)
            results.append((value.detach(), hidden.grad, weight.grad))
        for ours, theirs in zip(*results, strict=True):
            assert (ours - theirs).norm() / theirs.norm() < (
                1e-6 if dtype == torch.float32 else 4e-3
            )


def test_large_logits_stay_finite() -> None:
    hidden = torch.tensor([[1000.0, -1000.0]], requires_grad=True)
    weight = torch.eye(2, requires_grad=True)
    loss = linear_cross_entropy(hidden, weight, torch.tensor([1]))
    loss.backward()
    assert loss.item() == 2000
    assert hidden.grad is not None and hidden.grad.tolist() == [[1.0, -1.0]]


def test_frozen_inputs_and_no_grad() -> None:
    hidden, weight, labels = problem(20)
    expected = plain(hidden, weight, labels).detach()
    with torch.no_grad():
        value = linear_cross_entropy(hidden, weight, labels)
    assert not value.requires_grad
    torch.testing.assert_close(value, expected)
    weight.requires_grad_(False)
    linear_cross_entropy(hidden, weight, labels).backward()
    assert hidden.grad is not None and weight.grad is None


def test_logits_never_exist_at_once() -> None:
    rows, vocab, width, chunk = 2000, 5000, 16, 50
    hidden, weight, labels = problem(rows, vocab, width)
    peaks = {}
    for name, call in {
        "plain": lambda: plain(hidden, weight, labels),
        "ours": lambda: linear_cross_entropy(hidden, weight, labels, chunk),
    }.items():
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            call().backward()
        peaks[name] = max(abs(event.cpu_memory_usage) for event in profile.events())
    assert peaks["plain"] >= rows * vocab * 4
    assert peaks["ours"] <= peaks["plain"] / 10


def test_shapes_are_checked() -> None:
    hidden, weight, labels = problem(6)
    for bad in (
        (hidden[None], weight, labels),
        (hidden, weight[:, 1:], labels),
        (hidden, weight, labels[1:]),
    ):
        with pytest.raises(ValueError, match=r"\(N, H\)"):
            linear_cross_entropy(*bad)


def test_rows_per_chunk() -> None:
    assert rows_per_chunk(128_256, torch.device("cpu")) == 128
    assert rows_per_chunk(128_256, torch.device("cuda")) == 2080
    assert rows_per_chunk(10**9, torch.device("cpu")) == 16


def test_weights_multiply_each_positions_loss_and_gradient() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 6, -100, 3, 3, 1, 2, -100, 5])
    weights = torch.rand(9, dtype=torch.float64)
    each = torch.nn.functional.cross_entropy(
        hidden @ weight.t(), labels, reduction="none", ignore_index=-100
    )
    expected = torch.autograd.grad((each * weights).sum(), (hidden, weight))
    total = linear_cross_entropy(hidden, weight, labels, 4, weights=weights)
    torch.testing.assert_close(total, (each * weights).sum(), rtol=1e-12, atol=0)
    for ours, theirs in zip(
        torch.autograd.grad(total, (hidden, weight)), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
