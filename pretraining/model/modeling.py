"""The encoder: a pre-norm Llama block without biases, causal or bidirectional (protocol: Table 1, section 3).

Parameters have the names of transformers' native `eurobert` (>= 5.3), so that each loads the other's folders;
`AutoModel` loads the native classes. The numbers are the same, but in padded batches only ours follow `is_causal`.

Padding and the end of text share id 128001. The native class gives its embedding a `padding_idx`: that row is zero and
never trained. The paper's trainer does not, and neither does this class; a loaded checkpoint is the same in both.

A packed batch is sequences laid end to end, without padding; a padded one has a row for each.

Shapes: T packed tokens, B x L padded ones, S sequences, H hidden, D head dimension. (..., H) is (T, H) or (B, L, H).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from pretraining.model.attention import (
    AUTO,
    BACKENDS,
    AttentionLayout,
    activation_dtype,
    attention,
    packed_layout,
    padded_layout,
    resolve_backend,
)
from pretraining.model.compiled import CompiledBlocks
from pretraining.model.configuration import EncoderConfig
from pretraining.model.cross_entropy import linear_cross_entropy
from pretraining.model.packed_batch import PackedBatch, positions_of

HEAD = "lm_head.weight"
"""Name of the head's weight, the only parameter that a state dict may lack."""


class RMSNorm(nn.Module):
    """Root-mean-square norm in float32, cast back before the weight multiplies."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the normalised (..., H)."""
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(hidden.dtype)


def rotary_tables(
    positions: Tensor, head_dim: int, theta: float
) -> tuple[Tensor, Tensor]:
    """Return cosines (..., 1, 1, D / 2) and signed sines (..., 1, 2, D / 2) for positions (...) of any shape, float32.

    The axes of length 1 are those of heads and, for cosines, of the two halves of a head (`rotate`). The tables are
    computed in each forward pass: if they were kept in the model, they would be cast to bf16 along with the weights,
    and rotate wrongly.

    Args:
        positions: each token's place in its sequence.
        head_dim: D.
        theta: base of the rotary frequencies.
    """
    even = torch.arange(0, head_dim, 2, dtype=torch.int64, device=positions.device)
    # The same order of operations as in transformers' Llama: another would give other last bits.
    frequencies = 1.0 / (theta ** (even.float() / head_dim))
    angles = positions[..., None].float() * frequencies
    cos, sin = angles.cos(), angles.sin()
    # A rotation takes (x, y) to (x cos - y sin, y cos + x sin): one sign for each half.
    signed = torch.stack((-sin, sin), dim=-2)
    return cos[..., None, None, :], signed[..., None, :, :]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys (..., heads, D) with rotary positions, computed in float32.

    As in Llama, element i of a head's first half and element i of its second half are the x and y of one rotation.

    Args:
        x: queries or keys.
        cos: from `rotary_tables`.
        sin: from `rotary_tables`.
    """
    # (..., heads, 2, D / 2): the x of all rotations, then their y. `sin` has a minus for the first half, so
    # that one line gives x cos - y sin and y cos + x sin.
    halves = x.float().view(*x.shape[:-1], 2, x.shape[-1] // 2)
    # Halves are exchanged by a flip, which Inductor fuses; with `cat` they would be written once more.
    turned = halves * cos + halves.flip(-2) * sin
    return turned.flatten(-2).to(x.dtype)


def projected(
    hidden: Tensor, projections: Sequence[nn.Linear], *, fused: bool
) -> Sequence[Tensor]:
    """Return the results of several linear layers with the same input.

    Args:
        hidden: the input, (..., H).
        projections: the layers, without biases.
        fused: whether they are one matrix product, with their weights joined. That copies the weights in each forward
            pass, but the layers and their names in checkpoints stay as they are.
    """
    if not fused:
        return [project(hidden) for project in projections]
    dtype = activation_dtype(hidden)
    joined = torch.cat([projection.weight.to(dtype) for projection in projections])
    sizes = [projection.out_features for projection in projections]
    return torch.split(F.linear(hidden, joined), sizes, dim=-1)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    fused = False
    """Whether queries, keys and values are one matrix product (`fuse_projections`)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        hidden = config.hidden_size
        kv_inner = config.num_key_value_heads * config.head_dim
        # The order matters: initial weights are drawn in it (`initialise`).
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, kv_inner, bias=False)
        self.v_proj = nn.Linear(hidden, kv_inner, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, layout: AttentionLayout
    ) -> Tensor:
        """Return (..., H)."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        flat = projected(hidden, projections, fused=self.fused)
        # From (..., heads x D) to (..., heads, D).
        q, k, v = (part.view(*part.shape[:-1], -1, self.head_dim) for part in flat)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = attention(q, k, v, layout)
        out: Tensor = self.o_proj(mixed.flatten(-2))
        return out


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    fused = False
    """Whether gate and up are one matrix product (`fuse_projections`)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (..., H)."""
        gate, up = projected(hidden, (self.gate_proj, self.up_proj), fused=self.fused)
        out: Tensor = self.down_proj(F.silu(gate) * up)
        return out


class Block(nn.Module):
    """Attention and feed-forward layer, each after a norm and around a residual."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, layout: AttentionLayout
    ) -> Tensor:
        """Return (..., H)."""
        normed = self.input_layernorm(hidden)
        hidden = hidden + self.self_attn(normed, cos, sin, layout)
        normed = self.post_attention_layernorm(hidden)
        out: Tensor = hidden + self.mlp(normed)
        return out


class EuroBertPreTrainedModel(CompiledBlocks, PreTrainedModel):  # type: ignore[misc]  # transformers is untyped
    """Configuration, loading, initial weights and attention backend, for the base model and the one with a head."""

    config_class = EncoderConfig
    base_model_prefix = "model"
    _supports_sdpa = True

    def _init_weights(self, module: nn.Module) -> None:
        # transformers calls this for weights that a checkpoint lacks (a new classifier). Draws come from the global
        # generator, which the fine-tuning protocol seeds.
        _initialise_module(module, self.config.initializer_range, None)

    @property
    def body(self) -> EuroBertModel:
        """The base model: this one, or the one under the head."""
        body: EuroBertModel = self.base_model
        return body

    def set_attention_backend(self, backend: str) -> None:
        """Choose the backend of packed batches, `AUTO` or a name in `BACKENDS`; padded ones always use sdpa.

        Raises:
            UserError: an unknown backend.
        """
        # Looked up for its error: a registry refuses an unknown name.
        if backend != AUTO:
            BACKENDS[backend]
        self.body.attention_backend = backend

    def fuse_projections(self, fused: bool = True) -> None:
        """Compute queries, keys and values as one matrix product, gate and up as another, which is faster on a GPU."""
        for module in self.modules():
            if isinstance(module, Attention | FeedForward):
                module.fused = fused

    @property
    def compiled_parts(self) -> Iterable[nn.Module]:
        """The blocks and the last norm."""
        return (*self.body.layers, self.body.norm)


class EuroBertModel(EuroBertPreTrainedModel):
    """The encoder without a head: token ids to hidden states."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            [Block(config) for _ in range(config.num_hidden_layers)]
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention_backend = AUTO
        self.residual_is_narrow = False
        """Whether blocks add in the type of matrix products, as under autocast to bf16, not in that of the weights."""
        # transformers asks each constructor for this call at its end, when all modules are there.
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        max_length: int | None = None,
        is_causal: bool | None = None,
        output_hidden_states: bool = False,
    ) -> BaseModelOutput:
        """Return the last hidden state: (B, L, H) of padded input, (T, H) of packed input.

        Args:
            input_ids: token ids, (B, L), or (T,) when packed.
            attention_mask: for padded input, (B, L), 1 for real tokens (all when left out); or, with four dimensions,
                which keys each query sees, (B, 1, 1 or L, L).
            inputs_embeds: embedded tokens, (B, L, H) or (T, H), in place of `input_ids`.
            cu_seqlens: for packed input, cumulative lengths of the sequences, (S + 1,), int32. It is what tells packed
                input from padded input.
            max_length: for packed input, upper bound of the lengths; the model's limit when left out.
            is_causal: direction of attention in place of the configuration's: training goes from one objective to
                another with the same weights.
            output_hidden_states: return the input of each block and the normed output as well.
        """
        # Exactly one of the two.
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        hidden = inputs_embeds
        if hidden is None:
            hidden = self.embed_tokens(input_ids)
        if hidden.dim() != (3 if cu_seqlens is None else 2):
            raise ValueError(
                f"embedded input has shape {tuple(hidden.shape)}; padded input is (batch, length) and packed "
                "input (tokens,) with cu_seqlens"
            )

        if is_causal is None:
            is_causal = self.config.is_causal
        dtype, head_dim = activation_dtype(hidden), self.config.head_dim
        if self.residual_is_narrow:
            hidden = hidden.to(dtype)
        if cu_seqlens is None:
            layout = padded_layout(attention_mask, is_causal=is_causal)
            positions = torch.arange(hidden.shape[1], device=hidden.device)
        else:
            backend = resolve_backend(
                self.attention_backend, hidden.device, dtype, head_dim
            )
            longest = max_length or self.config.max_position_embeddings
            layout = packed_layout(
                cu_seqlens, longest, is_causal=is_causal, backend=backend
            )
            positions = positions_of(cu_seqlens, hidden.shape[0])

        cos, sin = rotary_tables(positions, head_dim, self.config.rope_theta)
        states: list[Tensor] = []
        for layer in self.layers:
            if output_hidden_states:
                states.append(hidden)
            hidden = layer(hidden, cos, sin, layout)

        hidden = self.norm(hidden)
        all_states = (*states, hidden) if output_hidden_states else None
        return BaseModelOutput(last_hidden_state=hidden, hidden_states=all_states)

    def encode(self, batch: PackedBatch, *, is_causal: bool | None = None) -> Tensor:
        """Return the hidden states (T, H) of a packed batch."""
        hidden: Tensor = self(
            input_ids=batch.tokens,
            cu_seqlens=batch.cu_seqlens,
            max_length=batch.max_length,
            is_causal=is_causal,
        ).last_hidden_state
        return hidden


class EuroBertForMaskedLM(EuroBertPreTrainedModel):
    """The encoder and one untied linear head without bias; what pretraining trains, whatever the objective.

    Attention is as the configuration says; each label is that of its own position.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.model = EuroBertModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        max_length: int | None = None,
        output_hidden_states: bool = False,
    ) -> MaskedLMOutput:
        """Return logits and, given `labels` in the shape of `input_ids`, the mean loss over labels other than -100.

        The other arguments are those of `EuroBertModel.forward`. Pretraining does not come through here, since it
        never forms all logits (`pretraining.training.objectives`).
        """
        body = self.model(
            input_ids,
            attention_mask,
            inputs_embeds,
            cu_seqlens,
            max_length,
            None,  # attention looks in the configuration's direction
            output_hidden_states,
        )
        logits = self.lm_head(body.last_hidden_state)
        output = MaskedLMOutput(logits=logits, hidden_states=body.hidden_states)
        if labels is not None:
            wide = logits.flatten(0, -2).float()
            # torch leaves out labels of -100 by default.
            output.loss = F.cross_entropy(wide, labels.flatten())

        return output

    def encode(self, batch: PackedBatch, *, is_causal: bool | None = None) -> Tensor:
        """Return the hidden states (T, H) of a packed batch, which the head reads."""
        return self.model.encode(batch, is_causal=is_causal)

    def loss_of(
        self,
        features: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        chunk: int | None = None,
    ) -> Tensor:
        """Return the summed cross-entropy of features (M, H) against labels (M,), each times its weight if given.

        Args:
            features: hidden states at the positions that predict.
            labels: tokens to predict.
            weights: factor of each label's cross-entropy, (M,).
            chunk: for how many positions logits are computed at a time; by the vocabulary's size when left out.
        """
        # `fused`: what is computed between the matrix products of the loss is compiled, where the blocks are
        # compiled as well.
        return linear_cross_entropy(
            features,
            self.lm_head.weight,
            labels,
            chunk,
            weights=weights,
            fused=self.blocks_compiled,
        )


def initialise(model: EuroBertPreTrainedModel, seed: int) -> None:
    """Set all weights as at the start of pretraining: normal(0, initializer_range), norms one, biases zero.

    The numbers are drawn from a generator of their own, module by module in the order of definition. So they depend
    only on the seed and the architecture, not on the device or on other random numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        _initialise_module(module, model.config.initializer_range, generator)


@torch.no_grad()
def _initialise_module(
    module: nn.Module, std: float, generator: torch.Generator | None
) -> None:
    """Set the weights of one layer or norm; with no generator, draw from torch's global one."""
    if isinstance(module, nn.Linear | nn.Embedding):
        # Drawn on the CPU in float32, whatever the module: generators of other devices give other numbers.
        weights = torch.empty(module.weight.shape, dtype=torch.float32)
        weights.normal_(0.0, std, generator=generator)
        module.weight.copy_(weights)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.zero_()
    elif isinstance(module, RMSNorm):
        module.weight.fill_(1.0)
