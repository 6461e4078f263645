"""Whether a model looks both ways, in all of its parts, and whether padding changes what it computes: by trying.

transformers >= 5.2 makes most decoders bidirectional by a field of their configuration (`turn`). Whether that worked is
never taken from the field: `sides` changes tokens and padding and looks at outputs, `try_out` at every part, too.
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
"""Types whose servers read `FLAG` in place of `is_causal`; transformers ignores it there."""

_LENGTH = 11
_COLUMNS, _CANDIDATES = 64, 4096
"""Of an embedding: what two rows are compared by, and how many are compared at a time."""
_NEAR = 1e-3
"""Relative difference that rounding may make where padding changes nothing."""
_SEEN = 1e-6
"""Relative difference that only another input makes."""


def has_own_flag(config: Any) -> bool:
    """Return whether a class is turned by `FLAG` and not by `is_causal`."""
    return str(config.model_type).startswith("gemma3") and hasattr(config, FLAG)


def is_decoder(config: Any) -> bool:
    """Return whether a configuration is of a class that has a head for the next token, and none for masked ones."""
    kind = type(config)
    return (
        kind in AutoModelForCausalLM._model_mapping
        and kind not in AutoModelForMaskedLM._model_mapping
    )


def is_turned_decoder(config: Any) -> bool:
    """Return whether a configuration is of a class of decoders, and says that it looks both ways."""
    flagged = getattr(config, "is_causal", None) is False or bool(
        getattr(config, FLAG, False)
    )
    return flagged and is_decoder(config)


def turn(config: Any, *, is_causal: bool) -> None:
    """Make a configuration's direction causal or bidirectional, as transformers >= 5.2 reads it.

    Gemma 3 halves its window to look both ways only when a configuration is made, so the window is changed here.
    """
    if not has_own_flag(config):
        config.is_causal = is_causal
    # The flag is `use_bidirectional_attention`, the opposite of is_causal: where they are equal, it has to turn.
    elif bool(getattr(config, FLAG)) == is_causal:
        setattr(config, FLAG, not is_causal)
        window = config.sliding_window
        config.sliding_window = 2 * (window - 1) if is_causal else window // 2 + 1


@dataclass(frozen=True, kw_only=True)
class Sides:
    """How much outputs of eleven tokens change, relative to the largest: the smaller of with and without padding."""

    first: float
    """The first token's, with the last token."""
    earlier: float
    """Those of any token before the last, with it."""
    padding: float
    """All, with padding and with what it holds; the larger of both."""
    outputs: Tensor
    """The outputs (1, 11, width)."""

    @property
    def both_ways(self) -> bool:
        """Whether the first token sees the last, padded or not, and padding changes nothing."""
        return self.first > _SEEN and self.padding < _NEAR


@torch.no_grad()
def probe_ids(embedding: nn.Embedding, count: int = _LENGTH + 7) -> Tensor:
    """Return ids (count,) whose rows differ, so that outputs tell them apart; always the same ones.

    New rows of a grown vocabulary are equal, and two of their ids would prove nothing. Ids of the upper half come
    first, where no special ones are. They come again only where too few rows differ.
    """
    rows = embedding.weight[:, :_COLUMNS]
    half = len(rows) // 2
    generator = torch.Generator().manual_seed(0)
    upper = half + torch.randperm(len(rows) - half, generator=generator)
    order = torch.cat([upper, torch.randperm(half, generator=generator)])
    order = order[
        order != (-1 if embedding.padding_idx is None else embedding.padding_idx)
    ]
    found = order[:0]
    for part in torch.split(order, _CANDIDATES):
        found = torch.cat([found, part])
        values = rows[found.to(rows.device)].float().cpu()
        _, group = torch.unique(values, dim=0, return_inverse=True)
        firsts = torch.full((int(group.max()) + 1,), len(found))
        firsts.scatter_reduce_(0, group, torch.arange(len(found)), "amin")
        found = found[firsts.sort().values][:count]
        if len(found) == count:
            break
    return found.repeat(count)[:count].to(rows.device)


@torch.no_grad()
def sides(outputs: Callable[[Tensor, int], Tensor], probes: Tensor) -> Sides:
    """Return what changes the outputs of a few tokens, with and without padding.

    Args:
        outputs: gives (1, L, width) for ids (1, L) of which so many are real and the rest padding.
        probes: 18 ids, as `probe_ids` returns them.
    """
    padded = probes[None, : _LENGTH + 3]
    other_padding, last_changed = padded.clone(), padded.clone()
    last_changed[0, _LENGTH - 1] = probes[_LENGTH + 3]
    other_padding[0, _LENGTH:] = probes[_LENGTH + 4 :]
    inputs = (
        padded[:, :_LENGTH],
        last_changed[:, :_LENGTH],
        padded,
        last_changed,
        other_padding,
    )
    of_tokens, of_changed, of_padded, of_padded_changed, of_other_padding = (
        outputs(ids, _LENGTH)[:, :_LENGTH] for ids in inputs
    )
    scale = of_tokens.abs().max().item() + 1e-6

    def gap(one: Tensor, other: Tensor, end: int = _LENGTH) -> float:
        return (one - other)[:, :end].abs().max().item() / scale

    pairs = ((of_tokens, of_changed), (of_padded, of_padded_changed))
    return Sides(
        first=min(gap(*pair, 1) for pair in pairs),
        earlier=min(gap(*pair, _LENGTH - 1) for pair in pairs),
        padding=max(gap(of_tokens, of_padded), gap(of_tokens, of_other_padding)),
        outputs=of_tokens,
    )


def padding_mask(ids: Tensor, length: int) -> Tensor | None:
    """Return the mask (1, L) of a row of which so many tokens are real; None where all are."""
    if length == ids.shape[1]:
        return None
    return (torch.arange(ids.shape[1], device=ids.device) < length).long()[None]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a pass of a few tokens shows of a model."""

    width: int = 0
    """Width of its hidden states."""
    sees_later: bool = False
    """Whether a token's output depends on later tokens."""
    one_sided: tuple[str, ...] = ()
    """Classes of the innermost parts whose outputs depend on earlier positions alone, or on later ones alone."""
    padding: bool = False
    """Whether the outputs of a row are those that it has alone, whatever comes after its end."""
    fault: str = ""
    """Why there is no output of the right shape."""

    @property
    def both_ways(self) -> bool:
        """Whether the model and all of its parts look both ways."""
        return self.sees_later and not self.one_sided


@torch.no_grad()
def try_out(encoder: Any) -> Trial:
    """Return what `encoder`, a `benchmarks.finetuning.encoders.Encoder`, does with eleven tokens and padding."""
    base: nn.Module = encoder.base
    was_training = encoder.training
    encoder.eval()
    inputs: dict[nn.Module, tuple[Any, Any]] = {}
    hooks = [
        part.register_forward_pre_hook(_keep_first(inputs), with_kwargs=True)
        for part in base.modules()
        if part is not base and any(True for _ in part.children())
    ]
    try:
        return _trial(encoder, inputs)
    except _CallError as error:
        return Trial(fault=str(error))
    finally:
        for hook in hooks:
            hook.remove()
        encoder.train(was_training)


class _CallError(Exception):
    """What the code of a model's class raised."""


def _call(part: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Return what a part gives for these arguments; whatever it raises becomes a `_CallError`."""
    try:
        return part(*args, **kwargs)
    except Exception as error:  # whatever the code of a model of any class may raise
        raise _CallError(
            f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        ) from None


def _keep_first(inputs: dict[nn.Module, tuple[Any, Any]]) -> Callable[..., None]:
    """Return a hook that puts the arguments of a part's first call into `inputs`."""

    def hook(part: nn.Module, args: Any, kwargs: Any) -> None:
        if part not in inputs:
            inputs[part] = _fresh(args), _fresh(kwargs)

    return hook


def _fresh(arguments: Any) -> Any:
    """Return arguments with a copy of those that are caches, which a call fills."""
    pairs = (
        list(arguments.items())
        if isinstance(arguments, dict)
        else list(enumerate(arguments))
    )
    copies = {
        key: copy.deepcopy(item) if hasattr(item, "get_seq_length") else item
        for key, item in pairs
    }
    return copies if isinstance(arguments, dict) else tuple(copies.values())


def _trial(encoder: Any, inputs: dict[nn.Module, tuple[Any, Any]]) -> Trial:
    """Try an encoder whole, whose hooks fill `inputs` meanwhile, then each part with what it was called with."""
    device = next(encoder.parameters()).device

    def states(ids: Tensor, length: int) -> Tensor:
        hidden: Tensor = _call(encoder, ids, torch.tensor([length], device=device))
        if hidden.shape[:2] != ids.shape:
            shapes = f"{tuple(hidden.shape)} for {ids.shape[1]} tokens"
            raise _CallError(f"it returned hidden states of shape {shapes}")
        return hidden.float()

    changes = sides(states, probe_ids(encoder.base.get_input_embeddings()).to(device))
    one_side = {(True, False), (False, True)}
    one_sided = [
        part
        for part, arguments in inputs.items()
        if _sees_sides(part, *arguments) in one_side
    ]
    inner = [
        part
        for part in one_sided
        if not any(other in one_sided for other in list(part.modules())[1:])
    ]
    return Trial(
        width=changes.outputs.shape[-1],
        sees_later=changes.earlier > _SEEN,
        one_sided=tuple(type(part).__name__ for part in inner),
        padding=changes.padding < _NEAR,
    )


def _sees_sides(
    part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, bool] | None:
    """Return whether outputs of a part depend on earlier positions of its input, and whether on later ones.

    None where it reads or gives no sequence of hidden states. An early and a late position of the input are changed.
    """
    key: int | str | None = next(
        (number for number, value in enumerate(args) if _is_sequence(value)), None
    )
    if key is None:
        key = next(
            (name for name, value in kwargs.items() if _is_sequence(value)), None
        )
    if key is None:
        return None
    hidden = args[key] if isinstance(key, int) else kwargs[key]
    axis = 1 if hidden.shape[0] == 1 else 0  # that of the positions
    end = min(_LENGTH, hidden.shape[axis])  # a class may pad its input itself
    early, late = 1, end - 2

    def output(changed: int | None) -> Tensor | None:
        """Return the part's output with noise at one position of its input, or at none."""
        states = hidden.clone()
        if changed is not None:
            noise = np.random.default_rng(changed).normal(size=hidden.shape[-1])
            spot = states[:, changed] if axis else states[changed]
            spot.copy_(torch.from_numpy(noise).to(spot) * (1 + hidden.abs().max()))
        out = _call(
            part,
            *(
                states if number == key else value
                for number, value in enumerate(_fresh(args))
            ),
            **{
                name: states if name == key else value
                for name, value in _fresh(kwargs).items()
            },
        )
        while isinstance(out, tuple | list) and out:
            out = out[0]
        return (
            out.float()
            if isinstance(out, Tensor) and out.shape[:2] == hidden.shape[:2]
            else None
        )

    unchanged, early_changed, late_changed = output(None), output(early), output(late)
    if unchanged is None or early_changed is None or late_changed is None:
        return None
    limit = 1e-6 * (unchanged.abs().max().item() + 1e-6)

    def differs(other: Tensor, first: int, stop: int) -> bool:
        gap = (unchanged - other).abs()
        return bool(
            (gap[:, first:stop] if axis else gap[first:stop]).max().item() > limit
        )

    return differs(early_changed, early + 1, end), differs(late_changed, 0, late)


def _is_sequence(value: Any) -> bool:
    """Whether a value may be the hidden states of one row: (1, positions, width), or (positions, 1, width)."""
    if (
        not isinstance(value, Tensor)
        or value.dim() != 3
        or not value.is_floating_point()
    ):
        return False
    return 1 in value.shape[:2] and max(value.shape[:2]) >= 4
