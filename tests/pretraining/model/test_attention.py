import pytest
import torch

from pretraining.model.attention import AttentionBackend, attention, packed_layout, padded_layout
from tests.pretraining.naive_attention import make, naive


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("side", ["right", "left", "none"])
def test_padded_equals_naive_at_real_tokens(is_causal: bool, side: str) -> None:
    lengths = (9, 5, 7) if side != "none" else (9, 9, 9)
    q, k, v = make(lengths, 6, 2)
    mask = torch.zeros(3, 9, dtype=torch.int64)
    for row, length in enumerate(lengths):
        mask[row, slice(0, length) if side != "left" else slice(9 - length, 9)] = 1
    padded = [torch.zeros(3, 9, *x.shape[1:]) for x in (q, k, v)]
    for target, source in zip(padded, (q, k, v), strict=True):
        target[mask.bool()] = source
    out = attention(*padded, padded_layout(mask, is_causal=is_causal))
    assert out.isfinite().all()
    torch.testing.assert_close(
        out[mask.bool()].double(), naive(q, k, v, lengths, is_causal), atol=2e-6, rtol=0
    )


def test_padding_attends_to_the_real_tokens() -> None:
    q, k, v = (torch.randn(1, 4, 2, 16, generator=torch.Generator().manual_seed(0)) for _ in range(3))
    out = attention(q, k, v, padded_layout(torch.tensor([[1, 1, 1, 0]]), is_causal=False))
    row = naive(q[0, [3, 0, 1]], k[0, :3], v[0, :3], (3,), False)[0]
    torch.testing.assert_close(out[0, 3].double(), row, atol=2e-6, rtol=0)


def test_a_row_of_padding_alone_gives_numbers() -> None:
    q = torch.ones(2, 3, 2, 16)
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    for is_causal in (False, True):
        assert attention(q, q, q, padded_layout(mask, is_causal=is_causal)).isfinite().all()


def test_offsets_are_int32_whatever_they_were() -> None:
    backend = AttentionBackend(name="none", attend=lambda q, k, v, layout: q)
    layout = packed_layout(torch.tensor([0, 3, 5]), 5, 3, is_causal=False, backend=backend)
    assert layout.cu_seqlens is not None and layout.cu_seqlens.dtype == torch.int32
