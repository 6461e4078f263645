"""Directions, by trying: whether a model looks both ways, in all of its parts, and whether padding changes anything.

transformers >= 5.2 makes most decoders bidirectional by a field of their configuration (`turn`). Whether that worked is
never taken from the field: `sides` changes tokens and padding and looks at outputs, `try_out` also at every part.
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
"""Tokens of a trial."""
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
    """Make a configuration's direction causal or bidirectional, as transformers >= 5.2 reads it.

    Gemma 3 halves its window to look both ways only when a configuration is made, so the window is changed here.
    """
    if not has_own_flag(config):
        config.is_causal = is_causal
        return
    is_bidirectional = bool(getattr(config, FLAG))
    if is_bidirectional == is_causal:
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
    if embedding.padding_idx is not None:
        order = order[order != embedding.padding_idx]
    ids = order[:0]
    for part in torch.split(order, _CANDIDATES):
        ids = torch.cat([ids, part])
        values = rows[ids.to(rows.device)].float().cpu()
        _, group = torch.unique(values, dim=0, return_inverse=True)
        # For each group of equal rows the place of its first row, in the order of the candidates.
        groups = int(group.max()) + 1
        firsts = torch.full((groups,), len(ids))
        firsts.scatter_reduce_(0, group, torch.arange(len(ids)), "amin")
        firsts = firsts.sort().values
        ids = ids[firsts][:count]
        if len(ids) == count:
            break
    return ids.repeat(count)[:count].to(rows.device)


@torch.no_grad()
def sides(outputs: Callable[[Tensor, int], Tensor], probes: Tensor) -> Sides:
    """Return what changes the outputs of a few tokens, with and without padding.

    Args:
        outputs: gives (1, L, width) for ids (1, L) of which so many are real and the rest padding.
        probes: 18 ids, as `probe_ids` returns them.
    """
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
    scale = plain.abs().max().item() + 1e-6

    def gap(one: Tensor, other: Tensor, end: int = _LENGTH) -> float:
        differences = (one - other)[:, :end].abs()
        return differences.max().item() / scale

    def gap_of_last(end: int) -> float:
        """Return how much the last token changes the outputs before `end`, padded or not."""
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
    """Return the mask (1, L) of a row of which so many tokens are real; None where all are."""
    if length == ids.shape[1]:
        return None
    return (torch.arange(ids.shape[1], device=ids.device) < length).long()[None]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Findings of a pass of a few tokens through a model."""

    width: int = 0
    """Width of its hidden states."""
    sees_later: bool = False
    """Whether a token's output depends on later tokens."""
    one_sided: tuple[str, ...] = ()
    """Classes of the innermost parts whose outputs depend only on earlier positions, or only on later ones."""
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
    keep_first = _keep_first(inputs)
    hooks = []
    for part in base.modules():
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
    """Return what a part gives for these arguments; whatever it raises becomes a `_CallError`."""
    try:
        return part(*args, **kwargs)
    except Exception as error:  # whatever the code of a model of any class may raise
        message = " ".join(str(error).split())
        raise _CallError(f"{type(error).__name__}: {message[:300]}") from None


def _keep_first(inputs: dict[nn.Module, tuple[Any, Any]]) -> Callable[..., None]:
    """Return a hook that puts the arguments of a part's first call into `inputs`."""

    def hook(part: nn.Module, args: Any, kwargs: Any) -> None:
        if part not in inputs:
            inputs[part] = _fresh(args), _fresh(kwargs)

    return hook


def _fresh(arguments: Any) -> Any:
    """Return arguments with a copy of those that are caches, which a call fills."""
    if isinstance(arguments, dict):
        return {name: _fresh_item(item) for name, item in arguments.items()}
    return tuple(_fresh_item(item) for item in arguments)


def _fresh_item(item: Any) -> Any:
    is_cache = hasattr(item, "get_seq_length")
    return copy.deepcopy(item) if is_cache else item


def _trial(encoder: Any, inputs: dict[nn.Module, tuple[Any, Any]]) -> Trial:
    """Try the whole encoder, whose hooks record each part's inputs in `inputs`, then each part with these inputs."""
    device = next(encoder.parameters()).device

    def states(ids: Tensor, length: int) -> Tensor:
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
        if sees in ((True, False), (False, True)):
            one_sided.append(part)
    innermost = []
    for part in one_sided:
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
    """Return whether outputs of a part depend on earlier positions of its input, and whether on later ones.

    None where it reads or gives no sequence of hidden states. An early and a late position of the input are changed.
    """
    pairs: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    arguments = dict(pairs)
    sequences = [key for key, value in arguments.items() if _is_sequence(value)]
    if not sequences:
        return None
    read_key = sequences[0]
    hidden = arguments[read_key]
    axis = 1 if hidden.shape[0] == 1 else 0  # the positions' axis
    end = min(_LENGTH, hidden.shape[axis])  # a class may pad its input itself
    early, late = 1, end - 2

    def output(changed: int | None) -> Tensor | None:
        """Return the part's output with noise at one position of its input, or at none."""
        states = hidden.clone()
        if changed is not None:
            generator = np.random.default_rng(changed)
            noise = torch.from_numpy(generator.normal(size=hidden.shape[-1]))
            spot = states[:, changed] if axis else states[changed]
            spot.copy_(noise.to(spot) * (1 + hidden.abs().max()))
        own_args = list(_fresh(args))
        own_kwargs = _fresh(kwargs)
        if isinstance(read_key, int):
            own_args[read_key] = states
        else:
            own_kwargs[read_key] = states
        out = _call(part, *own_args, **own_kwargs)
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
    limit = 1e-6 * (unchanged.abs().max().item() + 1e-6)

    def differs(other: Tensor, first: int, stop: int) -> bool:
        gap = (unchanged - other).abs()
        positions = gap[:, first:stop] if axis else gap[first:stop]
        return bool(positions.max().item() > limit)

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
    return 1 in rows_and_positions and max(rows_and_positions) >= 4
