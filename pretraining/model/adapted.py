"""Any language model of transformers, trained like our own: packed sequences, both directions, logits where wanted.

A packed batch is sequences laid end to end in one row, without padding; position ids begin again at each sequence.
Nothing in a model's code is changed to read it. transformers lets one choose how a model attends, by a name under which
two functions are registered:

- `_attend`, with `AttentionInterface`: computes attention within each sequence.
- `_reach`, with `AttentionMaskInterface`: is asked for a mask in each forward pass, and returns in its place how many
  tokens to its left and to its right a token sees. It asks the class's own mask, so sliding windows stay as they are.

An encoder whose class computes its attention by itself (MPNet, DeBERTa) reads a batch as padded rows, which takes
longer.

The head's last linear layer, which computes logits over the whole vocabulary, is left out of the model's own forward
pass. Its inputs, here called features, are gathered at the positions that predict, and the layer is applied to a chunk
of them at a time in the loss: so all logits never exist at once. What a head has before that layer (a transform) and
after it (a bias, a bound of the logits called soft cap) is kept.

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
"""The name under which `_attend` and `_reach` are registered."""
_ALL = 2**30
"""Stands for all tokens on a side, where a number of tokens is wanted."""
_pass: ContextVar[AttentionLayout | None] = ContextVar(
    "the layout of the pass that is being computed", default=None
)
_CLOSE = 5e-5
"""Largest relative difference of logits that another order of sums may make on a few tokens, in float32."""


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
        layout: where the sequences are and in which direction they attend, from `packed_layout`.
        scaling: factor of the scores.
        reach: how many tokens to the left and to the right of itself a token sees; with a causal layout none to the
            right.
        softcap: bound c of the scores, which become c tanh(score / c).
    """
    left, right = reach
    if layout.is_causal:
        right = 0

    # The kernels for GPUs take all sequences in one call, but know no bound of the scores.
    if layout.backend is not SDPA and not softcap:
        # Under autocast queries and keys come in float32, in which they were rotated, and values in the narrow type.
        dtype = activation_dtype(v)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        # A window of -1 is one without an end.
        all_left = left >= layout.max_length
        all_right = right >= layout.max_length
        window = (-1 if all_left else left, -1 if all_right else right)
        return varlen(q, k, v, layout, scale=scaling, window=window)

    # Otherwise one sequence after the other, with as many key heads as query heads.
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)

    assert layout.cu_seqlens is not None
    # Only a layout of the reference (SDPA) has the lengths on the host. One of a GPU kernel, which comes here
    # because of a soft cap, does not, so the GPU has to be waited for.
    lengths = list(layout.lengths or layout.cu_seqlens.diff().tolist())
    # Of each a list of (heads, L, dimension), one for each sequence.
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
    """Return the attention of one sequence of L tokens.

    The arguments are those of `packed_attention`, but q, k and v are (heads, L, dimension), with as many heads each.
    """
    length = q.shape[1]
    # Distance from the first token to the last: a reach of that many tokens has no effect.
    farthest = length - 1

    # Which keys each query sees, (L, L); None where it sees all, or where torch's own causal mask will do.
    visible = None
    is_causal = right == 0 and left >= farthest and softcap is None
    if not is_causal and min(left, right) < farthest:
        places = torch.arange(length, device=q.device)
        # How far each key (column) is to the right of each query (row).
        ahead = places[None, :] - places[:, None]
        visible = (ahead >= -left) & (ahead <= right)

    if softcap is None:
        # torch wants an axis of rows before the heads: this sequence is the only row.
        out = F.scaled_dot_product_attention(
            q[None],
            k[None],
            v[None],
            attn_mask=visible,
            is_causal=is_causal,
            scale=scaling,
        )
        return out[0]

    # torch's attention knows no bound of the scores: compute it step by step.
    products = q @ k.transpose(1, 2)
    scores = torch.tanh(products * (scaling / softcap)) * softcap
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)

    # (heads, L, L): how much each key counts for each query.
    shares = scores.float().softmax(-1)
    return shares.to(v.dtype) @ v


# Outside of compiled graphs: the layout's numbers would be constants there, and a batch with others would
# need a new graph.
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
    """Return packed attention as transformers' modules ask for it, (1, T, heads, dimension).

    Args:
        module: the module that asks; not used.
        query: (1, heads, T, dimension).
        key: as query, with the heads for keys.
        value: as key.
        attention_mask: what `_reach` returned: how many tokens to the left and to the right a token sees; None: all.
        scaling: factor of the scores; 1 / sqrt(dimension) when left out.
        softcap: bound of the scores.
        s_aux: further scores (sinks), which only some classes have.
        others: what some classes pass besides; not used.
    """
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

    # From (1, heads, T, dimension) to (T, heads, dimension): all packed sequences are one row.
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    out = packed_attention(q, k, v, layout, scaling=scale, reach=reach, softcap=softcap)
    return out[None], None


def _reach(
    *, mask_function: Callable[..., Any], local_size: int | None = None, **others: Any
) -> Tensor:
    """Return how many tokens to its left and to its right a token sees, in place of a mask: (1, 1, 1, 2).

    Args:
        mask_function: the class's mask: returns whether a query sees a key, for the numbers of a row, a head, the query
            and the key.
        local_size: size of the class's sliding window; None where it has none.
        others: what transformers passes besides; not used.
    """
    del others
    # A query in the middle of a sequence that is longer than the window on both sides. Without a window a
    # token sees a whole side or nothing of it, which a few tokens show as well: one of size 1 stands in.
    middle = (local_size or 1) + 1
    places = torch.arange(2 * middle + 1)
    mask = torch.as_tensor(mask_function(0, 0, torch.tensor(middle), places))
    # A mask that does not depend on the key is a single value.
    visible = mask.expand(len(places)).tolist()
    # Both parts begin with the query itself: one goes from there to the left, the other to the right.
    left = _tokens_beside(visible[middle::-1])
    right = _tokens_beside(visible[middle:])
    return torch.tensor([left, right]).view(1, 1, 1, 2)


def _tokens_beside(visible: list[bool]) -> int:
    """Return how many tokens a token sees on one of its sides.

    Args:
        visible: whether it sees each token of that side, nearest first; the first one is the token itself.
    """
    if all(visible):
        return _ALL
    # As many as come before the first one that it does not see, without the token itself.
    return visible.index(False) - 1


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, _reach)


class AdaptedModel(CompiledBlocks, nn.Module):
    """A model of transformers with a head for tokens, read and trained in packed batches."""

    is_padded: bool
    """Whether it reads a batch as padded rows, because its class cannot attend within packed sequences."""

    def __init__(self, inner: Any) -> None:
        """Adapt a model, and turn its dropout off, so that a training step is repeatable.

        Args:
            inner: a model of a `*ForCausalLM` or `*ForMaskedLM` class of transformers, in float32.
        """
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

        # Packed sequences need position ids that begin again, and attention that can be replaced.
        parameters = inspect.signature(inner.forward).parameters
        self.is_padded = (
            "position_ids" not in parameters or not inner._can_set_attn_implementation()
        )

        # Arguments of every call: a decoder would otherwise keep keys and values for a next token.
        self._more = {"use_cache": False} if "use_cache" in parameters else {}
        # Some classes (RoBERTa) number positions not from 0: their tables begin with rows for padding. A
        # class without such a table, as with rotary positions, begins at 0.
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
        """Whether attention can be made causal, as a decoder's can: tried by comparing outputs of both directions."""
        probes = probe_ids(self.inner.get_input_embeddings())[None]
        with torch.no_grad():
            both = self.plain(probes, is_causal=False)
            causal = self.plain(probes, is_causal=True)
        # As much counts as a change of outputs in `directions` as well (`_SEEN`).
        return _gap(both, causal) > 1e-6

    def set_attention_backend(self, backend: str) -> None:
        """Choose the attention backend of packed batches; a class with a soft cap always attends one by one."""
        self.attention_backend = backend

    @cached_property
    def compiled_parts(self) -> nn.ModuleList:
        """The model's layers: its longest list of modules. Attention stays outside of their compiled graphs."""
        lists = (part for part in self.inner.modules() if type(part) is nn.ModuleList)
        return max(lists, key=len)

    def encode(self, batch: PackedBatch, *, is_causal: bool | None = None) -> Tensor:
        """Return the features of a packed batch, (T, D): the inputs of the head's last layer, one for each token.

        Args:
            batch: on the model's device.
            is_causal: whether attention looks back only; as the configuration says when left out.

        Raises:
            UserError: attention is to look back only, which the class cannot do.
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
        # `positions_of` counts from 0. Some classes (RoBERTa) do not.
        positions = positions + self.first_position

        # `_attend`, which the model's layers will call, reads the layout from `_pass`. `before` is what
        # `reset` needs to put the earlier value back.
        before = _pass.set(layout)
        try:
            with self._attending(_NAME, is_causal), self._features():
                out = self.inner(
                    input_ids=batch.tokens[None],
                    # Without a mask transformers would search the position ids for packed sequences.
                    attention_mask=torch.ones_like(batch.tokens)[None],
                    position_ids=positions[None],
                    **self._more,
                )
        finally:
            _pass.reset(before)

        # Under `_features` the field for logits has the features. The batch is the only row, [0].
        features: Tensor = out.logits[0]
        return features

    def _encode_rows(self, batch: PackedBatch, causal: bool) -> Tensor:
        """Return the features of a packed batch, (T, D), computed with one padded row for each sequence."""
        # Packed attention gets its direction from the layout, whatever the class. Padded rows are computed by
        # the class's own attention, which may know no direction.
        if causal and not self.looks_back:
            raise UserError(
                f"{type(self.inner).__name__} cannot look back only, as CLM does; train it with MLM"
            )

        lengths = batch.cu_seqlens.diff().long()
        # Any id that has a row will do: the mask below hides the padding.
        padding = getattr(self.config, "pad_token_id", None) or 0
        sequences = list(torch.split(batch.tokens, lengths.tolist()))
        rows = pad_sequence(sequences, batch_first=True, padding_value=padding)

        # (S, longest): which tokens of each row are real.
        mask = torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]
        # The way of attending stays the class's own: `_attending` is needed here only for the direction.
        attention = self.config._attn_implementation
        with self._attending(attention, causal), self._features():
            out = self.inner(input_ids=rows, attention_mask=mask.long(), **self._more)

        # Under `_features` the field for logits has the features, (S, longest, D). Row by row, without the
        # padding: the order of the packed batch.
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
        """Return the summed cross-entropy of predictions.

        Args:
            features: inputs of the head's last layer, (M, D).
            labels: tokens to predict, (M,).
            weights: factor of each label's cross-entropy, (M,).
            chunk: for how many positions logits are computed at a time; by the vocabulary's size when left out.
        """
        head, cap = self.head, self.softcap
        bias: Tensor | None = head.bias
        # `linear_cross_entropy` is faster, but takes no bias and no soft cap. `fused`: what it computes
        # between its matrix products is compiled, where the model's blocks are compiled as well.
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

        # One chunk even without labels, so that the result of 0 has a graph to differentiate.
        for first in range(0, max(1, len(labels)), rows):
            part = slice(first, first + rows)
            factor = None if weights is None else weights[part]
            args = (features[part], head.weight, bias, labels[part], factor, cap)
            # `checkpoint` computes the chunk's logits again in the backward pass instead of keeping them.
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
        """Return the model's own logits (B, L, V) of a padded batch, computed by transformers alone.

        Args:
            ids: tokens, (B, L).
            mask: 1 for real tokens and 0 for padding, (B, L); all are real when left out.
            is_causal: whether attention looks back only.
            attention: transformers' name of how to attend. `eager` is its plain reference, which every class
                has.
        """
        with self._attending(attention, is_causal):
            out = self.inner(input_ids=ids, attention_mask=mask, **self._more)
        logits: Tensor = out.logits
        return logits

    @contextlib.contextmanager
    def _attending(self, attention: str, is_causal: bool) -> Iterator[None]:
        """Let the model attend in a given way and direction while the block runs.

        Args:
            attention: transformers' name of how to attend, or `_NAME`.
            is_causal: whether attention looks back only.
        """
        config = self.config
        before = config._attn_implementation
        # None where the configuration itself has no such field: the direction is then the class's default, or
        # in a field of its own (`directions.FLAG`).
        was_causal = config.__dict__.get("is_causal")
        if before != attention:
            self.inner.set_attn_implementation(attention)
        # Sets the direction in the field that the class reads.
        turn(config, is_causal=is_causal)
        try:
            yield
        finally:
            # Between passes a model of unknown direction looks both ways, as it was loaded (`start_weights`).
            turn(config, is_causal=False if was_causal is None else was_causal)
            if before != attention:
                self.inner.set_attn_implementation(before)

    @contextlib.contextmanager
    def _features(self) -> Iterator[None]:
        """While the block runs, let the model return the inputs of the head's last layer in place of logits."""
        head, cap = self.head, self.softcap
        # The layer returns what it gets, and the soft cap of logits is off.
        head.forward = lambda hidden: hidden  # type: ignore[method-assign, assignment]
        if cap is not None:
            self.config.final_logit_softcapping = None
        try:
            yield
        finally:
            # Without this attribute of the object, the class's method is found again.
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
    """Return the summed cross-entropy of a chunk of features, each times its label's `factor` if given."""
    logits = _capped(F.linear(features, weight, bias), cap).float()
    losses = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="none")
    if factor is not None:
        losses = losses * factor.to(losses.dtype)
    return losses.sum()


@torch.no_grad()
def check_packing(model: AdaptedModel, where: str) -> None:
    """Refuse a model that cannot be trained on packed batches, which is tried on a few tokens.

    Two sequences in one batch must have the logits that each has alone, in each direction that the class can attend in.
    Whether the model really looks both ways is tried elsewhere (`start_folder.try_export`).

    Args:
        model: the model.
        where: what the model is called in messages.

    Raises:
        UserError: what stands in the way, in one sentence.
    """
    was_training = model.training
    model.eval()
    # 18 ids, cut into sequences of 11 and 7: of two lengths, so that positions and bounds of the second one
    # count.
    probes = probe_ids(model.inner.get_input_embeddings())
    first, second = probes[None, :11], probes[None, 11:]
    try:
        sequences = [row[0].cpu().numpy() for row in (first, second)]
        batch = PackedBatch.of(sequences).to(probes.device)
        directions = (False, True) if model.looks_back else (False,)
        for causal in directions:
            packed = model.logits(model.encode(batch, is_causal=causal))
            # What transformers computes of each sequence by itself, without this module's attention.
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
        # An error from inside the model does not name it yet.
        if where in str(error):
            raise
        raise UserError(f"{where}: {error}") from None
    except Exception as error:  # whatever the code of a model of any class may raise
        raise UserError(
            f"{where} cannot be trained: a pass of a few tokens failed ({first_line(error)})"
        ) from None
    finally:
        model.train(was_training)


def _gap(a: Tensor, b: Tensor) -> float:
    """Return the largest difference of two tensors, relative to the largest absolute value of the first."""
    return float((a - b).abs().max()) / (float(a.abs().max()) + 1e-9)
