"""Every setting of a pretraining run, with the paper's values as defaults. Standard library only.

`--set key=value` and a design file's `[settings]` change single fields; a key that is none of them is refused
with the nearest one. The recipe is recorded in every checkpoint.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from common.errors import UserError, nearest
from pretraining.paper_settings import TRAINING

__all__ = ["Recipe", "describe"]

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_CHOICES: dict[str, tuple[str, ...]] = {
    "cut": ("random", "fixed"),
    "attention": ("sequence", "document"),
    "backend": ("auto", "sdpa", "flash", "flex"),
    "precision": ("auto", "fp32", "bf16"),
    "weighting": ("equal", "token"),
    "compile": ("auto", "on", "off"),
}
_MACHINE = {"microbatch", "precision", "backend", "compile", "eval_every", "eval_sequences", "save_every"}
_MACHINE |= {"log_every", "cache", "cache_gb", "tensorboard", "wandb"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is pretrained; defaults are Table 1's and section 3's where the paper says something."""

    seed: int = 0
    """Key of the initial weights, the cut, the order and the masks; not known of the paper."""
    peak_lr: float = TRAINING.peak_lr
    """Learning rate of the stable phase."""
    beta1: float = TRAINING.betas[0]
    """AdamW's first momentum."""
    beta2: float = TRAINING.betas[1]
    """AdamW's second momentum."""
    eps: float = TRAINING.eps
    """AdamW's epsilon."""
    weight_decay: float = TRAINING.weight_decay
    """AdamW's weight decay, on all parameters, norms and embeddings included, as in the paper's trainer."""
    clip_norm: float = TRAINING.clip_norm
    """Largest global gradient norm."""
    warmup_steps: int = TRAINING.warmup_steps
    """Steps of linear warm-up from random weights."""
    rewarm_steps: int = TRAINING.warmup_steps // 10
    """Steps of linear warm-up after a decayed checkpoint (CPT); the paper does not say, 0 goes to the peak at once."""
    global_batch: int = TRAINING.sequences_per_step
    """Sequences per step, all ranks together."""
    microbatch: int = TRAINING.device_batch
    """Most sequences that one rank computes at once; more per rank are accumulated."""
    min_length: int = TRAINING.min_length
    """Shortest sequence, in tokens."""
    max_length: int = TRAINING.max_length
    """Longest sequence, in tokens."""
    cut: str = "random"
    """`random`: lengths uniform in [min_length, max_length]; `fixed`: blocks of max_length."""
    attention: str = "sequence"
    """`sequence`: a sequence attends to all of itself, as in the paper; `document`: never across end-of-text."""
    shuffle_block: int = 2**20
    """Neighbouring sequences that are shuffled together; larger mixes more and keeps more shards open."""
    weighting: str = "equal"
    """`equal`: the loss is the mean of the micro-batches' means, as in the paper's trainer; `token`: the mean over
    all predicted tokens of the step, which does not depend on micro-batches and ranks."""
    precision: str = "auto"
    """`bf16` is autocast over fp32 weights, `auto` is bf16 on a GPU and fp32 on a CPU."""
    backend: str = "auto"
    """Attention kernel: `sdpa`, `flash`, `flex`, or the fastest that is installed."""
    compile: str = "auto"
    """torch.compile: `auto` is on for a GPU; when it fails the run goes on without it and says so."""
    eval_every: int = 1_000
    """Steps between validation losses; they are also taken before a new objective and where others leave."""
    eval_sequences: int = TRAINING.sequences_per_step
    """Validation sequences that are looked at, at masks that never change; 0 for no validation."""
    save_every: int = 1_000
    """Steps between checkpoints to resume from; only the newest is kept."""
    log_every: int = 1
    """Steps between rows of the log."""
    cache: str = ""
    """Folder for decompressed shards; a folder in the system's temporary one when empty."""
    cache_gb: float = 0.0
    """Size at which the least recently used decompressed shards are removed; 0 keeps all."""
    tensorboard: bool = True
    """Whether TensorBoard files are written beside the log."""
    wandb: str = ""
    """Weights & Biases project to log to; none when empty."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be."""
        for key, choices in _CHOICES.items():
            value = getattr(self, key)
            if value not in choices:
                raise UserError(
                    f"{key}={value!r} is unknown; take {' or '.join(choices)}{nearest(value, choices)}"
                )
        for key in ("global_batch", "microbatch", "min_length", "eval_every", "save_every", "log_every"):
            if getattr(self, key) < 1:
                raise UserError(f"{key} must be at least 1, not {getattr(self, key)}")
        for key in ("warmup_steps", "rewarm_steps", "eval_sequences", "weight_decay", "cache_gb"):
            if getattr(self, key) < 0:
                raise UserError(f"{key} cannot be negative, it is {getattr(self, key)}")
        for key in ("peak_lr", "eps", "clip_norm"):
            if not getattr(self, key) > 0:
                raise UserError(f"{key} must be above 0, not {getattr(self, key)}")
        for key in ("beta1", "beta2"):
            if not 0 <= getattr(self, key) < 1:
                raise UserError(f"{key} lies in [0, 1), not at {getattr(self, key)}")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed lies in [0, 2^32), not at {self.seed}")
        if self.min_length > self.max_length:
            raise UserError(f"min_length={self.min_length} is above max_length={self.max_length}")

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens of one step: 2,373,120 with the paper's settings."""
        mean = self.max_length if self.cut == "fixed" else (self.min_length + self.max_length) / 2
        return self.global_batch * mean

    def replaced(self, values: Mapping[str, object]) -> Recipe:
        """Return the recipe with fields replaced, strings read by the field's type.

        Raises:
            UserError: an unknown key, with the nearest one, or a value that is not of the field's type.
        """
        hints = typing.get_type_hints(Recipe)
        changes: dict[str, typing.Any] = {}
        for key, value in values.items():
            if key not in hints:
                raise UserError(
                    f"unknown setting {key!r}{nearest(key, hints)}; `python -m pretraining settings` lists all"
                )
            changes[key] = _read(key, value, hints[key])
        return dataclasses.replace(self, **changes)

    def with_assignments(self, assignments: Iterable[str]) -> Recipe:
        """Return the recipe after `key=value` words, as `--set` takes them."""
        values: dict[str, object] = {}
        for word in assignments:
            key, equals, value = word.partition("=")
            if not equals:
                raise UserError(f"--set takes key=value, not {word!r}")
            values[key.strip()] = value.strip()
        return self.replaced(values)

    def as_dict(self) -> dict[str, object]:
        """Return all settings by name."""
        return dataclasses.asdict(self)

    def science(self) -> dict[str, object]:
        """Return the settings that a run must keep when it goes on: all but those of logging, storage and speed."""
        return {key: value for key, value in self.as_dict().items() if key not in _MACHINE}


def _read(key: str, value: object, kind: type) -> object:
    problem = UserError(f"{key} takes a value of type {kind.__name__}, not {value!r}")
    if kind is bool:
        word = str(value).lower()
        if word not in _WORDS:
            raise problem
        return _WORDS[word]
    if kind is int:
        try:
            number = float(str(value).replace("_", ""))
        except ValueError:
            raise problem from None
        if isinstance(value, bool) or number != int(number):
            raise problem
        return int(number)
    if kind is float:
        try:
            return float(str(value))
        except ValueError:
            raise problem from None
    return str(value)


def describe(recipe: Recipe) -> str:
    """Return one paragraph a setting: its name, its value and the docstring under its field."""
    source = ast.parse(inspect.getsource(Recipe)).body[0]
    assert isinstance(source, ast.ClassDef)
    lines = []
    for item, after in itertools.pairwise(source.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = " ".join(str(after.value.value).split())
            lines.append(f"{item.target.id} = {getattr(recipe, item.target.id)!r}")
            lines += textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"
