"""Attention in float64, one sequence, head and query at a time, and packed inputs to hold kernels against it."""

import itertools

import torch
from torch import Tensor

LENGTHS = {
    "ragged": (12, 1, 200, 37, 130),
    "equal": (64, 64, 64),
    "single": (150,),
}
GQA = {"gqa": (6, 2), "mha": (4, 4)}


def naive(
    q: Tensor, k: Tensor, v: Tensor, lengths: tuple[int, ...], is_causal: bool
) -> Tensor:
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
    return tuple(
        torch.randn(total, n, head_dim, generator=generator)
        for n in (heads, kv_heads, kv_heads)
    )


def cumulative(lengths: tuple[int, ...]) -> Tensor:
    return torch.tensor(
        list(itertools.accumulate(lengths, initial=0)), dtype=torch.int32
    )
