"""The budget of a pretraining step on an H100: counted work over measured rates gives tokens/s.

Work is counted from shapes, for one step of 288 sequences (MLM at 40 %). The rates of `MEASURED` are those of a trace
of 610M on one H100 with torch 2.11 and FlashAttention 2.
"""

from dataclasses import dataclass, replace

from pretraining.paper_settings import Shape, effective_length

SEQUENCES, LENGTH, PREDICTED = 288, 1_030, 0.4
"""Of the step that was traced: its sequences, their mean tokens, the share that is predicted."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What a GPU reaches, and what a step leaves to do."""

    products: float = 753e12
    """FLOP/s of the matrix products of blocks and head."""
    forward: float = 233e12
    """FLOP/s of attention's forward pass; its backward pass has 2.5 times the work."""
    backward: float = 186e12
    """FLOP/s of attention's backward pass."""
    memory: float = 2.1e12
    """Bytes/s of kernels that only move memory."""
    residual: int = 4
    """Bytes of a number that blocks add to."""
    passes: float = 12.6
    """Passes of 288 sequences."""


MEASURED = Rates()


def step_seconds(
    shape: Shape, rates: Rates, *, sequences: float = SEQUENCES
) -> dict[str, float]:
    """Return the seconds of each part of a step.

    The GPU waited for 5 % of the traced step; its kernels alone took what a whole step took without the trace, so that
    nothing is added for waiting.
    """
    tokens, passes = sequences * LENGTH, rates.passes * sequences / SEQUENCES
    width, kv = shape.hidden, shape.kv_heads * shape.head_dim
    matrices = shape.body_parameters + PREDICTED * shape.embedding_parameters
    forward = 4 * shape.layers * width * effective_length() * tokens
    # Each of a block's two norms reads a branch and the residual and writes both; backward it reads three tensors and
    # writes two, and the gradient of its weight reads two of them again.
    norms = (
        2
        * width
        * ((4 + 2 * rates.residual) + (4 + 3 * rates.residual) + (2 + rates.residual))
    )
    # Queries and keys, read and written in bf16, forward and backward
    rotations = 8 * (width + kv)
    gates = 16 * shape.mlp  # SwiGLU: three tensors forward, five backward
    products = shape.body_parameters + shape.embedding_parameters
    weights = passes * (6 * products + 18 * products + 16 * shape.embedding_parameters)
    logits = 8 * PREDICTED * tokens * shape.vocab
    return {
        "matrix products": 6 * matrices * tokens / rates.products,
        "attention": forward / rates.forward + 2.5 * forward / rates.backward,
        "norms, RoPE, SwiGLU": tokens
        * shape.layers
        * (norms + rotations + gates)
        / rates.memory,
        "casts, gradient sums": weights / rates.memory,
        "loss": logits / rates.memory,
        "clipping, AdamW": 40 * shape.trained_parameters / rates.memory,
    }


def moved_bytes(shape: Shape, rates: Rates, *, tokens: float, passes: float) -> float:
    """Return the bytes that kernels of a step read and write which only move memory."""
    sequences = tokens / LENGTH
    rates = replace(rates, passes=passes * SEQUENCES / sequences)
    parts = step_seconds(shape, rates, sequences=sequences)
    return rates.memory * sum(
        seconds
        for part, seconds in parts.items()
        if part not in ("matrix products", "attention")
    )


def speed(shape: Shape, rates: Rates, *, sequences: float = SEQUENCES) -> float:
    """Return tokens/s."""
    return (
        sequences
        * LENGTH
        / sum(step_seconds(shape, rates, sequences=sequences).values())
    )
