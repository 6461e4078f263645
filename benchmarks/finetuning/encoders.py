"""Any Hugging Face encoder behind one interface: loaded without remote code, bidirectional.

Decoders are measured without their causal mask, as the paper measures its CLM models: switched off by the flag that
their class reads, which a saved folder keeps. Whether a model really looks both ways is not taken from its config:
`load_model` tries out every layer, and whether padding changes an output.

Shape suffixes: B examples, L padded length, T real tokens, H hidden size.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.finetuning.base_models import (
    FirstToken,
    NoPooler,
    load_base,
    load_tokenizer,
)
from benchmarks.protocol import FINE_TUNING
from benchmarks.ragged import packed_cost
from common.errors import UserError
from common.model_files import resolve, tokenizer_hash, weights_hash
from pretraining.model.attention import (
    AttentionBackend,
    AttentionLayout,
    dense_attention,
)
from pretraining.model.directions import (
    Trial,
    is_decoder,
    is_turned_decoder,
    try_out,
    turn,
)
from pretraining.model.encoder_folder import check_model
from pretraining.model.modeling import EuroBertModel, rotary_tables
from pretraining.starts import first_position, position_tables

log = logging.getLogger(__name__)

_ADAPTER = "adapter_config.json"
"""A file that says that weights of an adapter, such as LLM2Vec's, belong on top of the model's."""
_POSITIONS = 2_048
"""Positions of the paper's models. A tokenizer's limit above it counts as this, and so does a model without a limit."""
_SHARE = 0.99
"""Share of a model's positions that inputs may take in the paper's code (D18)."""


class Encoder(nn.Module):
    """A base model that turns token ids into hidden states, every token seeing every other."""

    def __init__(
        self,
        base: nn.Module,
        *,
        alone: bool = False,
        pooler: nn.Module | None = None,
        fresh_pooler: bool = False,
    ) -> None:
        """Wrap a base model.

        Args:
            base: what `AutoModel` loads.
            alone: whether rows of each length are computed alone, without padding, because padding would change their
                outputs.
            pooler: the layer that the base model put on its first token (BERT); only a class's own head reads it.
            fresh_pooler: whether the checkpoint lacks the pooler's weights, so that each run draws them.
        """
        super().__init__()
        self.base = base
        self.alone = alone
        self.heads: dict[type, str] = {}
        """For each class of transformers whose head was tried: why the encoder cannot have it; empty where it can."""
        self.part = ""
        """` of an encoder-decoder` where the base model is the encoder of one."""
        self.width = 0
        """Width of the hidden states as a trial showed it; 0: not tried."""
        self.pooler = pooler
        self.fresh_pooler = fresh_pooler
        self.packs = False
        """Whether forward passes of fine-tuning leave padding out where that pays; only this package's class can."""

        # Token type ids are given only to a class that has the argument and more than one type: RoBERTa's class
        # has the argument, but one type. A configuration that does not say how many types there are counts as
        # one of two: then only the argument decides.
        type_count = getattr(getattr(base, "config", None), "type_vocab_size", 2)
        parameters = inspect.signature(base.forward).parameters
        self.takes_kinds = "token_type_ids" in parameters and type_count > 1

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        config = self.base.config
        # What a trial showed counts before the configuration; 0 before any trial. T5's configuration calls it
        # `d_model`.
        size = (
            self.width
            or getattr(config, "hidden_size", None)
            or getattr(config, "d_model", None)
        )
        return int(size)  # type: ignore[arg-type]

    @property
    def is_decoder(self) -> bool:
        """Whether its class is one of decoders, whose heads read the last token."""
        return is_turned_decoder(self.base.config)

    @property
    def description(self) -> str:
        """How this package treats the model, in words: as an encoder or a decoder, and in which batches."""
        kind = (
            "decoder, causal mask switched off"
            if self.is_decoder
            else f"encoder{self.part}"
        )
        words = [kind, "bidirectional"]
        if self.alone:
            words.append("batched by length, because padding would change its outputs")
        return ", ".join(words)

    @property
    def init_std(self) -> float:
        """Standard deviation of a new head's weights."""
        return float(getattr(self.base.config, "initializer_range", 0.02))

    def forward(
        self, ids: Tensor, lengths: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """Return hidden states (B, L, H) of token ids.

        Args:
            ids: token ids (B, L), padded on the right.
            lengths: real tokens of each row (B,). On the CPU they are read without waiting for a GPU.
            kinds: token type ids (B, L); left out where the model takes none.
        """
        # With `alone`, padding would change the outputs: where some row has padding, rows of each length are
        # computed by themselves.
        if self.alone and int(lengths.min()) < ids.shape[1]:
            return self._each_length(ids, lengths, kinds)
        lengths_there = lengths.to(ids.device, non_blocking=True)
        positions = torch.arange(ids.shape[1], device=ids.device)
        mask = positions < lengths_there[:, None]

        # Packing pays if a pass over the real tokens costs less than one over all positions.
        if self.packs and self.training:
            padded_cost = mask.numel()
            if packed_cost(int(lengths.sum()), padded_cost) < padded_cost:
                return packed_pass(cast(EuroBertModel, self.base), ids, mask)

        # The classes of transformers take as the mask which tokens are real (B, L), as numbers.
        options: dict[str, Tensor | None] = {"attention_mask": mask.long()}
        if isinstance(self.base, EuroBertModel):
            # This package's class takes the mask as attention does: (B, heads, queries, keys).
            options["attention_mask"] = mask[:, None, None, :]
            # Attention is faster without a mask, and without padding there is nothing to mask.
            if int(lengths.min()) == ids.shape[1]:
                options["attention_mask"] = None
        elif kinds is not None and self.takes_kinds:
            options["token_type_ids"] = kinds

        states = self.base(input_ids=ids, **options)
        hidden: Tensor | None = getattr(states, "last_hidden_state", None)
        if hidden is None:
            raise ValueError(
                f"{type(self.base).__name__} returns no hidden states for tokens"
            )

        return hidden

    def _each_length(
        self, ids: Tensor, lengths: Tensor, kinds: Tensor | None
    ) -> Tensor:
        """Return the hidden states, each row computed with rows of the same length; zeros stand behind a row's end."""
        rows, states = [], []
        for length in sorted(set(lengths.tolist())):
            same = (lengths == length).nonzero().flatten()
            kinds_of_same = None
            if kinds is not None:
                kinds_of_same = kinds[same, :length]

            # These rows have no padding, so that this call is one pass of the base model.
            hidden = self(ids[same, :length], lengths[same], kinds_of_same)
            behind = ids.shape[1] - length

            # Pairs from the last dimension on: nothing around the width, zeros behind the positions.
            states.append(nn.functional.pad(hidden, (0, 0, 0, behind)))
            rows.append(same)

        # The states are sorted by length; `argsort` of their row numbers brings them into the order of the rows.
        order = torch.cat(rows).argsort()
        return torch.cat(states)[order]


def packed_pass(base: EuroBertModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Return hidden states (B, L, H), computed for real tokens only; attention alone sees padded rows.

    They equal those of a padded pass but for rounding. Behind a row's end they are zeros.

    Args:
        base: the model.
        ids: token ids (B, L).
        mask: which of the ids are of real tokens (B, L), bool.
    """
    batch, width = mask.shape
    # Places of the T real tokens among all positions, rows end to end.
    real = mask.flatten().nonzero().squeeze(1)
    # None where every token is real: attention is faster without a mask. Else its shape is that of
    # attention's mask (B, heads, queries, keys).
    attention_mask = None if len(real) == batch * width else mask[:, None, None, :]

    def spread(packed: Tensor) -> Tensor:
        """Return values of real tokens (T, ...) in their rows (B, L, ...), with zeros elsewhere."""
        empty = packed.new_zeros(batch * width, *packed.shape[1:])
        rows = empty.index_copy(0, real, packed)
        return rows.view(batch, width, *packed.shape[1:])

    def attend(q: Tensor, k: Tensor, v: Tensor, layout: AttentionLayout) -> Tensor:
        """Return attention's output for real tokens, computed in padded rows.

        `q` and the output have the shape (T, heads, size of a head), `k` and `v` perhaps with fewer heads.
        `layout` is the one that is made below.
        """
        mixed = dense_attention(
            spread(q),
            spread(k),
            spread(v),
            is_causal=layout.is_causal,
            mask=attention_mask,
        )
        # Rows end to end again, of which the real tokens are taken.
        return mixed.flatten(0, 1).index_select(0, real)

    # With a backend in the layout, each layer hands its queries, keys and values of real tokens to `attend`.
    layout = AttentionLayout(
        is_causal=False, backend=AttentionBackend(name="rows", attend=attend)
    )

    # `real % width`: positions within the row.
    cos, sin = rotary_tables(real % width, base.config.head_dim, base.config.rope_theta)
    hidden: Tensor = base.embed_tokens(ids.flatten()[real])
    for layer in base.layers:
        hidden = layer(hidden, cos, sin, layout)
    return spread(base.norm(hidden))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Longest inputs, in tokens."""

    labelled: int
    """SC, TC and QA: 99 % of the model's positions."""
    retrieval: int
    """IR in fine-tuning: 99 % of the smaller of positions and the tokenizer's limit."""
    paper_retrieval: int
    """IR in the paper's evaluation: all of the smaller of both."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """An encoder with its tokenizer, ready for fine-tuning."""

    encoder: Encoder
    """The model, on the CPU, in float32."""
    tokenizer: Any
    """A fast tokenizer with an end of text and a padding token, padding on the right."""
    retrieval_tokenizer: Any
    """The same without the special tokens that the config names (D20)."""
    limits: Limits
    """Longest inputs."""
    source: str
    """Path or id as given."""
    weights: str
    """Hash of configuration and weights."""
    tokens: str
    """Hash of the tokenizer's files."""


def load_model(
    model: str,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    max_length: int = FINE_TUNING.max_length,
) -> LoadedModel:
    """Load a model folder or hub id and make it bidirectional.

    Args:
        model: a folder of ours, one of the authors' (`sl_model`), any other Hugging Face folder, or a hub id.
        revision: branch, tag or commit of a hub id.
        trust_remote_code: run code that comes with the model; never on by itself.
        max_length: longest input in fine-tuning, in tokens, where the model has the positions.

    Raises:
        UserError: there is no such model, no fast tokenizer, no end of text, or attention stays one-sided.
    """
    # The folder, which has to hold a whole model, not only an adapter.
    folder = resolve(model, revision=revision, code=trust_remote_code)
    if (folder / _ADAPTER).is_file():
        raise UserError(
            f"{folder} contains an adapter ({_ADAPTER}); without it, the model would be a different one; merge the "
            "adapter into the weights (peft's merge_and_unload), save them and remove the adapter"
        )

    # Refuses damaged files, where this package wrote the folder and recorded their hashes.
    check_model(folder)
    # The folder's tokenizer and its base model.
    tokenizer = load_tokenizer(folder)
    # `missing` has the names of weights of its class that the folder lacks. `part` is empty, but for the
    # encoder of an encoder-decoder, of which it says so.
    base, missing, part = load_base(folder, trust_remote_code=trust_remote_code)
    try:
        embedding: Any = base.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        raise UserError(
            f"{model}: {type(base).__name__} does not expose its token embedding"
        ) from None

    padding = getattr(base.config, "pad_token_id", None)
    # As in transformers' classes, the padding's row of the embedding gets no gradient in fine-tuning: torch leaves out
    # the row `padding_idx`. In the released checkpoints that row is also the end of text.
    if (
        embedding.padding_idx is None
        and padding is not None
        and 0 <= padding < embedding.num_embeddings
    ):
        embedding.padding_idx = padding

    # The encoder, and whether its embedding has a row for every id of the tokenizer.
    encoder = _make_bidirectional(base, model)
    encoder.part = part
    encoder.fresh_pooler = any(name.startswith("pooler.") for name in missing)
    log.info("%s: %s", model, encoder.description)
    largest = max(tokenizer.get_vocab().values())
    rows = embedding.weight.shape[0]
    if largest >= rows:
        raise UserError(
            f"{model}: the tokenizer has the id {largest}, but the embedding has only {rows} rows; they do not match"
        )

    return LoadedModel(
        encoder=encoder,
        tokenizer=tokenizer,
        retrieval_tokenizer=load_tokenizer(folder, from_config=False),
        limits=input_limits(base, tokenizer, max_length),
        source=model,
        weights=weights_hash(folder, code=trust_remote_code),
        tokens=tokenizer_hash(folder),
    )


def _make_bidirectional(base: nn.Module, model: str) -> Encoder:
    """Let every token of a model see every other in all layers, and return the model as an encoder.

    Forward passes of a few tokens (`try_out`) show whether that worked.

    Args:
        base: the base model, as loaded.
        model: its name for messages.

    Raises:
        UserError: it cannot be made bidirectional; the message says what stands in the way.
    """
    # A decoder whose configuration does not yet say that it looks both ways.
    is_causal_decoder = is_decoder(base.config) and not is_turned_decoder(base.config)
    # The configuration is changed only if a trial shows that a token does not see later ones.
    if is_causal_decoder and not try_out(Encoder(base)).sees_later:
        turn(base.config, is_causal=False)

    # Modules may have copied `is_causal` from the configuration when they were made, so each is turned.
    configuration_and_modules: list[Any] = [base.config, *base.modules()]
    for holder in configuration_and_modules:
        if getattr(holder, "is_causal", None) is True:
            holder.is_causal = False

    # Take the pooler out of the base model: hidden states do not need it, and the encoder keeps it for heads that do.
    pooler: Any = getattr(base, "pooler", None)
    stand_ins = [None, NoPooler(), pooler]
    if not isinstance(pooler, nn.Module):
        # Nothing is taken out: below, the base model stays as it is and is tried once.
        pooler = None
        stand_ins = [None]

    # In the pooler's place comes the first stand-in with which a pass works: some classes call their pooler
    # without testing whether it is None. If no other stand-in works, the pooler itself goes back.
    for stand_in in stand_ins:
        if pooler is not None:
            base.pooler = stand_in
        trial = try_out(Encoder(base))
        if not trial.fault:
            break

    # In the last trial, the model and all of its parts looked both ways.
    if trial.both_ways:
        # ALBERT's and BigBird's pooler is only a layer; their class takes the first token and applies the
        # activation, which ALBERT calls `pooler_activation` and BigBird `activation`.
        if isinstance(pooler, nn.Linear):
            activation: Any = getattr(
                base, "pooler_activation", getattr(base, "activation", None)
            )
            pooler = FirstToken(pooler, activation or nn.Identity())

        # `trial.padding` says that padding changes nothing. Where it changes outputs, rows are
        # computed without any padding.
        encoder = Encoder(base, alone=not trial.padding, pooler=pooler)
        encoder.width = trial.width
        return encoder

    # With weights that are not finite, a trial would seem to show that a token is not seen: such weights are named
    # instead.
    for name, parameter in base.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise UserError(
                f"{model}: the weights {name} contain non-finite values; fetch the model again"
            )

    raise UserError(
        f"{model} ({getattr(base.config, 'model_type', 'unknown type')}) {_reason(trial)}"
    )


def _reason(trial: Trial) -> str:
    """Return why a model cannot be made bidirectional, as the end of a sentence that begins with the model's name."""
    if trial.fault:
        return f"cannot be measured, because a forward pass on a few tokens failed: {trial.fault}"
    why = "the first token's output does not depend on the last token"
    if trial.one_sided:
        kinds = ", ".join(dict.fromkeys(trial.one_sided))
        why = f"a token sees only one side in {len(trial.one_sided)} of its modules ({kinds})"
    return f"cannot be made bidirectional: {why}"


def input_limits(
    base: nn.Module, tokenizer: Any, max_length: int = FINE_TUNING.max_length
) -> Limits:
    """Return the longest inputs of a base model with this tokenizer; `max_length` limits inputs of fine-tuning."""
    positions = int(getattr(base.config, "max_position_embeddings", 0) or _POSITIONS)
    # XLNet has -1 there: it has no limit.
    if positions < 0:
        positions = _POSITIONS
    tokenizer_limit = getattr(tokenizer, "model_max_length", positions)

    # transformers gives a tokenizer without a limit one of 10**30.
    smaller = min(positions, int(min(tokenizer_limit, _POSITIONS)))
    # A table of positions may have fewer rows, and RoBERTa's positions do not begin at its first row.
    usable = positions
    for table in position_tables(base):
        usable = min(usable, table.num_embeddings - first_position(table))
    # As in the paper's code (D18): fine-tuning reads 99 % of the positions, and only that of retrieval heeds
    # the tokenizer's limit. The paper's evaluation of retrieval is not fine-tuning: it reads all that model
    # and tokenizer can, whatever `max_length` is.
    return Limits(
        labelled=min(max_length, round(_SHARE * positions), usable),
        retrieval=min(max_length, round(_SHARE * smaller), usable),
        paper_retrieval=min(smaller, usable),
    )
