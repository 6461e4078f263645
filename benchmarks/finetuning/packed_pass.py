"""A forward pass that computes no padding: real tokens alone go through every layer, attention sees them row by row.

The same hidden states as the padded pass but for rounding, with zeros behind a row's end.

Shape suffixes: B examples, L padded length, T real tokens, H hidden size.
"""

from __future__ import annotations

from torch import Tensor

from pretraining.model.attention import AttentionBackend, Layout, dense_attention
from pretraining.model.modeling import EuroBertModel, rotary_tables

__all__ = ["packed_pass"]


def packed_pass(base: EuroBertModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Return hidden states (B, L, H), every token of a row seeing all of its row.

    Args:
        base: the model.
        ids: token ids (B, L).
        mask: which of them are real (B, L), bool.
    """
    batch, width = mask.shape
    real = mask.flatten().nonzero().squeeze(1)
    seen = None if len(real) == batch * width else mask[:, None, None, :]

    def spread(packed: Tensor) -> Tensor:
        rows = packed.new_zeros(batch * width, *packed.shape[1:]).index_copy(0, real, packed)
        return rows.view(batch, width, *packed.shape[1:])

    def attend(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
        mixed = dense_attention(spread(q), spread(k), spread(v), is_causal=layout.is_causal, mask=seen)
        return mixed.flatten(0, 1).index_select(0, real)

    layout = Layout(is_causal=False, backend=AttentionBackend(name="rows", attend=attend))
    cos, sin = rotary_tables(real % width, base.config.head_dim, base.config.rope_theta)
    hidden: Tensor = base.embed_tokens(ids.flatten()[real])
    for layer in base.layers:
        hidden = layer(hidden, cos, sin, layout)
    return spread(base.norm(hidden))
