"""Any language model of transformers, trained like our own: packed sequences, both directions, logits where wanted.

Nothing in a model's code is changed. Its attention is transformers' to choose: a function registered with
`AttentionInterface`, and one of the same name with `AttentionMaskInterface` that returns, in place of a mask, how far a
token sees to its left and to its right. Both follow from what the class itself asks for, so that sliding windows are
those of its plain use. A batch is one row, with position ids that begin again at each sequence. An encoder whose class
computes its attention by itself (MPNet, DeBERTa) reads a batch as padded rows, which takes longer.

The last linear layer of the head is left out of the model's own pass. What it would have read is gathered at the
positions that predict, and taken to the loss a chunk at a time: all logits never exist. What stands before that layer
(a transform) and after it (a bias, a soft cap) is kept.

`AdaptedModel` offers what training asks of `EuroBertForMaskedLM`: `encode` and `loss_of`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface

from common.errors import UserError, first_line
from pretraining.model.attention import (
    AUTO,
    SDPA,
    AttentionLayout,
    activation_dtype,
    packed_layout,
    resolve_backend,
    varlen,
)
from pretraining.model.compiled import CompiledBlocks
from pretraining.model.cross_entropy import IGNORE, linear_cross_entropy, rows_per_chunk
from pretraining.model.directions import probe_ids, turn
from pretraining.model.packed_batch import PackedBatch, positions_of
from pretraining.starts import first_position, position_tables

_NAME = "clm_or_mlm_packed"
"""What the attention and its mask are registered as."""
_ALL = 2**30
"""A reach without an end."""
_pass: ContextVar[AttentionLayout | None] = ContextVar(
    "the layout of the pass that is being computed", default=None
)
_CLOSE = 5e-5
"""Relative difference that another order of sums may make on a few tokens, in float32."""


def packed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: AttentionLayout,
    *,
    scaling: float,
    reach: tuple[int, int] = (_ALL, _ALL),
    softcap: float | None = None,
) -> Tensor:
    """Return attention within each packed sequence, (T, heads, value dimension).

    Args:
        q: (T, heads, head_dim).
        k: (T, kv_heads, head_dim); each serves heads / kv_heads query heads.
        v: (T, kv_heads, value dimension).
        layout: from `packed_layout`; causal ones end each token's reach at itself.
        scaling: factor of the scores.
        reach: how many tokens to the left and to the right of itself a token sees.
        softcap: bound c of the scores, c tanh(score / c).
    """
    left, right = reach
    if layout.is_causal:
        right = 0
    if layout.backend is not SDPA and not softcap:
        # Under autocast queries and keys come in float32, in which they were rotated, and values in the narrow type.
        dtype = activation_dtype(v)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        all_left = left >= layout.max_length
        all_right = right >= layout.max_length
        window = (-1 if all_left else left, -1 if all_right else right)
        return varlen(q, k, v, layout, scale=scaling, window=window)
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
    assert layout.cu_seqlens is not None
    lengths = list(layout.lengths or layout.cu_seqlens.diff().tolist())
    queries = torch.split(q.transpose(0, 1), lengths, dim=1)
    keys = torch.split(k.transpose(0, 1), lengths, dim=1)
    values = torch.split(v.transpose(0, 1), lengths, dim=1)
    parts = []
    for sequence in zip(queries, keys, values, strict=True):
        part = _in_sequence(*sequence, left, right, scaling, softcap)
        parts.append(part)
    return torch.cat(parts, dim=1).transpose(0, 1)


def _in_sequence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    left: int,
    right: int,
    scaling: float,
    softcap: float | None,
) -> Tensor:
    """Return one sequence's attention: q, k and v are (heads, L, dimension)."""
    length = q.shape[1]
    farthest = length - 1
    visible = None
    is_causal = right == 0 and left >= farthest and softcap is None
    if not is_causal and min(left, right) < farthest:
        places = torch.arange(length, device=q.device)
        ahead = places[None, :] - places[:, None]
        visible = (ahead >= -left) & (ahead <= right)
    if softcap is None:
        out = F.scaled_dot_product_attention(
            q[None],
            k[None],
            v[None],
            attn_mask=visible,
            is_causal=is_causal,
            scale=scaling,
        )
        return out[0]
    products = q @ k.transpose(1, 2)
    scores = torch.tanh(products * (scaling / softcap)) * softcap
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    shares = scores.float().softmax(-1)
    return shares.to(v.dtype) @ v


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers' modules ask: q, k and v are (1, heads, T, dimension)."""
    del module, others
    layout = _pass.get()
    assert layout is not None, "only `AdaptedModel.encode` comes here"
    if s_aux is not None:
        raise UserError(
            "its attention has sinks (s_aux), which packed attention does not know"
        )
    reach = (_ALL, _ALL)
    if attention_mask is not None:
        left, right = attention_mask.flatten().tolist()
        reach = int(left), int(right)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    out = packed_attention(q, k, v, layout, scaling=scale, reach=reach, softcap=softcap)
    return out[None], None


def _reach(
    *, mask_function: Callable[..., Any], local_size: int | None = None, **others: Any
) -> Tensor:
    """Return (1, 1, 1, 2): how far a token in the middle of a long sequence sees to the left and to the right."""
    del others
    middle = (local_size or 1) + 1
    places = torch.arange(2 * middle + 1)
    mask = torch.as_tensor(mask_function(0, 0, torch.tensor(middle), places))
    visible = mask.expand(len(places)).tolist()
    left = _tokens_beside(visible[middle::-1])
    right = _tokens_beside(visible[middle:])
    return torch.tensor([left, right]).view(1, 1, 1, 2)


def _tokens_beside(visible: list[bool]) -> int:
    """Return how many tokens a token sees on a side, which begins with the token itself."""
    if all(visible):
        return _ALL
    return visible.index(False) - 1


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, _reach)


class AdaptedModel(CompiledBlocks, nn.Module):
    """A model of transformers with a head for tokens, read and trained in packed batches."""

    is_padded: bool
    """Whether it reads a batch as padded rows, since its class does not take packed sequences."""

    def __init__(self, inner: Any) -> None:
        """Take a `*ForCausalLM` or `*ForMaskedLM` in float32, and drop nothing out, so that a step is repeatable."""
        super().__init__()
        self.inner = inner
        self.config = inner.config
        self.attention_backend = AUTO
        for module in inner.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            # A class may hand a dropout rate to functions that do not ask whether the module is in training.
            for name, value in vars(module).items():
                if "drop" in name and isinstance(value, float):
                    setattr(module, name, 0.0)
        parameters = inspect.signature(inner.forward).parameters
        self.is_padded = (
            "position_ids" not in parameters or not inner._can_set_attn_implementation()
        )
        self._more = {"use_cache": False} if "use_cache" in parameters else {}
        self.first_position = max(
            map(first_position, position_tables(inner)), default=0
        )

    @property
    def head(self) -> nn.Linear:
        """The last layer, from features to logits."""
        layer: nn.Linear = self.inner.get_output_embeddings()
        return layer

    @property
    def softcap(self) -> float | None:
        """Bound of the logits; None where there is none."""
        cap: float | None = getattr(self.config, "final_logit_softcapping", None)
        return cap

    @property
    def head_dim(self) -> int:
        """Dimension of one attention head."""
        config = self.config
        declared = getattr(config, "head_dim", None)
        return int(declared or config.hidden_size // config.num_attention_heads)

    @cached_property
    def looks_back(self) -> bool:
        """Whether its class can look back only, as a decoder's does: by trying."""
        probes = probe_ids(self.inner.get_input_embeddings())[None]
        with torch.no_grad():
            both = self.plain(probes, is_causal=False)
            causal = self.plain(probes, is_causal=True)
        return _gap(both, causal) > 1e-6

    def set_attention_backend(self, backend: str) -> None:
        """Choose the backend of packed batches; where scores are bounded it is the reference, one by one."""
        self.attention_backend = backend

    @cached_property
    def compiled_parts(self) -> nn.ModuleList:
        """The list with most layers; attention stays outside of their graphs."""
        lists = (part for part in self.inner.modules() if type(part) is nn.ModuleList)
        return max(lists, key=len)

    def encode(self, batch: PackedBatch, *, is_causal: bool | None = None) -> Tensor:
        """Return what the head's last layer reads, (T, D), of a packed batch.

        Args:
            batch: on the model's device.
            is_causal: whether attention looks back only; as the configuration says when left out.

        Raises:
            UserError: it is to look back only, and reads padded rows.
        """
        if is_causal is None:
            is_causal = bool(getattr(self.config, "is_causal", False))
        if self.is_padded:
            return self._encode_rows(batch, is_causal)
        device = batch.tokens.device
        dtype = activation_dtype(next(self.parameters()))
        backend = resolve_backend(self.attention_backend, device, dtype, self.head_dim)
        layout = packed_layout(
            batch.cu_seqlens, batch.max_length, is_causal=is_causal, backend=backend
        )
        positions = positions_of(batch.cu_seqlens, batch.num_tokens)
        positions = positions + self.first_position
        token = _pass.set(layout)
        try:
            with self._attending(_NAME, is_causal), self._features():
                out = self.inner(
                    input_ids=batch.tokens[None],
                    # With a mask of ones transformers does not look for sequences in the position ids.
                    attention_mask=torch.ones_like(batch.tokens)[None],
                    position_ids=positions[None],
                    **self._more,
                )
        finally:
            _pass.reset(token)
        features: Tensor = out.logits[0]
        return features

    def _encode_rows(self, batch: PackedBatch, causal: bool) -> Tensor:
        """Return what `encode` returns, computed with one padded row for each sequence."""
        if causal and not self.looks_back:
            raise UserError(
                f"{type(self.inner).__name__} cannot look back only, as CLM does; train it with MLM"
            )
        lengths = batch.cu_seqlens.diff().long()
        padding = getattr(self.config, "pad_token_id", None) or 0
        sequences = list(torch.split(batch.tokens, lengths.tolist()))
        rows = pad_sequence(sequences, batch_first=True, padding_value=padding)
        mask = torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]
        attention = self.config._attn_implementation
        with self._attending(attention, causal), self._features():
            out = self.inner(input_ids=rows, attention_mask=mask.long(), **self._more)
        features: Tensor = out.logits[mask]
        return features

    def loss_of(
        self,
        features: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        chunk: int | None = None,
    ) -> Tensor:
        """Return the summed cross-entropy of features (M, D) against labels (M,), each times its weight if given."""
        head, cap = self.head, self.softcap
        bias: Tensor | None = head.bias
        # The fused loss takes no bias and no softcap.
        if bias is None and cap is None:
            return linear_cross_entropy(
                features,
                head.weight,
                labels,
                chunk,
                weights=weights,
                fused=self.blocks_compiled,
            )
        rows = chunk
        if rows is None:
            rows = rows_per_chunk(head.weight.shape[0], features.device)
        total = torch.zeros((), device=features.device)
        # One pass even when there are no labels, so that the result of 0 has a graph to differentiate.
        for first in range(0, max(1, len(labels)), rows):
            part = slice(first, first + rows)
            factor = None if weights is None else weights[part]
            args = (features[part], head.weight, bias, labels[part], factor, cap)
            total = total + checkpoint(
                _chunk_loss, *args, use_reentrant=False, preserve_rng_state=False
            )
        return total

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits of features, (..., V)."""
        logits = F.linear(features, self.head.weight, self.head.bias)
        return _capped(logits, self.softcap)

    def plain(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        *,
        is_causal: bool,
        attention: str = "eager",
    ) -> Tensor:
        """Return the model's own logits (B, L, V) of a padded batch, as transformers computes them."""
        with self._attending(attention, is_causal):
            out = self.inner(input_ids=ids, attention_mask=mask, **self._more)
        logits: Tensor = out.logits
        return logits

    @contextlib.contextmanager
    def _attending(self, attention: str, is_causal: bool) -> Iterator[None]:
        """Let the model attend by the implementation `attention`, in the given direction, while the block runs."""
        config = self.config
        before = config._attn_implementation
        was_causal = config.__dict__.get("is_causal")
        if before != attention:
            self.inner.set_attn_implementation(attention)
        turn(config, is_causal=is_causal)
        try:
            yield
        finally:
            turn(config, is_causal=False if was_causal is None else was_causal)
            if before != attention:
                self.inner.set_attn_implementation(before)

    @contextlib.contextmanager
    def _features(self) -> Iterator[None]:
        """Let the model's pass end before its output layer and the softcap of its logits, while the block runs."""
        head, cap = self.head, self.softcap
        head.forward = lambda hidden: hidden  # type: ignore[method-assign, assignment]
        if cap is not None:
            self.config.final_logit_softcapping = None
        try:
            yield
        finally:
            del head.forward
            if cap is not None:
                self.config.final_logit_softcapping = cap


def _capped(logits: Tensor, cap: float | None) -> Tensor:
    return logits if cap is None else torch.tanh(logits / cap) * cap


def _chunk_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    factor: Tensor | None,
    cap: float | None,
) -> Tensor:
    logits = _capped(F.linear(features, weight, bias), cap).float()
    losses = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="none")
    if factor is not None:
        losses = losses * factor.to(losses.dtype)
    return losses.sum()


@torch.no_grad()
def check_packing(model: AdaptedModel, where: str) -> None:
    """Refuse a model that cannot be trained packed: by trying, on a few tokens.

    Two sequences must come out as each does alone, in each direction that the class has. Whether it looks both ways is
    tried as its export is loaded (`start_folder.try_export`).

    Raises:
        UserError: what stands in the way, in one sentence.
    """
    was_training = model.training
    model.eval()
    probes = probe_ids(model.inner.get_input_embeddings())
    first, second = probes[None, :11], probes[None, 11:]
    try:
        sequences = [row[0].cpu().numpy() for row in (first, second)]
        batch = PackedBatch.of(sequences).to(probes.device)
        for causal in (False, True) if model.looks_back else (False,):
            packed = model.logits(model.encode(batch, is_causal=causal))
            first_alone = model.plain(first, is_causal=causal)[0]
            second_alone = model.plain(second, is_causal=causal)[0]
            gap = _gap(torch.cat([first_alone, second_alone]), packed)
            if gap > _CLOSE:
                raise UserError(
                    f"{where} cannot be trained: packed with another sequence, a sequence's logits differ from those "
                    f"that it has alone (by {gap:.1g} of the largest); its layers do not keep to "
                    "transformers' AttentionInterface, so give a model of another family"
                )
    except UserError as error:
        raise error if where in str(error) else UserError(f"{where}: {error}") from None
    except Exception as error:  # whatever the code of a model of any class may raise
        raise UserError(
            f"{where} cannot be trained: a pass of a few tokens failed ({first_line(error)})"
        ) from None
    finally:
        model.train(was_training)


def _gap(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest value of the first."""
    return float((a - b).abs().max()) / (float(a.abs().max()) + 1e-9)
