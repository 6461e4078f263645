"""The paper's architectures, training settings (Table 1) and special tokens, as data. Standard library only.

This is the record of the paper. To train otherwise, use a study file or `train --set` (`pretraining.plan.config`).
"""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import UserError
from common.settings import FileSettings


@dataclass(frozen=True, kw_only=True)
class Shape(FileSettings):
    """One size of the encoder: a pre-norm Llama block without biases and an untied head (Table 1)."""

    hidden: int
    """Width of the residual stream."""
    layers: int
    """Number of blocks."""
    heads: int
    """Query heads; `hidden / heads` is the head dimension."""
    kv_heads: int
    """Key and value heads, shared by groups of query heads."""
    mlp: int
    """Inner width of the SwiGLU feed-forward layer."""
    vocab: int = 128_256
    """Rows of the embedding and of the untied head."""
    max_length: int = 2_048
    """Longest sequence, in tokens."""
    rope_theta: float = 10_000.0
    """Base of the rotary position embedding."""
    norm_eps: float = 1e-5
    """Epsilon of RMSNorm."""
    init_std: float = 0.02
    """Standard deviation of the initial weights: the released code's, where the paper prints sigma^2 = 0.2."""

    def __post_init__(self) -> None:
        """Refuse numbers that no encoder can have.

        Raises:
            UserError: a field is out of its range, or cannot be divided into heads.
        """
        for name, most in _MOST.items():
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise UserError(f"{name} must be from 1 to {most:,}, not {value}")

        # Each query head has an equal share of the width, each key-value head an equal number of query heads.
        for whole, part in (("hidden", "heads"), ("heads", "kv_heads")):
            total, count = getattr(self, whole), getattr(self, part)
            if total % count:
                raise UserError(f"{whole}={total} is not a multiple of {part}={count}")

        # The rotary embedding rotates pairs of channels.
        if self.head_dim % 2:
            raise UserError(
                f"hidden / heads must be even for the rotary embedding, not {self.hidden} / {self.heads}"
            )

        for name, largest in _MOST_OF_FRACTIONS.items():
            value = getattr(self, name)
            if not 0 < value <= largest:
                raise UserError(
                    f"{name} must be above 0 and at most {largest:g}, not {value}"
                )

    @property
    def head_dim(self) -> int:
        """Dimension of one attention head."""
        return self.hidden // self.heads

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding; the untied head has as many again."""
        return self.vocab * self.hidden

    @property
    def body_parameters(self) -> int:
        """Parameters of the blocks and of the final norm."""
        # Four matrices: of queries and of the output with all heads, of keys and of values with the key-value heads.
        heads = 2 * self.heads + 2 * self.kv_heads
        attention = self.hidden * self.head_dim * heads
        # Three matrices (SwiGLU): gate, up and down.
        feed_forward = 3 * self.hidden * self.mlp
        norms = 2 * self.hidden
        block = attention + feed_forward + norms
        # `hidden` once more: the weights of the final norm.
        return self.layers * block + self.hidden

    @property
    def encoder_parameters(self) -> int:
        """Parameters of embedding and body: the number that the paper's size names, such as 610m, stand for."""
        return self.embedding_parameters + self.body_parameters

    @property
    def trained_parameters(self) -> int:
        """Parameters that pretraining optimises: embedding, body and untied head."""
        return self.encoder_parameters + self.embedding_parameters


_MOST = {
    "hidden": 2**16, "layers": 2**10, "heads": 2**12, "kv_heads": 2**12, "mlp": 2**20, "vocab": 2**24,
    "max_length": 2**20,
}  # fmt: skip
"""Largest values of a shape's whole numbers, far above any model's."""
_MOST_OF_FRACTIONS = {"rope_theta": 1e12, "norm_eps": 1.0, "init_std": 1e3}
"""Largest values of a shape's numbers that need not be whole."""

SHAPES: dict[str, Shape] = {
    "210m": Shape(hidden=768, layers=12, heads=12, kv_heads=12, mlp=3072),
    "610m": Shape(hidden=1152, layers=26, heads=18, kv_heads=6, mlp=4096),
    # As in the released configuration; the public trainer has another 1B.
    "1b": Shape(hidden=1728, layers=28, heads=18, kv_heads=6, mlp=5120),
}
"""The paper's three sizes, smallest first."""


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How every model of the paper was pretrained (Table 1)."""

    # The paper's text says 5e-4. The public code has 1e-4, and a warm-up of 1 % of the steps.
    peak_lr: float = 5e-4
    """Learning rate of the stable phase."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's momenta."""
    eps: float = 1e-5
    """AdamW's epsilon."""
    weight_decay: float = 0.1
    """AdamW's weight decay, on all parameters."""
    clip_norm: float = 1.0
    """Largest global gradient norm."""
    warmup_steps: int = 2_000
    """Steps of linear warm-up."""
    # The paper's text says 2,000 steps. Table 1's 5 % of 42,000 steps would be 2,100.
    decay_steps: int = 2_000
    """Steps of linear decay to zero, always the last of a budget."""
    device_batch: int = 12
    """Sequences per device and step; nothing is accumulated."""
    devices: int = 192
    """GPUs: 24 nodes of 8 MI250X."""
    min_length: int = 12
    """Shortest sequence, in tokens; lengths are uniform in [min_length, max_length]."""
    max_length: int = 2_048
    """Longest sequence, in tokens."""

    @property
    def sequences_per_step(self) -> int:
        """Global batch, in sequences."""
        return self.device_batch * self.devices

    @property
    def tokens_per_step(self) -> int:
        """Expected global batch, in tokens: 2,373,120, as the paper's text says."""
        # Uniform lengths have the mean of the shortest and the longest, 1,030 tokens. Table 1 has 2,359,296 tokens,
        # which are as many sequences with a mean of 1,024, half of the longest.
        return self.sequences_per_step * (self.min_length + self.max_length) // 2


TRAINING = TrainingSettings()
"""The paper's settings."""

GPU_HOURS = {
    "base models": 81_000,
    "two-stage": 16_000,
    "continued": 4_000,
    "fine-tuning": 9_000,
}
"""MI250X hours that the paper states; they sum to its 110k."""


def effective_length(
    shortest: int = TRAINING.min_length, longest: int = TRAINING.max_length
) -> float:
    """Return the mean length of the sequence that a token is in, for sequence lengths L uniform in [shortest, longest].

    A token's attention costs FLOPs in proportion to the length of its sequence, so this length gives the mean FLOPs per
    token. Long sequences hold more of the tokens than short ones, so that it is not E[L], the mean of sequences, but
    E[L^2] / E[L]: 1,365.7 for the paper's [12, 2048], where the mean sequence has 1,030 tokens.
    """
    count = longest - shortest + 1
    mean = (shortest + longest) / 2
    # The variance of uniform whole numbers. Since E[L^2] is variance + mean^2, the quotient is as below.
    variance = (count**2 - 1) / 12
    return mean + variance / mean


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Special tokens of Llama 3's tokenizer that pretraining uses; the mask was its first reserved one."""

    begin: str = "<|begin_of_text|>"
    """Begin of text."""
    begin_id: int = 128_000
    """Id of begin-of-text: the first one after those of the 128,000 ordinary tokens."""
    end: str = "<|end_of_text|>"
    """End of text, which is also the padding."""
    end_id: int = 128_001
    """Id of end-of-text."""
    mask: str = "<|mask|>"
    """The mask."""
    mask_id: int = 128_002
    """Id of the mask."""


SPECIAL_TOKENS = SpecialTokens()
"""The special tokens of the paper's tokenizer."""
_OWN_TYPES = ("eurobert", "sl_model")
"""Values of `model_type` of our own exports and of the authors' folders."""


def is_own_type(model_type: object) -> bool:
    """Return whether a configuration's `model_type` is that of our own exports or of the authors' folders."""
    return model_type in _OWN_TYPES
