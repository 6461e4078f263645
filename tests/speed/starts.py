"""A step of MLM of each kind of start, next to transformers' Trainer with the same class, padded and with all logits.

    python -m tests.speed.starts

Six layers of 256, 32,000 words, eight sequences of 12 to 160 tokens, 40 % masked, float32 on one thread. Both sides
take the same sequences, masks and weights. Figures are medians by the process's own time: the ratio hardly depends on
what else the machine does.
"""

import copy
import statistics
import time
from itertools import pairwise
from typing import Any

import torch
import transformers as hf

from pretraining.model.adapted import AdaptedModel
from pretraining.model.configuration import EncoderConfig
from pretraining.model.directions import turn
from pretraining.training.objectives import loss_sum
from tests.pretraining.sizes import config_for
from tests.speed.parts import adamw, drawn, ours, step
from tests.speed.timing import machine, parser_of
from tests.speed.trainer import examples, padded, reference, step_times

_SHAPE: dict[str, Any] = {
    "vocab_size": 32_000, "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4,
    "intermediate_size": 1024,
}  # fmt: skip
_GROUPED = {**_SHAPE, "num_key_value_heads": 2, "head_dim": 64}
_SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "mask_token_id": 1}
CLASSES = {
    "Qwen 3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_GROUPED)),
    "Gemma 2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**_GROUPED)),
    "BERT": lambda: hf.BertForMaskedLM(hf.BertConfig(**_SHAPE)),
}
SEQUENCES, LONGEST, STEPS = 8, 160, 5


def both(config: EncoderConfig, name: str) -> tuple[Any, Any]:
    """Return the model as training uses it, and transformers' for the Trainer, with the same weights."""
    if name not in CLASSES:
        return ours(config), reference(config, "mlm40")
    torch.manual_seed(0)
    theirs = CLASSES[name]()
    if name == "Gemma 2":  # transformers' sdpa has no soft cap
        theirs.set_attn_implementation("eager")
    turn(theirs.config, is_causal=False)
    inner = copy.deepcopy(theirs)
    inner.set_attn_implementation("eager")
    return AdaptedModel(inner).train(), theirs.train()


def measured(name: str) -> tuple[float, float]:
    """Return the median seconds of a step of both sides."""
    config = config_for("tiny", **_SHAPE, num_key_value_heads=2, **_SPECIAL)
    given = [drawn(config, "mlm40", SEQUENCES, LONGEST, seed) for seed in range(STEPS + 1)]
    mine, theirs = both(config, name)
    for module in (module for module in theirs.modules() if isinstance(module, torch.nn.Dropout)):
        module.p = 0.0
    with torch.no_grad():
        losses = (
            float(loss_sum(mine, given[0]).mean),
            float(theirs(**padded(examples(given[0], "mlm40"))).loss),
        )
    # The Trainer's class takes the loss of a decoder as that of the next token: as much work, another number.
    shifts = name in ("Qwen 3", "Gemma 2")
    assert shifts or abs(losses[0] - losses[1]) < 1e-3, (
        f"{name}: the two sides begin at other losses: {losses}"
    )
    optimizer, times = adamw(mine), [time.process_time()]
    for batch in given:
        step(mine, optimizer, batch, bf16=False)
        times.append(time.process_time())
    other = step_times(theirs, given, "mlm40", time.process_time, cuda=False)
    # The first step of each side is not counted.
    return statistics.median([b - a for a, b in pairwise(times)][1:]), statistics.median(other[1:])


def main() -> None:
    """Print seconds a step and their ratio."""
    parser_of(__doc__).parse_args()
    torch.set_num_threads(1)
    print(f"{machine()}; CPU seconds a step: ours, Trainer, ratio")
    for name in ("ours", *CLASSES):
        mine, theirs = measured(name)
        print(f"{name:8} {mine:.3f} {theirs:.3f} {theirs / mine:.1f}", flush=True)


if __name__ == "__main__":
    main()
