"""Whether a model looks both ways, in all of its parts, and whether padding changes what it computes: by trying.

transformers >= 5.2 makes most decoders bidirectional by a field of their configuration, which is tried first.
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

__all__ = ["FLAG", "Trial", "is_turned_decoder", "try_out", "turn"]

FLAG = "use_bidirectional_attention"
"""Gemma 3's own field; `is_causal` as well would give it a third window."""

_LENGTH = 11
_NEAR = 1e-3
"""Relative difference that rounding may make where padding changes nothing."""


def _has_own_flag(config: Any) -> bool:
    """Return whether a class is turned by `FLAG` and not by `is_causal`."""
    return str(config.model_type).startswith("gemma3") and hasattr(config, FLAG)


def is_turned_decoder(config: Any) -> bool:
    """Return whether a configuration is of a class of decoders, and says that it looks both ways."""
    flagged = getattr(config, "is_causal", None) is False or bool(getattr(config, FLAG, False))
    return flagged and _is_decoder(config)


def _is_decoder(config: Any) -> bool:
    kind = type(config)
    return kind in AutoModelForCausalLM._model_mapping and kind not in AutoModelForMaskedLM._model_mapping


def turn(config: Any, looks_both_ways: Callable[[], bool]) -> None:
    """Switch a decoder's causal mask off in its configuration, unless it looks both ways as it is.

    Gemma 3 halves its windows, as its configuration does when it is made with the flag.
    """
    if not _is_decoder(config) or is_turned_decoder(config) or looks_both_ways():
        return
    if _has_own_flag(config):
        setattr(config, FLAG, True)
        config.sliding_window = config.sliding_window // 2 + 1
    else:
        config.is_causal = False


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
    seen: dict[nn.Module, tuple[Any, Any]] = {}
    hooks = [
        part.register_forward_pre_hook(_remember(seen), with_kwargs=True)
        for part in base.modules()
        if part is not base and any(True for _ in part.children())
    ]
    try:
        return _trial(encoder, seen, hooks)
    except _CallError as error:
        return Trial(fault=str(error))
    finally:
        for hook in hooks:
            hook.remove()
        encoder.train(was_training)


class _CallError(Exception):
    """What the code of a model's class raised."""


def _call(part: nn.Module, *given: Any, **named: Any) -> Any:
    try:
        return part(*given, **named)
    except Exception as error:  # whatever the code of a model of any class may raise
        raise _CallError(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from None


def _remember(seen: dict[nn.Module, tuple[Any, Any]]) -> Callable[..., None]:
    def hook(part: nn.Module, given: Any, named: Any) -> None:
        if part not in seen:
            seen[part] = _fresh(given), _fresh(named)

    return hook


def _fresh(given: Any) -> Any:
    """Return what a part was given, with a copy of its caches, which a call fills."""
    pairs = list(given.items()) if isinstance(given, dict) else list(enumerate(given))
    found = {key: copy.deepcopy(one) if hasattr(one, "get_seq_length") else one for key, one in pairs}
    return found if isinstance(given, dict) else tuple(found.values())


def _trial(encoder: Any, seen: dict[nn.Module, tuple[Any, Any]], hooks: list[Any]) -> Trial:
    rows = int(encoder.base.get_input_embeddings().weight.shape[0])
    device = next(encoder.parameters()).device
    drawn = np.random.default_rng(0).integers(rows // 2, rows, (1, _LENGTH + 3))
    ids = torch.from_numpy(drawn).to(device)
    alone, other = ids[:, :_LENGTH], ids.clone()
    lengths = torch.tensor([_LENGTH], device=device)

    def states(read: Tensor) -> Tensor:
        found: Tensor = _call(encoder, read, lengths)
        return found.float()

    first = states(alone)
    for hook in hooks:
        hook.remove()
    if first.shape[:2] != alone.shape:
        return Trial(fault=f"it returned hidden states of shape {tuple(first.shape)} for {_LENGTH} tokens")
    changed, changed_padded = alone.clone(), ids.clone()
    changed[0, -1] = changed_padded[0, _LENGTH - 1] = (alone[0, -1] + 1) % rows
    other[0, _LENGTH:] = (ids[0, _LENGTH:] + 1) % rows
    padded, padded_other, padded_later = (states(each)[:, :_LENGTH] for each in (ids, other, changed_padded))
    scale = first.abs().max().item() + 1e-6

    def gap(a: Tensor, b: Tensor, end: int = _LENGTH) -> float:
        return (a - b)[:, :end].abs().max().item() / scale

    one_sided = [part for part, given in seen.items() if _sides(part, *given) in {(1, 0), (0, 1)}]
    inner = [part for part in one_sided if not any(other in one_sided for other in list(part.modules())[1:])]
    return Trial(
        width=first.shape[-1],
        sees_later=min(gap(first, states(changed), -1), gap(padded, padded_later, -1)) > 1e-6,
        one_sided=tuple(type(part).__name__ for part in inner),
        padding=max(gap(first, padded), gap(first, padded_other)) < _NEAR,
    )


def _sides(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int] | None:
    """Return whether outputs depend on earlier, and on later, positions of what a part read; None for no sequence."""
    place: int | str | None = next((number for number, one in enumerate(given) if _is_sequence(one)), None)
    if place is None:
        place = next((name for name, one in named.items() if _is_sequence(one)), None)
    if place is None:
        return None
    hidden = given[place] if isinstance(place, int) else named[place]
    axis = 1 if hidden.shape[0] == 1 else 0
    length = hidden.shape[axis]
    early, late = 1, min(_LENGTH, length) - 2

    def output(changed: int | None) -> Tensor | None:
        read = hidden.clone()
        if changed is not None:
            noise = np.random.default_rng(changed).normal(size=hidden.shape[-1])
            spot = read[:, changed] if axis else read[changed]
            spot.copy_(torch.from_numpy(noise).to(spot) * (1 + hidden.abs().max()))
        args = [read if number == place else one for number, one in enumerate(_fresh(given))]
        found = _call(
            part, *args, **{name: read if name == place else one for name, one in _fresh(named).items()}
        )
        while isinstance(found, tuple | list) and found:
            found = found[0]
        return found.float() if isinstance(found, Tensor) and found.shape[:2] == hidden.shape[:2] else None

    first, low, high = output(None), output(early), output(late)
    if first is None or low is None or high is None:
        return None
    limit = 1e-6 * (first.abs().max().item() + 1e-6)

    def differs(other: Tensor, start: int, end: int) -> int:
        gap = (first - other).abs()
        return int((gap[:, start:end] if axis else gap[start:end]).max().item() > limit)

    return differs(low, early + 1, late + 2), differs(high, 0, late)


def _is_sequence(value: Any) -> bool:
    """Whether a value may be the hidden states of one row: (1, positions, width), or (positions, 1, width)."""
    if not isinstance(value, Tensor) or value.dim() != 3 or not value.is_floating_point():
        return False
    return 1 in value.shape[:2] and max(value.shape[:2]) >= 4
