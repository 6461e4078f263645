"""The budget of a pretraining step on an H100: counted work over measured rates gives tokens/s and MFU of each variant.

    python -m tests.speed.budget             # the table of docs/maintainers.md
    python -m tests.speed.budget --rows      # and what one step of each size is made of

Work is counted from shapes, for one step of 288 sequences (MLM at 40 %). The rates of `MEASURED` are those of a trace
of 610M on one H100 with torch 2.11 and FlashAttention 2; the first row of the table is therefore a check of the count
against three measured sizes. Every further row changes one thing and is a prediction. Speeds of other attention kernels
are those of 20 steps of 610M with them, so for 1B, whose heads are wider, they are a guess.
"""

from dataclasses import dataclass, replace

from pretraining.paper_settings import SHAPES, Shape, effective_length
from pretraining.plan.devices import H100
from pretraining.plan.flops import model_flops_per_token
from tests.speed.timing import parser_of

SEQUENCES, LENGTH, PREDICTED = 288, 1_030, 0.4
"""Of the step that was traced: its sequences, their mean tokens, the share that is predicted."""
SEEN = {"210m": 308_000, "610m": 105_500, "1b": 60_000}
"""Tokens/s that one H100 was measured at (docs/maintainers.md)."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What a GPU reaches, and what a variant leaves to do."""

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
VARIANTS = (
    ("FlashAttention 2, as measured", {}),
    ("FlashAttention 4", {"forward": 311e12, "backward": 352e12}),
    ("FlashAttention 3", {"forward": 337e12, "backward": 325e12}),
    ("+ residual=bf16", {"residual": 2}),
    ("+ passes of twice the tokens", {"passes": 6.3}),
    ("limit: 796 TFLOP/s, 3.02 TB/s, no idle", {
        "products": 796e12, "forward": 460e12, "backward": 422e12, "memory": 3.02e12,
    }),
)  # fmt: skip
"""Label and what changes; each row keeps the changes of those before it."""


def step_seconds(shape: Shape, rates: Rates, *, sequences: float = SEQUENCES) -> dict[str, float]:
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
    norms = 2 * width * ((4 + 2 * rates.residual) + (4 + 3 * rates.residual) + (2 + rates.residual))
    rotations = 8 * (width + kv)  # queries and keys, read and written in bf16, forward and backward
    gates = 16 * shape.mlp  # SwiGLU: three tensors forward, five backward
    products = shape.body_parameters + shape.embedding_parameters
    weights = passes * (6 * products + 18 * products + 16 * shape.embedding_parameters)
    logits = 8 * PREDICTED * tokens * shape.vocab
    return {
        "matrix products": 6 * matrices * tokens / rates.products,
        "attention": forward / rates.forward + 2.5 * forward / rates.backward,
        "norms, RoPE, SwiGLU": tokens * shape.layers * (norms + rotations + gates) / rates.memory,
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
        seconds for part, seconds in parts.items() if part not in ("matrix products", "attention")
    )


def speed(shape: Shape, rates: Rates, *, sequences: float = SEQUENCES) -> tuple[float, float]:
    """Return tokens/s and MFU."""
    found = sequences * LENGTH / sum(step_seconds(shape, rates, sequences=sequences).values())
    peak = H100.peak
    return found, found * model_flops_per_token(shape, predicted=PREDICTED) / peak


def variants() -> list[tuple[str, Rates]]:
    """Return each row's label and rates."""
    rows, rates = [], MEASURED
    for label, change in VARIANTS:
        rates = replace(rates, **change)
        rows.append((label, rates))
    return rows


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", action="store_true", help="print the parts of a step, too")
    options = parser.parse_args()
    print(f"{'tokens/s and MFU, predicted':42}" + "".join(f"{size:>20}" for size in SHAPES))
    for label, rates in variants():
        cells = (speed(shape, rates) for shape in SHAPES.values())
        print(f"{label:42}" + "".join(f"{found:12,.0f} {share:7.1%}" for found, share in cells))
    print(f"{'measured':42}" + "".join(f"{SEEN[size]:12,}{'':8}" for size in SHAPES))
    for label, rates in variants()[:1] if options.rows else ():
        parts = {size: step_seconds(shape, rates) for size, shape in SHAPES.items()}
        print(f"\nseconds of a step, {label}")
        for part in parts["610m"]:
            print(f"{part:42}" + "".join(f"{parts[size][part]:20.3f}" for size in SHAPES))


if __name__ == "__main__":
    main()
