import itertools
import sys
import types

import pytest
import torch
from torch import Tensor

from common.errors import UserError
from pretraining.model.attention import (
    BACKENDS,
    FLASH,
    FLEX,
    FLEX_BLOCK,
    SDPA,
    AttentionBackend,
    Layout,
    attention,
    flash_available,
    packed_layout,
    padded_layout,
    resolve_backend,
)

LENGTHS = {
    "ragged": (12, 1, 200, 37, 130),
    "equal": (64, 64, 64),
    "single": (150,),
    "on block edges": (FLEX_BLOCK, 2 * FLEX_BLOCK, FLEX_BLOCK),
    "many in one block": (12,) * 9 + (140,),
}
GQA = {"gqa": (6, 2), "mha": (4, 4)}


def naive(q: Tensor, k: Tensor, v: Tensor, lengths: tuple[int, ...], is_causal: bool) -> Tensor:
    """Attention in float64, one sequence, head and query at a time."""
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1]
    out = torch.zeros_like(q)
    ends = list(itertools.accumulate(lengths, initial=0))
    for start, end in itertools.pairwise(ends):
        for head in range(q.shape[1]):
            for i in range(start, end):
                last = i + 1 if is_causal else end
                scores = k[start:last, head // groups] @ q[i, head] / q.shape[-1] ** 0.5
                weights = (scores - scores.max()).exp()
                out[i, head] = weights @ v[start:last, head // groups] / weights.sum()
    return out


def make(
    lengths: tuple[int, ...], heads: int, kv_heads: int, head_dim: int = 16
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sum(lengths) + heads)
    total = sum(lengths)
    return tuple(torch.randn(total, n, head_dim, generator=generator) for n in (heads, kv_heads, kv_heads))


def cumulative(lengths: tuple[int, ...]) -> Tensor:
    return torch.tensor(list(itertools.accumulate(lengths, initial=0)), dtype=torch.int32)


KERNELS = [
    "sdpa",
    "flex",
    pytest.param(
        "flash",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not flash_available(), reason="needs flash-attn and a GPU"),
        ],
    ),
]


@pytest.mark.parametrize("backend", KERNELS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("heads", GQA)
def test_backend_by_direction_by_lengths(backend: str, is_causal: bool, case: str, heads: str) -> None:
    lengths = LENGTHS[case]
    q, k, v = make(lengths, *GQA[heads])
    expected = naive(q, k, v, lengths, is_causal)
    tolerance = 2e-6
    if backend == "flash":
        q, k, v = (x.cuda().bfloat16() for x in (q, k, v))
        expected = naive(q.cpu(), k.cpu(), v.cpu(), lengths, is_causal)
        tolerance = 2e-2
    layout = packed_layout(
        cumulative(lengths).to(q.device),
        sum(lengths),
        max(lengths),
        is_causal=is_causal,
        backend=BACKENDS[backend],
    )
    out = attention(q, k, v, layout)
    assert out.shape == q.shape
    torch.testing.assert_close(out.cpu().double(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_is_called_as_its_package_asks(is_causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without that package: the arguments of its varlen function, read by its documented names."""

    def flash_attn_varlen_func(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        max_seqlen_q: int,
        max_seqlen_k: int,
        dropout_p: float = 0.0,
        softmax_scale: float | None = None,
        causal: bool = False,
    ) -> Tensor:
        assert torch.equal(cu_seqlens_q, cu_seqlens_k) and cu_seqlens_q.dtype == torch.int32
        lengths = tuple(cu_seqlens_q.diff().tolist())
        assert max_seqlen_q == max_seqlen_k >= max(lengths)
        assert dropout_p == 0 and softmax_scale is None
        return naive(q, k, v, lengths, causal).to(q.dtype)

    fake = types.ModuleType("flash_attn")
    fake.flash_attn_varlen_func = flash_attn_varlen_func  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", fake)
    lengths = LENGTHS["ragged"]
    q, k, v = make(lengths, 6, 2)
    layout = packed_layout(cumulative(lengths), sum(lengths), 2048, is_causal=is_causal, backend=FLASH)
    expected = naive(q, k, v, lengths, is_causal).float()
    torch.testing.assert_close(attention(q, k, v, layout), expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_backends_agree(is_causal: bool) -> None:
    lengths = LENGTHS["ragged"]
    grads = []
    for backend in (SDPA, FLEX):
        q, k, v = (x.requires_grad_() for x in make(lengths, 6, 2))
        layout = packed_layout(cumulative(lengths), sum(lengths), 2048, is_causal=is_causal, backend=backend)
        out = attention(q, k, v, layout)
        out.square().sum().backward()
        grads.append([x.grad for x in (q, k, v)])
    for ours, other in zip(*grads, strict=True):
        torch.testing.assert_close(ours, other, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_compiled_flex_on_cpu() -> None:
    lengths = LENGTHS["ragged"]
    q, k, v = make(lengths, 6, 2)
    layout = packed_layout(cumulative(lengths), sum(lengths), 2048, is_causal=True, backend=FLEX)
    out = torch.compile(attention)(q, k, v, layout)
    torch.testing.assert_close(out.double(), naive(q, k, v, lengths, True), atol=2e-6, rtol=0)


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


def test_packed_sdpa_never_forms_the_square_of_the_total() -> None:
    # 40 sequences of 100 tokens: 4,000 x 4,000 scores of 4 heads would be 256 MB.
    lengths = (100, 101) * 20
    q, k, v = make(lengths, 4, 2)
    layout = packed_layout(cumulative(lengths), sum(lengths), 101, is_causal=False, backend=SDPA)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        attention(q, k, v, layout)
    largest = max(abs(event.cpu_memory_usage) for event in profile.events())
    assert largest < 30e6


def test_the_flex_mask_skips_blocks_between_sequences() -> None:
    lengths = (FLEX_BLOCK,) * 6
    layout = packed_layout(cumulative(lengths), sum(lengths), FLEX_BLOCK, is_causal=False, backend=FLEX)
    assert layout.block_mask is not None
    assert layout.block_mask.full_kv_num_blocks.sum() == 6
    assert layout.block_mask.kv_num_blocks.sum() == 0


def test_backends_are_resolved() -> None:
    cpu = torch.device("cpu")
    assert resolve_backend("auto", cpu, torch.float32) is SDPA
    assert resolve_backend("flex", cpu, torch.float32) is FLEX
    with pytest.raises(UserError, match="did you mean 'flash'"):
        resolve_backend("flsh", cpu, torch.float32)
    with pytest.raises(UserError, match="flash-attn package"):
        resolve_backend("flash", cpu, torch.bfloat16)


def test_a_made_up_backend_is_used_under_its_name() -> None:
    def constant(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
        del k, v, layout
        return torch.full_like(q, 7.0)

    made_up = AttentionBackend(
        name="constant",
        attend=constant,
        problem=lambda device, dtype: "" if dtype == torch.double else "needs double precision",
    )
    BACKENDS.register(made_up)
    try:
        cpu = torch.device("cpu")
        with pytest.raises(UserError, match="attention backend constant needs double precision; use sdpa"):
            resolve_backend("constant", cpu, torch.float32)
        backend = resolve_backend("constant", cpu, torch.double)
        q, k, v = make((3, 2), 6, 2)
        layout = packed_layout(cumulative((3, 2)), 5, 3, is_causal=False, backend=backend)
        assert (attention(q, k, v, layout) == 7).all()
    finally:
        BACKENDS.pop("constant")
