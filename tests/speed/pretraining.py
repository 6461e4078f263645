"""Speed and memory of pretraining steps on a CPU, next to transformers' Trainer on the same sequences, padded.

    python -m tests.speed.pretraining

Both sides are in float32 on one thread, of a head-heavy shape, as the paper's are once trained at its vocabulary.
Speeds are medians by the process's own time; memory is the growth of the resident set over one forward and backward
pass in a process of its own, gradients allocated before. A GPU's speed is measured by `tests.speed.h100`.
"""

import itertools
import multiprocessing
import statistics
import time
from pathlib import Path

import torch

from pretraining.model.configuration import EncoderConfig
from pretraining.training.objectives import loss_sum
from tests.pretraining.sizes import config_for
from tests.speed.parts import OBJECTIVES, adamw, drawn, ours, step
from tests.speed.timing import parser_of

SEQUENCES, LONGEST, STEPS = 8, 160, 5
"""What a CPU is given."""
SIDES = ("ours", "Trainer")


def head_heavy() -> EncoderConfig:
    """A body of 3.9 million parameters under the paper's vocabulary: 8.3 times as many in the head."""
    return config_for(
        "tiny", hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=1024,
    )  # fmt: skip


def speeds(objective: str) -> dict[str, float]:
    """Return tokens a second of CPU time of both sides, without padding."""
    from tests.speed.trainer import examples, padded, reference, step_times  # it needs accelerate

    given = [drawn(head_heavy(), objective, SEQUENCES, LONGEST, seed) for seed in range(STEPS + 1)]
    model, theirs = ours(head_heavy()), reference(head_heavy(), objective)
    with torch.no_grad():
        mine = float(loss_sum(model, given[0]).mean)
        losses = mine, float(theirs(**padded(examples(given[0], objective))).loss)
    assert abs(losses[0] - losses[1]) < 1e-4, f"the two sides compute different losses: {losses}"
    optimizer, times = adamw(model), [time.process_time()]
    for batch in given:
        step(model, optimizer, batch, bf16=False)
        times.append(time.process_time())
    taken = {
        "ours": [after - before for before, after in itertools.pairwise(times)],
        "Trainer": step_times(theirs, given, objective, time.process_time, cuda=False),
    }
    tokens = [batch.inputs.num_tokens for batch in given]
    # The first step allocates.
    return {
        side: statistics.median(count / second for count, second in zip(tokens[1:], seconds[1:], strict=True))
        for side, seconds in taken.items()
    }


def peak_megabytes(side: str, objective: str) -> float:
    """Return the growth of this process's resident set over one forward and backward pass (Linux)."""
    from tests.speed.trainer import examples, padded, reference

    torch.set_num_threads(1)
    config, batch = head_heavy(), drawn(head_heavy(), objective, SEQUENCES, LONGEST, 0)
    encoder, inputs = ours(config), padded(examples(batch, objective))
    model = encoder if side == "ours" else reference(config, objective)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def kilobytes(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1])

    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    (loss_sum(encoder, batch).mean if side == "ours" else model(**inputs).loss).backward()
    return (kilobytes("VmHWM") - before) * 1024 / 1e6


def on_cpu() -> None:
    """Print ours and the Trainer."""
    torch.set_num_threads(1)
    print(f"{SEQUENCES} sequences of 12 to {LONGEST} tokens, one thread, float32, median of {STEPS} steps")
    print(f"{'':8}{'ours':>12}{'Trainer':>12}{'ratio':>8}")
    for objective in OBJECTIVES:
        memory = {}
        for side in SIDES:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                memory[side] = pool.apply(peak_megabytes, (side, objective))
        for what, seen in (("tokens/s of CPU time", speeds(objective)), ("peak MB", memory)):
            row = f"{seen['ours']:12,.0f}{seen['Trainer']:12,.0f}{seen['ours'] / seen['Trainer']:8.2f}"
            print(f"{objective:8}{row}  {what}", flush=True)


def main() -> None:
    """Run the comparison."""
    parser_of(__doc__).parse_args()
    on_cpu()


if __name__ == "__main__":
    main()
