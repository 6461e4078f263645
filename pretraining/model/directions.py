"""Directions of attention, set and tried: whether a model looks both ways, and whether padding changes its outputs.

A causal model's token sees only the tokens before it, as in decoders; a bidirectional one's also sees those after it.
transformers >= 5.2 makes most decoders bidirectional by a field of their configuration, which `turn` sets. Whether that
worked is never taken from the field. `sides` tries it: it changes single tokens, or the padding, and compares outputs.
`try_out` does the same for a whole encoder and for each of its parts (modules), since one part may still be causal.

A trial has eleven tokens (`_LENGTH`), and padding of three after them where it has any.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

FLAG = "use_bidirectional_attention"
"""Gemma 3's own field; `is_causal` as well would give it a third window."""
SERVERS_READ_FLAG = ("llama", "mistral", "qwen2", "qwen3")
"""Model types for which other programs that serve models read `FLAG` in place of `is_causal`; transformers ignores it
there."""

_LENGTH = 11
"""Number of tokens in a trial."""
_COLUMNS, _CANDIDATES = 64, 4096
"""Rows of an embedding are compared by so many of their columns, and so many rows are compared at a time."""
_NEAR = 1e-3
"""Relative difference of outputs below which padding counts as changing nothing: rounding may make it."""
_SEEN = 1e-6
"""Relative difference of outputs above which a changed token counts as seen."""


def has_own_flag(config: Any) -> bool:
    """Return whether a class's direction is set by `FLAG` and not by `is_causal`."""
    return str(config.model_type).startswith("gemma3") and hasattr(config, FLAG)


def is_decoder(config: Any) -> bool:
    """Return whether a configuration is of a class that has a head for the next token, and none for masked ones."""
    kind = type(config)
    if kind in AutoModelForMaskedLM._model_mapping:
        return False
    return kind in AutoModelForCausalLM._model_mapping


def is_turned_decoder(config: Any) -> bool:
    """Return whether a configuration is of a class of decoders, and says that it looks both ways."""
    is_turned = getattr(config, "is_causal", None) is False
    if getattr(config, FLAG, False):
        is_turned = True
    return is_turned and is_decoder(config)


def turn(config: Any, *, is_causal: bool) -> None:
    """Make a configuration causal or bidirectional, as transformers >= 5.2 reads it.

    A bidirectional Gemma 3 has half its sliding window on each side. Its class halves the window only when a
    configuration is made, so that is done here.

    The two formulas are those of the class, when it reads a configuration and when it saves one. A token sees
    those at a distance below the bidirectional window w, so w - 1 to each side: together 2 (w - 1), the window
    as it is saved.
    """
    if not has_own_flag(config):
        config.is_causal = is_causal
        return
    is_bidirectional = bool(getattr(config, FLAG))
    # Only if the direction changes: the window must not be halved or doubled twice. The two are equal where
    # the flag says both ways and causal is wanted, or the other way round.
    if is_bidirectional == is_causal:
        setattr(config, FLAG, not is_causal)
        window = config.sliding_window
        config.sliding_window = 2 * (window - 1) if is_causal else window // 2 + 1


@dataclass(frozen=True, kw_only=True)
class Sides:
    """How much a change of input changes the outputs of eleven tokens, relative to the largest output.

    `first` and `earlier` are measured with and without padding after the tokens, and are the smaller of the two.
    """

    first: float
    """How much the first token's output changes when the last token changes: 0 if it does not see the last token."""
    earlier: float
    """The largest change of an output of any token before the last, when the last token changes."""
    padding: float
    """The largest change of any token's output when padding is added, or when that padding has other tokens."""
    outputs: Tensor
    """The outputs (1, 11, width), without any change."""

    @property
    def both_ways(self) -> bool:
        """Whether the first token sees the last, padded or not, and padding changes nothing."""
        return self.first > _SEEN and self.padding < _NEAR


@torch.no_grad()
def probe_ids(embedding: nn.Embedding, count: int = _LENGTH + 7) -> Tensor:
    """Return ids of tokens to try a model with, (count,), always the same ones; by default 18, as `sides` takes.

    Their rows of the embedding differ, so that outputs tell the tokens apart. (When a vocabulary grows, its new rows
    are equal: to replace one of those tokens by another would change nothing.) Ids repeat only if too few rows differ.
    """
    rows = embedding.weight[:, :_COLUMNS]
    half = len(rows) // 2
    generator = torch.Generator().manual_seed(0)

    # Candidates in random order. Those of the upper half come first: special tokens are in the lower one.
    upper = half + torch.randperm(len(rows) - half, generator=generator)
    order = torch.cat([upper, torch.randperm(half, generator=generator)])
    if embedding.padding_idx is not None:
        order = order[order != embedding.padding_idx]
    ids = order[:0]  # none yet
    for part in torch.split(order, _CANDIDATES):
        ids = torch.cat([ids, part])
        values = rows[ids.to(rows.device)].float().cpu()
        # For each id, the number of the group of equal rows that its row is in.
        _, group = torch.unique(values, dim=0, return_inverse=True)

        # Of each group keep only its first id: the smallest index in `ids`.
        groups = int(group.max()) + 1
        firsts = torch.full((groups,), len(ids))
        firsts.scatter_reduce_(0, group, torch.arange(len(ids)), "amin")
        firsts = firsts.sort().values
        ids = ids[firsts][:count]
        if len(ids) == count:
            break

    # If there are fewer than `count`, they come again.
    return ids.repeat(count)[:count].to(rows.device)


@torch.no_grad()
def sides(outputs: Callable[[Tensor, int], Tensor], probes: Tensor) -> Sides:
    """Return how much the outputs of a few tokens change with the last token, and with padding after them.

    A class may lose sight of later tokens only beside padding, or only without. So of the two changes that the
    last token makes, with padding and without, the smaller counts: it is large only if the token is seen in both
    cases.

    Args:
        outputs: a function of ids (1, L) and of how many of them are real (the rest is padding), which returns the
            model's outputs (1, L, width).
        probes: 18 ids, as `probe_ids` returns them.
    """
    # Of the 18 ids, 11 are the tokens, 3 the padding, 1 replaces the last token, and 3 replace the padding.
    padded = probes[None, : _LENGTH + 3]
    last_changed = padded.clone()
    last_changed[0, _LENGTH - 1] = probes[_LENGTH + 3]
    other_padding = padded.clone()
    other_padding[0, _LENGTH:] = probes[_LENGTH + 4 :]

    def of_tokens(ids: Tensor) -> Tensor:
        """Return the outputs of the eleven tokens, without those of the padding."""
        return outputs(ids, _LENGTH)[:, :_LENGTH]

    plain = of_tokens(padded[:, :_LENGTH])
    plain_changed = of_tokens(last_changed[:, :_LENGTH])
    with_padding = of_tokens(padded)
    with_padding_changed = of_tokens(last_changed)
    with_other_padding = of_tokens(other_padding)

    # Differences are relative to the largest output; 1e-6 is added in case that all outputs are 0.
    scale = plain.abs().max().item() + 1e-6

    def gap(one: Tensor, other: Tensor, end: int = _LENGTH) -> float:
        """Return the largest relative difference of two outputs at the tokens before `end`."""
        differences = (one - other)[:, :end].abs()
        return differences.max().item() / scale

    def gap_of_last(end: int) -> float:
        """Return how much the last token changes the outputs before `end`: the smaller of with and without padding."""
        without_padding = gap(plain, plain_changed, end)
        beside_padding = gap(with_padding, with_padding_changed, end)
        return min(without_padding, beside_padding)

    return Sides(
        first=gap_of_last(1),
        earlier=gap_of_last(_LENGTH - 1),
        padding=max(gap(plain, with_padding), gap(plain, with_other_padding)),
        outputs=plain,
    )


def padding_mask(ids: Tensor, length: int) -> Tensor | None:
    """Return the attention mask (1, L) of a row of ids (1, L) whose first `length` are real; None if all are."""
    if length == ids.shape[1]:
        return None
    return (torch.arange(ids.shape[1], device=ids.device) < length).long()[None]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What passes of a few tokens through an encoder have shown."""

    width: int = 0
    """Width of its hidden states."""
    sees_later: bool = False
    """Whether a token's output depends on later tokens."""
    one_sided: tuple[str, ...] = ()
    """Names of the classes of parts whose outputs depend only on earlier positions, or only on later ones. Of a part
    inside another such part, only the inner one is named."""
    padding: bool = False
    """Whether padding changes nothing: the outputs of a row are the same with and without it, whatever its tokens."""
    fault: str = ""
    """Why the encoder has no output of the right shape; empty if it has."""

    @property
    def both_ways(self) -> bool:
        """Whether the model and all of its parts look both ways."""
        return self.sees_later and not self.one_sided


@torch.no_grad()
def try_out(encoder: Any) -> Trial:
    """Return in which directions an encoder looks, in all of its parts, and whether padding changes its outputs.

    Args:
        encoder: a `benchmarks.finetuning.encoders.Encoder`.
    """
    # What `AutoModel` loads, which the encoder calls.
    base: nn.Module = encoder.base
    was_training = encoder.training
    encoder.eval()

    # Hooks note the arguments with which each part is called first, so that it can be tried by itself.
    inputs: dict[nn.Module, tuple[Any, Any]] = {}
    keep_first = _keep_first(inputs)
    hooks = []
    for part in base.modules():
        # Single layers, such as linear ones, are left out; attention consists of several.
        has_parts = any(True for _ in part.children())
        if has_parts and part is not base:
            hook = part.register_forward_pre_hook(keep_first, with_kwargs=True)
            hooks.append(hook)

    try:
        return _trial(encoder, inputs)
    except _CallError as error:
        return Trial(fault=str(error))
    finally:
        for hook in hooks:
            hook.remove()
        encoder.train(was_training)


class _CallError(Exception):
    """An error raised by the code of a model's class."""


def _call(part: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Call a part of a model and return its output; whatever it raises becomes a `_CallError`."""
    try:
        return part(*args, **kwargs)
    except Exception as error:  # whatever the code of a model of any class may raise
        message = " ".join(str(error).split())
        raise _CallError(f"{type(error).__name__}: {message[:300]}") from None


def _keep_first(inputs: dict[nn.Module, tuple[Any, Any]]) -> Callable[..., None]:
    """Return a hook that puts the positional and the named arguments of each part's first call into `inputs`."""

    def hook(part: nn.Module, args: Any, kwargs: Any) -> None:
        if part not in inputs:
            inputs[part] = _fresh(args), _fresh(kwargs)

    return hook


def _fresh(arguments: Any) -> Any:
    """Return arguments (a tuple, or a dict by name) in which caches are copies, since a call adds to a cache."""
    if isinstance(arguments, dict):
        return {name: _fresh_item(item) for name, item in arguments.items()}
    return tuple(_fresh_item(item) for item in arguments)


def _fresh_item(item: Any) -> Any:
    # The method that all of transformers' caches of keys and values have.
    is_cache = hasattr(item, "get_seq_length")
    return copy.deepcopy(item) if is_cache else item


def _trial(encoder: Any, inputs: dict[nn.Module, tuple[Any, Any]]) -> Trial:
    """Return what trials of the whole encoder, and then of each part by itself, have shown.

    Args:
        encoder: the encoder, in evaluation mode, with hooks that fill `inputs`.
        inputs: by part, the arguments of its first call; filled when the encoder is tried, and then read.

    Raises:
        _CallError: the encoder or a part raised an error, or the output has the wrong shape.
    """
    device = next(encoder.parameters()).device

    def states(ids: Tensor, length: int) -> Tensor:
        """Return the encoder's hidden states (1, L, width) of ids (1, L) whose first `length` are real."""
        lengths = torch.tensor([length], device=device)
        hidden: Tensor = _call(encoder, ids, lengths)
        if hidden.shape[:2] != ids.shape:
            shapes = f"{tuple(hidden.shape)} for {ids.shape[1]} tokens"
            raise _CallError(f"it returned hidden states of shape {shapes}")
        return hidden.float()

    probes = probe_ids(encoder.base.get_input_embeddings())
    changes = sides(states, probes.to(device))
    one_sided = []
    for part, (args, kwargs) in inputs.items():
        sees = _sees_sides(part, args, kwargs)
        # A part that sees neither side computes each position by itself, as a feed-forward layer does.
        if sees in ((True, False), (False, True)):
            one_sided.append(part)

    innermost = []
    for part in one_sided:
        # `modules` begins with the part itself.
        parts_inside = list(part.modules())[1:]
        if not any(other in one_sided for other in parts_inside):
            innermost.append(type(part).__name__)

    return Trial(
        width=changes.outputs.shape[-1],
        sees_later=changes.earlier > _SEEN,
        one_sided=tuple(innermost),
        padding=changes.padding < _NEAR,
    )


def _sees_sides(
    part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, bool] | None:
    """Return whether a part's outputs depend on earlier positions of its input, and whether on later ones.

    An early position of its hidden states is replaced by noise, then a late one, and outputs are compared.

    Args:
        part: the part.
        args: positional arguments to call it with.
        kwargs: named arguments to call it with.

    Returns:
        Both answers, first for earlier positions; None if the part does not read hidden states of a sequence and return
        such.
    """
    # All arguments, by position or by name. The first that may be hidden states is taken for them.
    pairs: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    arguments = dict(pairs)
    sequences = [key for key, value in arguments.items() if _is_sequence(value)]
    if not sequences:
        return None
    read_key = sequences[0]
    hidden = arguments[read_key]
    axis = 1 if hidden.shape[0] == 1 else 0  # the positions' axis

    # A class may pad its input itself: positions after those of the eleven tokens are then padding, and do
    # not count.
    end = min(_LENGTH, hidden.shape[axis])

    # The second position and the last but one, so that there are positions before and after each.
    early, late = 1, end - 2

    def output(changed: int | None) -> Tensor | None:
        """Return the part's output with noise at one position of its input, or at none."""
        states = hidden.clone()
        if changed is not None:
            # With its place as the seed, so that a trial always comes out the same.
            generator = np.random.default_rng(changed)
            noise = torch.from_numpy(generator.normal(size=hidden.shape[-1]))
            # A view into `states`; the noise has the size of the largest hidden state.
            spot = states[:, changed] if axis else states[changed]
            spot.copy_(noise.to(spot) * (1 + hidden.abs().max()))

        own_args = list(_fresh(args))
        own_kwargs = _fresh(kwargs)
        if isinstance(read_key, int):
            own_args[read_key] = states
        else:
            own_kwargs[read_key] = states

        out = _call(part, *own_args, **own_kwargs)
        # Some parts return a tuple with the hidden states first.
        while isinstance(out, tuple | list) and out:
            out = out[0]
        if not isinstance(out, Tensor) or out.shape[:2] != hidden.shape[:2]:
            return None
        return out.float()

    unchanged = output(None)
    early_changed = output(early)
    late_changed = output(late)
    if unchanged is None or early_changed is None or late_changed is None:
        return None

    # A change above this limit counts as seen. It is relative to the largest output; 1e-6 is added in case
    # that all outputs are 0.
    limit = _SEEN * (unchanged.abs().max().item() + 1e-6)

    def differs(other: Tensor, first: int, stop: int) -> bool:
        """Return whether an output differs from the unchanged one at positions [first, stop)."""
        gap = (unchanged - other).abs()
        positions = gap[:, first:stop] if axis else gap[first:stop]
        return bool(positions.max().item() > limit)

    # Outputs after the early position see an earlier one; outputs before the late position see a later one.
    sees_earlier = differs(early_changed, early + 1, end)
    sees_later = differs(late_changed, 0, late)
    return sees_earlier, sees_later


def _is_sequence(value: Any) -> bool:
    """Return whether a value may be the hidden states of one row: (1, positions, width), or (positions, 1, width)."""
    if not isinstance(value, Tensor) or value.dim() != 3:
        return False
    if not value.is_floating_point():
        return False
    rows_and_positions = value.shape[:2]
    # One axis is the single row, the other has the positions: at least four, so that the second is before the
    # last but one (`_sees_sides`).
    return 1 in rows_and_positions and max(rows_and_positions) >= 4
