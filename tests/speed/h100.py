"""What one H100 reaches, and which defaults that would change: one run of ten minutes, with torch and no Composer.

    python3 -m tests.speed.h100                          # on the card
    python3 -m tests.speed.h100 --device cpu             # the same walk with tiny models

Four questions, each with its rows and the decision that follows:

- attention alone, forward and backward, by kernel: over a pass of pretraining and over fine-tuning's short texts
- an adapted start of 135M: tokens/s by the size of a pass
- fine-tuning 610M on short texts, next to transformers' Trainer
- 20 steps of 610M: the whole step by kernel, size of a pass, objective, residual and compiler, with the bytes/s of what
  only moves memory

It needs torch 2.11 or newer, transformers 5, NumPy, accelerate, annotated-types and orjson, and trains by a loop of its
own: the product's model, objective, order, passes, weights and AdamW, on made-up text. A row that the machine's torch
or packages cannot do falls away and says why. Rows are written to `--out` as they come; the same command measures those
that are missing.
"""

import importlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from common.errors import first_line
from common.files import write_text
from pretraining.data.sampler import Order, lay_out
from pretraining.model import attention, modeling
from pretraining.model.adapted import AdaptedModel
from pretraining.model.attention import (
    BACKENDS,
    ROUNDING,
    AttentionBackend,
    AttentionLayout,
    packed_layout,
)
from pretraining.model.configuration import EncoderConfig, config_of
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.config import Batches, TrainingConfig
from pretraining.plan.devices import largest_microbatch, mfu
from pretraining.plan.flops import model_flops_per_token
from pretraining.training.objectives import (
    ObjectiveBatch,
    clm,
    group_weights,
    loss_sum,
    mlm,
)
from tests.pretraining.sizes import TINY
from tests.speed.budget import MEASURED, moved_bytes, speed
from tests.speed.parts import adamw, ours
from tests.speed.timing import machine, parser_of

Row = dict[str, Any]
Prepare = Callable[[PackedBatch], ObjectiveBatch]
"""Makes a pass ready for the objective: CLM, or MLM under a rule of masks."""
SEQUENCES, STEPS, WARM = 96, 20, 8
"""Of a step, of a run, and of those that compile and are not timed."""
SHORT = (8, 60)
"""Tokens of the shortest and the longest of fine-tuning's 32 texts."""
RESIDUAL_WITHIN = 0.0008
"""Nats by which losses of two equal runs differed within 30 steps (docs/maintainers.md)."""
GAIN = 1.03
"""How much faster a whole step must be for another default."""


class OutOfTime(Exception):
    """The minutes are over; the same command resumes."""


@dataclass(kw_only=True)
class Table:
    """Rows that are measured one by one."""

    file: Path
    device: torch.device
    end: float
    backends: Sequence[str] = ()
    """Kernels to time."""
    small: bool = False
    skip: Sequence[str] = ()
    """Words; a row whose key holds one of them is left out."""
    rows: dict[str, Row] = field(default_factory=dict)

    def measure(self, key: str, call: Callable[[], Row]) -> Row:
        """Return a row: the one that is there, or what the call measures; empty where it is left out."""
        if key in self.rows:
            return self.rows[key]
        if any(word in key for word in self.skip):
            return {}
        if time.monotonic() > self.end:
            raise OutOfTime
        torch._dynamo.reset()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        began = time.monotonic()
        try:
            row = call()
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        except Exception as error:  # whatever a package's compiler may raise
            row = {"falls away": first_line(error)}
        self.rows[key] = row | {"seconds": round(time.monotonic() - began, 1)}
        write_text(self.file, json.dumps(self.rows, indent=1))
        words = ", ".join(
            f"{name} {_text(value)}" for name, value in row.items() if name != "losses"
        )
        print(f"{key:44} {words}", flush=True)
        return self.rows[key]


def _text(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def clock(device: torch.device) -> float:
    """Return the time, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


# Before 2.15, torch's operator has no gradient by FlashAttention 4: its package is called directly.


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _flash4(q: Tensor, k: Tensor, v: Tensor, layout: AttentionLayout) -> Tensor:
    module: Any = importlib.import_module(BACKENDS["flash4"].module)
    bounds, longest = layout.cu_seqlens, layout.max_length
    found = module.flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=bounds,
        cu_seqlens_k=bounds,
        max_seqlen_q=longest,
        max_seqlen_k=longest,
        causal=layout.is_causal,
    )
    out: Tensor = found[0] if isinstance(found, tuple) else found
    return out


def backend_of(name: str, device: torch.device, head_dim: int) -> AttentionBackend:
    """Return a backend that runs on the device, called directly where torch is too old to offer it."""
    if name == "flash4" and torch.__version__ < "2.15" and device.type == "cuda":
        return replace(BACKENDS[name], attend=_flash4)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return attention.resolve_backend(name, device, dtype, head_dim)


# Attention alone.


def kernels(table: Table) -> None:
    """Time attention alone over one pass of pretraining and one of short texts, by kernel and direction."""
    shape = replace(TINY, vocab=2_000) if table.small else SHAPES["610m"]
    rng = np.random.default_rng(0)
    most = 48 if table.small else 2_048
    texts = {
        "pretraining": rng.integers(12, most + 1, 2 if table.small else 24),
        "short texts": rng.integers(*SHORT, 4 if table.small else 32),
    }
    for (kind, lengths), causal, name in itertools.product(
        texts.items(), (False, True), table.backends
    ):
        if causal and kind == "short texts":
            continue
        batch = PackedBatch.of(
            [np.zeros(n, np.int64) for n in lengths], max_length=int(max(lengths))
        )
        table.measure(
            f"attention, {kind}, {'clm' if causal else 'mlm'}, {name}",
            partial(kernel, table.device, shape, causal, name, batch),
        )
    for kind in texts:
        start = f"attention, {kind}, mlm, "
        wrong = [
            name
            for name, far in _of(table, start, "differs by").items()
            if far > ROUNDING
        ]
        rows = {
            name: rate
            for name, rate in _of(table, start, "both").items()
            if name not in wrong
        }
        if wrong:
            print(
                f"decision: {kind}: {', '.join(wrong)} gives other results than FlashAttention 2"
            )
        if rows:
            print(
                f"decision: {kind}: {max(rows, key=lambda name: rows[name])} is the fastest kernel alone"
            )


def _of(table: Table, start: str, value: str) -> dict[str, float]:
    """Return one value of all rows of a kind, by the rest of their keys."""
    return {
        key.removeprefix(start): row[value]
        for key, row in table.rows.items()
        if key.startswith(start) and value in row
    }


def kernel(
    device: torch.device, shape: Shape, causal: bool, name: str, batch: PackedBatch
) -> Row:
    """Return TFLOP/s of both passes, seconds of the first call, and how far results are from FlashAttention 2's."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    backend = backend_of(name, device, shape.head_dim)
    given = batch.to(device)
    layout = packed_layout(
        given.cu_seqlens, given.max_length, is_causal=causal, backend=backend
    )
    generator = torch.Generator(device).manual_seed(0)
    q, k, v, gradient = (
        torch.randn(
            batch.num_tokens,
            heads,
            shape.head_dim,
            device=device,
            dtype=dtype,
            generator=generator,
        )
        for heads in (shape.heads, shape.kv_heads, shape.kv_heads, shape.heads)
    )
    leaves = [x.requires_grad_() for x in (q, k, v)]
    runs = []
    for _ in range(12):
        at = clock(device)
        out = backend.attend(q, k, v, layout)
        middle = clock(device)
        found = torch.autograd.grad(out, leaves, gradient)
        runs.append((middle - at, clock(device) - middle))
    forward, backward = np.median(runs[3:], axis=0)
    lengths = batch.cu_seqlens.diff().double()
    work = (
        4
        * float(lengths.square().sum())
        * shape.heads
        * shape.head_dim
        * (0.5 if causal else 1)
    )
    row: Row = {
        "both": 3.5 * work / (forward + backward) / 1e12,
        "forward": work / forward / 1e12,
        "backward": 2.5 * work / backward / 1e12,
        "microseconds": 1e6 * (forward + backward),
        "first call, s": sum(runs[0]),
    }
    if device.type == "cuda" and name != "flash2":
        reference = backend_of("flash2", device, shape.head_dim)
        layout = packed_layout(
            given.cu_seqlens, given.max_length, is_causal=causal, backend=reference
        )
        expected = [
            out_ := reference.attend(q, k, v, layout),
            *torch.autograd.grad(out_, leaves, gradient),
        ]
        real = int(lengths.sum())
        row["differs by"] = max(
            float(((a[:real] - b[:real]).norm() / b[:real].norm()).detach())
            for a, b in zip([out, *found], expected, strict=True)
        )
    return row


# Whole steps.


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to train."""

    backend: str = "flash2"
    microbatch: int = 12
    tuned: bool = False
    residual: str = "fp32"
    is_causal: bool = False
    """Whether it trains CLM, not MLM at 40 %."""

    @property
    def label(self) -> str:
        """What it is, for a table."""
        more = {
            "tuned": self.tuned,
            "residual bf16": self.residual == "bf16",
            "CLM": self.is_causal,
        }
        return ", ".join(
            [
                self.backend,
                f"microbatch {self.microbatch}",
                *(name for name in more if more[name]),
            ]
        )


def made_up(rng: np.random.Generator, length: int, vocab: int) -> np.ndarray[Any, Any]:
    """Return tokens that follow from those before by a rule with chance in it, so that there is something to learn."""
    words = min(vocab - 8, 4_096)
    tokens = np.empty(length, np.int64)
    tokens[0] = rng.integers(words)
    for place, chance in enumerate(rng.integers(0, 4, length - 1), 1):
        tokens[place] = (7 * tokens[place - 1] + chance) % words
    return tokens + 8


def step_parts(
    config: EncoderConfig, settings: TrainingConfig, steps: int, *, prepare: Prepare
) -> Iterator[list[ObjectiveBatch]]:
    """Yield the passes of each step as the data loader makes them, with the weights of their tokens."""
    rng = np.random.default_rng(0)
    number, batches = 0, settings.batches
    order = Order(
        samples=2**20,
        batch=batches.global_batch,
        seed=0,
        block=batches.shuffle_block,
        chunk=batches.shuffle_chunk,
    )
    for step in range(steps):
        starts, stops = settings.sequences.spans(order.batch_of(step)[1])
        made, counts = (
            [],
            torch.zeros(
                batches.global_batch // batches.group_size, dtype=torch.float64
            ),
        )
        for places in lay_out(stops - starts, 1, batches.pass_tokens)[0]:
            lengths = (stops - starts)[places]
            ids = np.arange(number, number + len(lengths))
            number += len(lengths)
            texts = [made_up(rng, n, config.vocab_size) for n in lengths]
            part = prepare(PackedBatch.of(texts, ids, max_length=batches.max_length))
            part = part.grouped(torch.from_numpy(ids % len(counts)))
            counts += part.counts(len(counts))
            made.append(part)
        weights = group_weights(counts, "equal")
        yield [replace(part, weights=weights) for part in made]


def train(
    model: Any,
    config: EncoderConfig,
    settings: TrainingConfig,
    device: torch.device,
    *,
    steps: int,
    prepare: Prepare,
    trace: bool = False,
) -> Row:
    """Return tokens/s, memory and losses of a run; with `trace`, its last step's milliseconds by kind of kernel."""
    optimizer, losses, taken, tokens = (
        adamw(model),
        list[Tensor](),
        list[float](),
        list[int](),
    )
    profiler = None
    for number, parts in enumerate(
        step_parts(config, settings, steps, prepare=prepare)
    ):
        if trace and device.type == "cuda" and number == steps - 1:
            profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            )
            profiler.__enter__()  # type: ignore[no-untyped-call]
        begin = clock(device)  # without the making of the step's text
        loss = torch.zeros((), device=device)
        for part in parts:
            with torch.autocast(device.type, torch.bfloat16):
                total = loss_sum(model, part.to(device, non_blocking=True)).total
            total.backward()  # type: ignore[no-untyped-call]
            loss += total.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.optimizer.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss)
        taken.append(clock(device) - begin)
        tokens.append(sum(part.inputs.num_tokens for part in parts))
    late = slice(min(WARM, steps // 2), steps - trace)
    row: Row = {"tokens/s": sum(tokens[late]) / sum(taken[late])}
    if device.type == "cuda":
        row["GPU GB"] = torch.cuda.max_memory_allocated() / 1e9
    if profiler is not None:
        profiler.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        row |= kinds(profiler, taken[-1]) | {
            "traced tokens": tokens[-1],
            "traced passes": len(parts),
        }
    return row | {"losses": [float(loss) for loss in losses]}


def kinds(profiler: Any, seconds: float) -> dict[str, float]:
    """Return milliseconds of a traced step by kind of kernel."""
    found = {"products, ms": 0.0, "attention, ms": 0.0, "other, ms": 0.0}
    for event in profiler.key_averages():
        name = event.key.lower()
        attends = any(word in name for word in ("flash", "fmha", "attention", "sdpa"))
        multiplies = any(
            word in name for word in ("gemm", "nvjet", "cutlass", "matmul")
        )
        kind = "attention" if attends else "products" if multiplies else "other"
        found[f"{kind}, ms"] += event.self_device_time_total / 1e3
    return found | {"idle, ms": max(0.0, 1e3 * seconds - sum(found.values()))}


def step_of(table: Table, variant: Variant) -> Row:
    """Return what 20 steps of 610M reach, with MFU and the bytes/s of what only moves memory."""
    small, device = table.small, table.device
    shape = replace(TINY, vocab=2_000) if small else SHAPES["610m"]
    config = config_of(shape, {"bos_id": 1, "eos_id": 2, "mask_id": 3})
    given = (
        Batches(global_batch=12, max_length=48, microbatch=2)
        if small
        else Batches(global_batch=SEQUENCES, microbatch=variant.microbatch)
    )
    settings = TrainingConfig(batches=given)
    backend = backend_of(variant.backend, device, shape.head_dim)
    model: EuroBertForMaskedLM = ours(config).to(device)
    model.fuse_projections(device.type == "cuda")
    model.body.residual_is_narrow = variant.residual == "bf16"
    if device.type == "cuda":
        model.compile_blocks(
            options={"coordinate_descent_tuning": True} if variant.tuned else None
        )
    prepare: Prepare = (
        clm
        if variant.is_causal
        else partial(mlm, rule=MaskRule.of(config, ratio=0.4, seed=0))
    )
    # The model's own name for its backend would be refused by an older torch.
    with mock.patch.object(modeling, "resolve_backend", lambda *_: backend):
        steps = 3 if small else STEPS
        row = train(
            model, config, settings, device, steps=steps, prepare=prepare, trace=True
        )
    if device.type == "cuda":
        length, predicted = (
            settings.sequences.attended_length,
            1.0 if variant.is_causal else 0.4,
        )
        flops = model_flops_per_token(shape, length=length, predicted=predicted)
        row["MFU"] = mfu(row["tokens/s"], flops, torch.cuda.get_device_name()) or 0.0
    if "other, ms" in row:
        rates = replace(MEASURED, residual=2 if variant.residual == "bf16" else 4)
        moved = moved_bytes(
            shape, rates, tokens=row["traced tokens"], passes=row["traced passes"]
        )
        row["TB/s"] = moved / max(row["other, ms"], 1e-3) / 1e9
    return row


def steps(table: Table) -> None:
    """Time whole steps of 610M by kernel, size of a pass, compiler and residual, and say what may be a default."""
    on_cpu = table.device.type == "cpu"
    base = Variant(backend=table.backends[0])
    free = 0.0 if on_cpu else torch.cuda.mem_get_info(table.device)[0] / 1e9
    most = (
        4
        if table.small
        else max(12, largest_microbatch(SHAPES["610m"], free, Batches().max_length))
    )

    def run(variant: Variant, more: str = "") -> Row:
        return table.measure(
            f"610m, {variant.label}{more}", lambda: step_of(table, variant)
        )

    first = run(base)
    if "tokens/s" not in first:
        return
    if not table.small:
        counted = speed(SHAPES["610m"], MEASURED, sequences=SEQUENCES)
        print(
            f"decision: the budget counts {counted:,.0f} tokens/s for the first row of 610m"
        )
    rates = {base: first["tokens/s"]}
    for name in table.backends[1:]:
        rates[replace(base, backend=name)] = run(replace(base, backend=name)).get(
            "tokens/s", 0.0
        )
    best = max(rates, key=lambda variant: rates[variant])
    says = f"{rates[best] / rates[base]:.2f} times {base.backend}'s tokens/s"
    print(
        f"decision: {best.backend} makes the fastest step, {says}; a default from {GAIN:g} on"
    )
    for kernel in dict.fromkeys((base, best)):
        large = run(replace(kernel, microbatch=most))
        if gain := large.get("tokens/s", 0.0) / rates[kernel]:
            print(
                f"decision: {kernel.backend}, a pass of {most}: {gain:.2f} times a pass of 12"
            )
        run(replace(kernel, is_causal=True))
    narrow, again = run(replace(base, residual="bf16")), run(base, ", again")
    if gain := narrow.get("tokens/s", 0.0) / rates[base]:
        off, noise = _apart(narrow, first), _apart(again, first)
        may = "may" if off <= max(RESIDUAL_WITHIN, noise) else "may not"
        print(
            f"decision: residual=bf16 {may} become a default: {gain:.2f} times as fast, its losses at most {off:.5f} "
            f"nats from float32's, a second run's {noise:.5f} ({RESIDUAL_WITHIN} allowed)"
        )
    tuned = run(replace(base, tuned=True))  # last: its compiler takes minutes
    if gain := tuned.get("tokens/s", 0.0) / rates[base]:
        reached = tuned.get("TB/s", 0.0)
        print(
            f"decision: compile=tuned reaches {reached:.2f} TB/s, {gain:.2f} times the step's speed"
        )


def _apart(row: Row, other: Row) -> float:
    pairs = zip(row.get("losses", [np.inf]), other.get("losses", [0.0]), strict=False)
    return max((abs(a - b) for a, b in pairs), default=float("inf"))


# A start of another family.


def starts(table: Table) -> None:
    """Time an adapted decoder of SmolLM2-135M's shape at 512 tokens and 30 % masks, by the size of a pass."""
    big = {
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 1_536,
        "vocab_size": 49_152,
    }
    tiny = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "vocab_size": 500,
    }
    given: dict[str, Any] = tiny if table.small else big
    length, sequences = (48, 24) if table.small else (512, 192)

    def run(microbatch: int) -> Row:
        torch.manual_seed(0)
        inner = LlamaForCausalLM(LlamaConfig(**given, tie_word_embeddings=True))
        model = AdaptedModel(inner).to(table.device).train()
        config = EncoderConfig(
            **given, bos_token_id=1, eos_token_id=2, pad_token_id=2, mask_token_id=3
        )
        batches = Batches(
            global_batch=sequences, max_length=length, microbatch=microbatch
        )
        settings = TrainingConfig(batches=batches)
        prepare = partial(mlm, rule=MaskRule.of(config, ratio=0.3, seed=0))
        return train(
            model,
            config,
            settings,
            table.device,
            steps=3 if table.small else 12,
            prepare=prepare,
        )

    sizes = (2, 8) if table.small else (12, 32, 64)
    for size in sizes:
        table.measure(f"start of 135M, microbatch {size}", partial(run, size))
    rows = _of(table, "start of 135M, microbatch ", "tokens/s")
    if rows:
        best = max(rows, key=lambda size: rows[size])
        gain = rows[best] / rows.get(str(sizes[0]), rows[best])
        print(
            f"decision: a start's pass of {best} is the fastest, {gain:.2f} times that of {sizes[0]}"
        )


def finetuning(table: Table) -> None:
    """Time fine-tuning's steps, ours and the Trainer's, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "tests.speed.finetuning",
        "--kinds",
        "SC",
        "--steps",
        "20",
    ]
    command += [
        "--size",
        "tiny" if table.small else "610m",
        "--device",
        table.device.type,
        "--trainer",
        "32",
    ]
    command += ["--variants", "now"]

    def run() -> Row:
        left = max(60.0, table.end - time.monotonic() + 60)
        done = subprocess.run(command, capture_output=True, text=True, timeout=left)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
        print(done.stdout)
        return {"lines": len(done.stdout.splitlines())}

    table.measure("fine-tuning", run)


def main() -> None:
    """Ask the four questions."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--small", action="store_true", help="tiny models, as always on a CPU"
    )
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="after which no row is begun"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT", "h100-results"))
    )
    parser.add_argument(
        "--kernels",
        nargs="+",
        choices=tuple(BACKENDS),
        help="those to time; the first is compared with",
    )
    parser.add_argument(
        "--skip",
        nargs="+",
        default=(),
        metavar="WORD",
        help="leave out rows whose name holds one of these",
    )
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error(
            "no GPU is at hand; --device cpu walks through the same with a tiny model"
        )
    device = (
        torch.device(options.device, 0)
        if options.device == "cuda"
        else torch.device("cpu")
    )
    torch.set_num_threads(1)
    # As training does: a pass of the largest size does not fit into fragments.
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    name = torch.cuda.get_device_name() if device.type == "cuda" else machine()
    print(f"{name}, torch {torch.__version__}", flush=True)
    table = Table(
        file=options.out / "h100.json",
        device=device,
        end=time.monotonic() + 60 * options.minutes,
        backends=options.kernels
        or (
            ("sdpa", "flash2")
            if device.type == "cpu"
            else ("flash2", "flash3", "flash4")
        ),
        small=options.small or device.type == "cpu",
        skip=options.skip,
    )
    if table.file.is_file():
        table.rows = json.loads(table.file.read_text())
    try:
        kernels(table)
        starts(table)
        finetuning(table)
        steps(table)
    except OutOfTime:
        print(
            f"{options.minutes:g} minutes are over; the same command measures what is missing"
        )


if __name__ == "__main__":
    main()
