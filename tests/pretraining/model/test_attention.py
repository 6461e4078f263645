"""Attention against attention in float64: padded, and every backend.

sdpa runs; those of a GPU are held to their call's arguments.

A stand-in takes the place of a kernel that needs a GPU. It binds its arguments by the signature of the installed
function, so that an update that changes it fails here, and computes what they ask for.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.attention.varlen as torch_varlen
from torch import Tensor

from common.errors import UserError
from pretraining.model import attention as attention_module
from pretraining.model.attention import (
    BACKENDS,
    FLASH4,
    SDPA,
    VARLEN,
    attention,
    packed_layout,
    padded_layout,
    resolve_backend,
)  # fmt: skip
from pretraining.paper_settings import SHAPES
from tests.pretraining.naive_attention import GQA, LENGTHS, cumulative, make, naive

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("case", LENGTHS)
@pytest.mark.parametrize("heads", GQA)
def test_sdpa_by_direction_by_lengths(is_causal: bool, case: str, heads: str) -> None:
    lengths = LENGTHS[case]
    q, k, v = make(lengths, *GQA[heads])
    layout = packed_layout(cumulative(lengths), max(lengths), is_causal=is_causal, backend=SDPA)
    out = attention(q, k, v, layout)
    assert out.shape == q.shape
    torch.testing.assert_close(out.double(), naive(q, k, v, lengths, is_causal), atol=2e-6, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_sdpa_are_those_of_naive_attention(is_causal: bool) -> None:
    lengths = (12, 1, 40, 7)
    ours, plain = (tuple(x.requires_grad_() for x in make(lengths, 6, 2)) for _ in range(2))
    layout = packed_layout(cumulative(lengths), 2048, is_causal=is_causal, backend=SDPA)
    attention(*ours, layout).square().sum().backward()
    naive(*plain, lengths, is_causal).square().sum().backward()
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-4)


# --- padded, and layouts ---


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


def test_a_mask_of_what_may_be_seen_is_taken_as_it_is() -> None:
    q, k, v = (torch.randn(2, 4, 2, 16, generator=torch.Generator().manual_seed(0)) for _ in range(3))
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    given = padded_layout(mask.bool()[:, None, None, :], is_causal=False)
    assert torch.equal(attention(q, k, v, given), attention(q, k, v, padded_layout(mask, is_causal=False)))
    # Nothing is read of it, which on a GPU would be waited for: a tensor without values does.
    assert (
        padded_layout(torch.empty(2, 1, 1, 4, dtype=torch.bool, device="meta"), is_causal=False).mask
        is not None
    )


# --- kernels that need a GPU: what they are called with ---


def _same_offsets(arguments: dict[str, Any], q: str, k: str, longest: int) -> tuple[int, ...]:
    """Check what all kernels share, and return the lengths."""
    # cuDNN asks for the same tensor, not an equal one.
    assert arguments[q] is arguments[k] and arguments[q].dtype == torch.int32
    assert arguments[q].is_contiguous() and arguments[q].dim() == 1
    lengths = tuple(arguments[q].diff().tolist())
    assert longest >= max(lengths)
    return lengths


def _bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _stand_in_for_varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch_varlen.varlen_attn

    def stand_in(*args: Any, **kwargs: Any) -> Tensor:
        given = _bound(real, args, kwargs)
        q, k = given["query"], given["key"]
        assert given["max_q"] == given["max_k"] and type(given["max_q"]) is int
        assert given["scale"] is given["return_aux"] is given["seqused_k"] is given["block_table"] is None
        assert given["enable_gqa"] == (q.shape[1] != k.shape[1])
        lengths = _same_offsets(given, "cu_seq_q", "cu_seq_k", given["max_q"])
        causal = {(-1, -1): False, (-1, 0): True}[given["window_size"]]
        return naive(q, k, given["value"], lengths, causal).to(q.dtype)

    monkeypatch.setattr(attention_module, "varlen_attn", stand_in)


def _stand_in_for_flash4(monkeypatch: pytest.MonkeyPatch) -> None:
    interface = pytest.importorskip("flash_attn.cute", reason="flash-attn-4 is for Linux")
    real = interface.flash_attn_varlen_func

    def stand_in(*args: Any, **kwargs: Any) -> tuple[Tensor, None]:
        given = _bound(real, args, kwargs)
        q, k, v = given["q"], given["k"], given["v"]
        asked = {"q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "causal"}
        defaults = {name: item.default for name, item in inspect.signature(real).parameters.items()}
        assert all(given[name] == defaults[name] for name in given.keys() - asked)
        assert type(given["max_seqlen_q"]) is int and given["max_seqlen_q"] == given["max_seqlen_k"]
        lengths = _same_offsets(given, "cu_seqlens_q", "cu_seqlens_k", given["max_seqlen_q"])
        return naive(q, k, v, lengths, given["causal"]).to(q.dtype), None

    monkeypatch.setattr(interface, "flash_attn_varlen_func", stand_in)


STAND_INS = {"varlen": _stand_in_for_varlen, "flash4": _stand_in_for_flash4}


@pytest.mark.parametrize("name", STAND_INS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("heads", GQA)
def test_kernels_are_called_as_they_ask(
    name: str, is_causal: bool, heads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    STAND_INS[name](monkeypatch)
    lengths = LENGTHS["ragged"]
    q, k, v = make(lengths, *GQA[heads])
    layout = packed_layout(cumulative(lengths).long(), 2048, is_causal=is_causal, backend=BACKENDS[name])
    expected = naive(q, k, v, lengths, is_causal).float()
    torch.testing.assert_close(attention(q, k, v, layout), expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_varlen_has_gradients_and_compiles_without_a_graph_break(is_causal: bool) -> None:
    """On the meta device: shapes of a forward and backward pass, in one graph."""
    q, k, v = (
        torch.empty(100, heads, 96, device="meta", dtype=torch.bfloat16, requires_grad=True)
        for heads in (18, 6, 6)
    )
    offsets = torch.empty(13, dtype=torch.int32, device="meta")
    layout = packed_layout(offsets, 2048, is_causal=is_causal, backend=VARLEN)
    for call in (attention, torch.compile(attention, backend="aot_eager", fullgraph=True)):
        out = call(q, k, v, layout)
        grads = torch.autograd.grad(out, (q, k, v), torch.empty_like(out))
        assert [grad.shape for grad in grads] == [q.shape, k.shape, v.shape]


# --- where they can run ---


def gpu(monkeypatch: pytest.MonkeyPatch, major: int, *, amd: bool = False) -> None:
    """Let torch see a GPU of a compute capability."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (major, 0))
    monkeypatch.setattr(torch.version, "hip", "6.4" if amd else None)


CAN = {
    "A100": (8, False, ["varlen", "sdpa"]),
    "H100": (9, False, ["varlen", "flash4", "sdpa"]),
    "B200": (10, False, ["varlen", "flash4", "sdpa"]),
    "RTX 5090": (12, False, ["varlen", "flash4", "sdpa"]),
    "T4": (7, False, ["sdpa"]),
    "MI250X": (9, True, ["varlen", "sdpa"]),
}


@pytest.mark.parametrize("name", CAN)
def test_each_gpu_has_the_kernels_that_were_built_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    major, amd, expected = CAN[name]
    pytest.importorskip("flash_attn.cute", reason="flash-attn-4 is for Linux")
    gpu(monkeypatch, major, amd=amd)
    for shape in SHAPES.values():
        problems = [item.problem(CUDA, torch.bfloat16, shape.head_dim) for item in BACKENDS.values()]
        assert [name for name, why in zip(BACKENDS, problems, strict=True) if not why] == expected
        assert resolve_backend("auto", CUDA, torch.bfloat16, shape.head_dim).name == expected[0]
    assert resolve_backend("auto", CUDA, torch.float32, 64) is SDPA


def test_head_dimensions_that_no_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, 9)
    for backend in (VARLEN, FLASH4):
        assert "multiple of 8 and at most 256, not 100" in backend.problem(CUDA, torch.bfloat16, 100)
    gpu(monkeypatch, 10)
    assert "up to 128 on this GPU, not 192" in FLASH4.problem(CUDA, torch.bfloat16, 192)


def test_the_folder_of_flash_attn_2_is_not_taken_for_flash_attn_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn.cute", None)
    attention_module._import_problem.cache_clear()
    gpu(monkeypatch, 9)
    try:
        assert FLASH4.problem(CUDA, torch.bfloat16, 64).startswith("needs the flash-attn-4 package (")
    finally:
        attention_module._import_problem.cache_clear()


def test_a_cpu_takes_sdpa_and_the_others_say_what_they_need() -> None:
    assert resolve_backend("auto", CPU, torch.float32, 64) is SDPA
    for name in ("varlen", "flash4"):
        with pytest.raises(UserError, match=f"attention backend {name} needs a GPU.*; use auto or sdpa"):
            resolve_backend(name, CPU, torch.bfloat16, 64)
    with pytest.raises(UserError, match="did you mean 'flash4'"):
        resolve_backend("flsh4", CPU, torch.float32, 64)


# --- memory ---


def test_packed_sdpa_never_forms_the_square_of_the_total() -> None:
    # 40 sequences of 100 tokens: 4,000 x 4,000 scores of 4 heads would be 256 MB.
    lengths = (100, 101) * 20
    q, k, v = make(lengths, 4, 2)
    layout = packed_layout(cumulative(lengths), 101, is_causal=False, backend=SDPA)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        attention(q, k, v, layout)
    largest = max(abs(event.cpu_memory_usage) for event in profile.events())
    assert largest < 30e6


# --- on a GPU ---


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", BACKENDS)
def test_on_this_gpu(name: str, is_causal: bool, shape: Any) -> None:
    """Output and gradients of every backend that can run here, in bf16, against naive attention."""
    if problem := BACKENDS[name].problem(CUDA, torch.bfloat16, shape.head_dim):
        pytest.skip(problem)
    lengths = (12, 1, 70, 130)
    inputs = make(lengths, shape.heads, shape.kv_heads, shape.head_dim)
    ours = [x.cuda().bfloat16().requires_grad_() for x in inputs]
    plain = [x.detach().cpu().double().requires_grad_() for x in ours]
    layout = packed_layout(cumulative(lengths).cuda(), 2048, is_causal=is_causal, backend=BACKENDS[name])
    out, expected = attention(*ours, layout), naive(*plain, lengths, is_causal)
    out.float().square().sum().backward()
    expected.square().sum().backward()
    pairs = [(out, expected), *((a.grad, b.grad) for a, b in zip(ours, plain, strict=True))]
    for a, b in pairs:
        assert (a.cpu().double() - b).norm() / b.norm() < 2e-2
