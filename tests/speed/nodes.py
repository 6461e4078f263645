"""`python -m tests.speed.nodes`: what a step takes on 24 nodes of eight GPUs, by size and device (docs/hpc.md)."""

from pretraining.paper_settings import SHAPES, TRAINING, effective_length
from pretraining.plan.config import OPTIMIZER_BYTES
from pretraining.plan.devices import DEVICES, gradient_seconds

NODES, GPUS, NETWORK, STEPS, MASKED = 24, 8, 40e9, 42_000, 0.4


def table() -> list[str]:
    """Return the lines of the page's table."""
    lines = ["| | step, s | gradients, s | checkpoint, GB | read per node, MB/s | 42,000 steps, h |"]
    lines.append("|---|--:|--:|--:|--:|--:|")
    for size, shape in SHAPES.items():
        for name in ("MI250X", "H100"):
            device, many = DEVICES[name], NODES * GPUS
            rate = device.tokens_per_second(shape, predicted=MASKED, length=effective_length())
            step, gradients = (
                TRAINING.tokens_per_step / many / rate,
                gradient_seconds(shape, device, many, NETWORK),
            )
            saved = shape.trained_parameters * (4 + OPTIMIZER_BYTES) / 1e9
            # Every node reads every token, four bytes of which compression halves.
            read = 2e-6 * TRAINING.tokens_per_step / (step + gradients)
            hours = STEPS * (step + gradients) / 3600
            wait = f"{gradients:.2f}" if gradients else "in the step"
            lines.append(f"| {size} {name} | {step:.3f} | {wait} | {saved:.1f} | {read:.0f} | {hours:.1f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
