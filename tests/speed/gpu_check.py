"""Everything of pretraining that is right or wrong only on a GPU, in a minute or two; `make gpu-check` runs it.

    python -m tests.speed.gpu_check                     # on a GPU
    python -m tests.speed.gpu_check --device cpu        # the same walk with small shapes, as the tests do

It needs Python 3.11 or newer, torch 2.11 or newer, transformers 5, NumPy and cyclopts, neither Composer nor streaming:

- correctness: loss and gradient under every attention backend that can run, both objectives, float32 and bfloat16,
  against float32 on the CPU; passes of another size and the step's one gradient
- the committed golden losses, computed on the device
- compilation: the later of eight batches of other lengths need no new graph
- one fine-tuning cell, two rates and two seeds, on a made-up task: which of two marks stands among random words

A line that begins with FAILED names what does not hold; the exit code is then 1. Speed: `tests.speed.h100`.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.finetuning.device import RunDevice, choose_device
from benchmarks.finetuning.trainer import Groups, example_order, fine_tune
from benchmarks.protocol import FINE_TUNING
from common.cli import call, program, run
from common.errors import UserError
from common.provenance import ROOT
from pretraining.model.attention import BACKENDS, ROUNDING, resolve_backend
from pretraining.model.modeling import EuroBertForMaskedLM, EuroBertModel
from pretraining.training.objectives import ObjectiveBatch, group_weights, loss_sum
from tests.pretraining.packed import split
from tests.pretraining.sizes import config_for
from tests.pretraining.training.train.golden import SCHEDULES, losses
from tests.speed.parts import drawn, ours, prepared

GOLDEN = ROOT / "tests" / "golden" / "pretraining_losses.json"
OBJECTIVES = ("mlm", "clm")
SHAPE = {
    "vocab_size": 1000,
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "mask_token_id": 2,
}
WITHIN = {torch.float32: 1e-4, torch.bfloat16: ROUNDING}
"""Largest difference of gradients, relative to their norm: rounding of float32, and of bfloat16's 8 bits."""
VOCAB, LENGTH = 200, 24
CLOSE = {"fp32": 2e-3, "bf16": 2e-2}
"""Largest difference of a fine-tuning's first loss from the CPU's in float32, in nats."""
LEARNT = 0.9
"""Share of held-out examples that every run must get right."""
Line = tuple[bool, str]


def gradient(
    model: EuroBertForMaskedLM,
    parts: Sequence[ObjectiveBatch],
    device: str,
    dtype: torch.dtype,
) -> tuple[float, torch.Tensor]:
    """Return loss and gradient of one step over the parts, on the CPU in float64."""
    model.zero_grad(set_to_none=True)
    value = 0.0
    for part in parts:
        with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
            found = loss_sum(model, part.to(device))
        loss = found.total if part.weights is not None else found.mean
        loss.backward()
        value += float(loss.detach())
    grads = [
        p.grad.flatten().double().cpu()
        for p in model.parameters()
        if p.grad is not None
    ]
    return value, torch.cat(grads)


def backends(device: str, longest: int) -> Iterator[Line]:
    """Compare every backend, objective and type with float32 on the CPU."""
    config = config_for("tiny", **SHAPE)
    model = ours(config)
    for objective in OBJECTIVES:
        batch = drawn(config, objective, 6, longest, seed=1)
        model.to("cpu").set_attention_backend("sdpa")
        loss, expected = gradient(model, [batch], "cpu", torch.float32)
        for dtype, limit in WITHIN.items():
            for backend in BACKENDS.values():
                if backend.problem(torch.device(device), dtype, config.head_dim):
                    continue
                model.to(device).set_attention_backend(backend.name)
                found, grads = gradient(model, [batch], device, dtype)
                off = float((grads - expected).norm() / expected.norm())
                kind = str(dtype).removeprefix("torch.")
                yield (
                    off < limit and abs(found - loss) < limit * loss,
                    f"{objective} {backend.name:7} {kind:9} loss {found:.5f} ({loss:.5f} on the CPU), "
                    f"gradient {off:.1e} off",
                )


def passes(device: str, longest: int) -> Iterator[Line]:
    """Compare a step in one pass with the same in three, under the weights of two groups."""
    config = config_for("tiny", **SHAPE)
    model = ours(config).to(device)
    dtype = torch.float32
    model.set_attention_backend(
        resolve_backend("auto", torch.device(device), dtype, config.head_dim).name
    )
    for objective in OBJECTIVES:
        whole = drawn(config, objective, 6, longest, seed=2)
        groups = torch.arange(6) // 3
        weights = group_weights(whole.grouped(groups).counts(2), "equal")
        # A mask follows from the sequence's number, so that parts are masked as the whole is.
        original = drawn(config, "clm", 6, longest, seed=2).inputs
        cut = [prepared(config, part, objective) for part in split(original, 2)]
        parts = [
            replace(part.grouped(groups[2 * place : 2 * place + 2]), weights=weights)
            for place, part in enumerate(cut)
        ]
        one, expected = gradient(
            model, [replace(whole.grouped(groups), weights=weights)], device, dtype
        )
        three, found = gradient(model, parts, device, dtype)
        off = float((found - expected).norm() / expected.norm())
        text = f"{objective} three passes: loss {three:.6f} ({one:.6f} in one), gradient {off:.1e} off"
        yield off < WITHIN[dtype], text


def golden(device: str) -> Iterator[Line]:
    """Compare twenty steps on the device with the committed losses."""
    for name, expected in json.loads(GOLDEN.read_text()).items():
        found = losses(SCHEDULES[name], device)
        off = max(abs(a - b) / b for a, b in zip(found, expected, strict=True))
        yield (
            off < 2e-3,
            f"{name:16} last loss {found[-1]:.5f} ({expected[-1]:.5f} committed), at most {off:.1e} off",
        )


def graphs(device: str, longest: int, compiler: str) -> Iterator[Line]:
    """Count the graphs that compiled blocks need for eight batches of other lengths."""
    config = config_for("tiny", **SHAPE)
    for objective in OBJECTIVES:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = ours(config).to(device)
        model.set_attention_backend(
            resolve_backend(
                "auto", torch.device(device), torch.bfloat16, config.head_dim
            ).name
        )
        model.compile_blocks(backend=compiler)
        counted = []
        for seed in range(8):
            gradient(
                model,
                [drawn(config, objective, 6, longest, seed)],
                device,
                torch.bfloat16,
            )
            counted.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
        yield (
            0 < counted[3] == counted[-1],
            f"{objective} graphs after each of 8 batches of other lengths: {', '.join(map(str, counted))}",
        )


class MarkedWords:
    """A fine-tuning's examples, padded: the objective of `fine_tune`."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(6, LENGTH + 1, size)
        self.size = size
        self.tokens = torch.from_numpy(rng.integers(6, VOCAB, (size, LENGTH)))
        self.labels = torch.from_numpy(rng.integers(0, 2, size))
        places = torch.from_numpy(rng.integers(0, lengths))
        self.tokens[torch.arange(size), places] = 4 + self.labels
        self.mask = (torch.arange(LENGTH) < torch.from_numpy(lengths)[:, None]).long()

    def order(self, seed: int) -> Iterator[Groups]:
        """Yield the micro-batches of each step without end."""
        micro = FINE_TUNING.micro_batch
        return example_order(self.size, seed, micro, FINE_TUNING.batch // micro)

    def logits(
        self, model: nn.Module, rows: torch.Tensor, device: RunDevice
    ) -> torch.Tensor:
        """Return the logits of some examples."""
        place = device.torch_device
        with device.autocast():
            found: torch.Tensor = model(
                self.tokens[rows].to(place), self.mask[rows].to(place)
            )
        return found.float()

    def backward(
        self, model: nn.Module, groups: Groups, device: RunDevice
    ) -> torch.Tensor:
        """Add the gradient of the mean of the micro-batches' means, which are of one size, and return that mean."""
        rows = torch.from_numpy(np.concatenate(groups))
        labels = self.labels[rows].to(device.torch_device)
        loss = F.cross_entropy(self.logits(model, rows, device), labels)
        loss.backward()
        return loss.detach()


class Classifier(nn.Module):
    """The mean of the hidden states, a dense layer, GELU and two logits."""

    def __init__(self) -> None:
        super().__init__()
        ids = {
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 1,
            "mask_token_id": 2,
        }
        self.model = EuroBertModel(config_for("tiny", vocab_size=VOCAB, **ids))
        width = self.model.config.hidden_size
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
        )

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the logits (B, 2) of a padded batch."""
        hidden = self.model(tokens, mask).last_hidden_state
        weights = mask.to(hidden.dtype).unsqueeze(-1)
        logits: torch.Tensor = self.head((hidden * weights).sum(1) / weights.sum(1))
        return logits


def one_run(lr: float, seed: int, device: RunDevice) -> tuple[tuple[float, ...], float]:
    """Return the losses of a fine-tuning, and its accuracy on held-out examples."""
    torch.manual_seed(seed)
    model, held_out = Classifier(), MarkedWords(256, 1)
    device.place(model)
    log = fine_tune(
        model,
        MarkedWords(640, 0),
        device,
        lr=lr,
        seed=seed,
        steps=60,
        fine_tuning=FINE_TUNING,
    )
    model.eval()
    with torch.no_grad():
        guesses = held_out.logits(model, torch.arange(256), device).argmax(-1).cpu()
    return log.losses, float((guesses == held_out.labels).float().mean())


def fine_tuning(device: str, *, small: bool) -> Iterator[Line]:
    """Compare a cell's runs with the same on the CPU in float32."""
    runs = [(1e-3, 0), (1e-3, 1), (2e-3, 0), (2e-3, 1)]
    for lr, seed in runs[:1] if small else runs:
        losses, right = one_run(lr, seed, choose_device("cpu", "fp32"))
        for precision in ("bf16",) if small else CLOSE:
            found, accuracy = one_run(lr, seed, choose_device(device, precision))
            off = abs(found[0] - losses[0])
            yield (
                accuracy >= LEARNT and off < CLOSE[precision],
                f"{precision} lr {lr:g} seed {seed}: first loss {off:.1e} from the CPU's, last {found[-1]:.4f} "
                f"({losses[-1]:.4f}), {accuracy:.1%} right ({right:.1%})",
            )


def check(
    *,
    device: Literal["cuda", "cpu"] = "cuda",
) -> int:
    """Check a GPU.

    Args:
        device: cuda, or cpu to walk through the same with small shapes
    """
    cuda = device == "cuda"
    if cuda and not torch.cuda.is_available():
        raise UserError(
            "no GPU is at hand; --device cpu walks through the same checks on the processor"
        )
    longest, began = (2048, time.monotonic()) if cuda else (48, time.monotonic())
    parts: dict[str, Callable[[], Iterator[Line]]] = {
        "attention backends": lambda: backends(device, longest),
        "one gradient": lambda: passes(device, longest),
        "golden losses": lambda: golden(device),
        "compilation": lambda: graphs(device, longest, "inductor" if cuda else "eager"),
        "fine-tuning": lambda: fine_tuning(device, small=not cuda),
    }
    failed = 0
    for title, lines in parts.items():
        print(f"\n{title}", flush=True)
        for holds, text in lines():
            failed += not holds
            print(f"{'ok    ' if holds else 'FAILED'} {text}", flush=True)
    print(f"\n{failed} failed, {time.monotonic() - began:.0f} s")
    return int(failed > 0)


def main(argv: Sequence[str]) -> int | None:
    """Run the command line."""
    app = program("python -m tests.speed.gpu_check")
    app.default(check)
    return call(app, argv or ["--device", "cuda"])


if __name__ == "__main__":
    run(main)
