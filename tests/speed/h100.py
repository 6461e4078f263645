"""What one H100 reaches, in three parts of eight minutes at most: for a machine with torch and nothing of Composer.

    python3 -m tests.speed.h100 kernels     # attention alone: by size, direction and kernel
    python3 -m tests.speed.h100 variants    # 30 steps of 610M by attention, residual, microbatch and compiler
    python3 -m tests.speed.h100 best        # the best of them at three sizes, a trace, fine-tuning
    python3 -m tests.speed.h100 kernels variants best --device cpu --minutes 1

It needs torch 2.11 or newer, transformers 5, NumPy and accelerate, and trains by a loop of its own: the product's
model, objective, order, passes, weights and AdamW, on made-up text. A row that the machine's torch or packages cannot
do falls away and says why. Rows are written to `--out` as they come, and the same command measures those that are
missing, so that a part may be cut off at any time. Each part ends in its table and in the decisions that it allows.

On a stand-in of the CUDA driver (`gpu_rehearsal`), with `--counter FUNCTION`, all of it runs and no time has a meaning.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common.errors import UserError, first_line
from common.files import write_text
from pretraining.data.sampler import Order, lay_out
from pretraining.model.attention import BACKENDS, packed_layout, resolve_backend
from pretraining.model.configuration import EncoderConfig, config_of
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.config import Batches, TrainingConfig
from pretraining.plan.devices import largest_microbatch, mfu
from pretraining.plan.flops import model_flops_per_token
from pretraining.training.objectives import ObjectiveBatch, clm, group_weights, loss_sum, mlm
from tests.pretraining.sizes import TINY
from tests.speed.budget import speed, variants
from tests.speed.parts import adamw, ours
from tests.speed.timing import machine, parser_of

Row = dict[str, Any]
SEQUENCES, STEPS, WARM = 288, 30, 12
"""Of a step, of a run, and of those that compile and are not timed."""
FAILURES = (UserError, RuntimeError, ImportError, ValueError, torch._dynamo.exc.TorchDynamoException)
RESIDUAL_WITHIN = 0.0008
"""Nats by which losses of two equal runs differed within 30 steps (docs/performance.md)."""
GAIN = 1.10
"""How much faster than FlashAttention 2 cuDNN must be to become a default."""
CONFIRMED, WRONG = 0.47, 0.44
"""MFU of 610M that confirms the counted budget, and below which the trace says what is wrong in it."""
FIXED_SHAPES = 16


class OutOfTime(Exception):
    """The part's minutes are over; the same command resumes it."""


@dataclass(kw_only=True)
class Part:
    """A table that is measured row by row."""

    file: Path
    device: torch.device
    end: float
    rows: dict[str, Row]

    def measure(self, key: str, call: Callable[[], Row]) -> Row:
        """Return a row: the one that is there, or what the call measures."""
        if key in self.rows:
            return self.rows[key]
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
        except FAILURES as error:
            row = {"falls away": first_line(error)}
        self.rows[key] = row | {"seconds": round(time.monotonic() - began, 1)}
        write_text(self.file, json.dumps(self.rows, indent=1))
        words = ", ".join(f"{name} {_text(value)}" for name, value in row.items() if name != "losses")
        print(f"{key:44} {words}", flush=True)
        return self.rows[key]


def _text(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def clock(device: torch.device) -> float:
    """Return the time, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def passes(config: TrainingConfig, steps: int) -> Iterator[list[np.ndarray[Any, Any]]]:
    """Yield the lengths of each pass of each step, by the product's order and layout."""
    order = Order(
        samples=2**20,
        batch=config.batches.global_batch,
        seed=0,
        block=config.batches.shuffle_block,
        chunk=config.batches.shuffle_chunk,
    )
    for step in range(steps):
        starts, stops = config.sequences.spans(order.batch_of(step)[1])
        yield [
            (stops - starts)[places] for places in lay_out(stops - starts, 1, config.batches.pass_tokens)[0]
        ]


def _sizes(small: bool) -> dict[str, Shape]:
    return {"tiny": replace(TINY, vocab=2_000)} if small else SHAPES


def kernels(part: Part, small: bool) -> None:
    """Time attention alone, over the passes of a step; of cuDNN, too, what a new shape costs."""
    config = (
        TrainingConfig(batches=Batches(global_batch=16, max_length=48, microbatch=2))
        if small
        else TrainingConfig(batches=Batches(global_batch=SEQUENCES))
    )
    tokens, sequences = config.batches.pass_multiples
    lengths = next(passes(config, 1))
    sizes = _sizes(small)
    for (size, shape), causal, name in itertools.product(sizes.items(), (False, True), BACKENDS):
        if name == "sdpa" and part.device.type == "cuda":
            continue  # one sequence after the other
        for exact in (True, False) if name == "cudnn" else (True,):
            batches = [
                PackedBatch.of([np.zeros(n, np.int64) for n in one], max_length=config.batches.max_length)
                for one in lengths
            ]
            batches = batches if exact else [batch.padded(tokens, sequences) for batch in batches]
            label = name + (", few shapes" if not exact else "")
            part.measure(
                f"{size} {'clm' if causal else 'mlm'} {label}",
                lambda shape=shape, causal=causal, name=name, batches=batches: kernel(
                    part.device, shape, causal, name, batches
                ),
            )
    best = {}
    for size, causal in itertools.product(sizes, ("mlm", "clm")):
        found = {
            key.split(" ", 2)[2]: row
            for key, row in part.rows.items()
            if key.startswith(f"{size} {causal} ") and "both" in row
        }
        best[f"{size} {causal}"] = max(found, key=lambda name: found[name]["both"], default="none")
    print(f"fastest by forward and backward TFLOP/s: {best}")
    for key, row in part.rows.items():
        if "cudnn, few" in key and "misses" in row:
            print(
                f"decision: {key} met {row['misses']} new shapes; at most {FIXED_SHAPES} let it be a default"
            )


def kernel(
    device: torch.device, shape: Shape, causal: bool, name: str, batches: Sequence[PackedBatch]
) -> Row:
    """Return TFLOP/s of both passes, and of the first call for each shape the seconds beyond the second call's."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    backend = resolve_backend(name, device, dtype, shape.head_dim)
    seconds, first, seen, before = np.zeros(2), 0.0, set(), _memory()
    work = 0.0
    for batch in batches:
        given = batch.to(device)
        layout = packed_layout(given.cu_seqlens, given.max_length, is_causal=causal, backend=backend)
        q, k, v = (
            torch.randn(
                batch.num_tokens, heads, shape.head_dim, device=device, dtype=dtype, requires_grad=True
            )
            for heads in (shape.heads, shape.kv_heads, shape.kv_heads)
        )
        gradient, runs = torch.randn_like(q), []
        for _ in range(3):
            at = clock(device)
            out = backend.attend(q, k, v, layout)
            middle = clock(device)
            torch.autograd.grad(out, (q, k, v), gradient)
            runs.append((middle - at, clock(device) - middle))
        seconds += np.min(runs[1:], axis=0)
        first += sum(runs[0]) - sum(runs[1])
        seen.add((batch.num_tokens, len(batch.cu_seqlens)))
        square = float(batch.cu_seqlens.diff().double().square().sum())
        work += 4 * square * shape.heads * shape.head_dim * (0.5 if causal else 1)
    forward, backward = work / seconds[0] / 1e12, 2.5 * work / seconds[1] / 1e12
    return {
        "forward": forward, "backward": backward, "both": 3.5 * work / seconds.sum() / 1e12,
        "misses": len(seen), "seconds a miss": first / len(seen), "host GB": _memory() - before,
    }  # fmt: skip


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def made_up(rng: np.random.Generator, length: int, vocab: int) -> np.ndarray[Any, Any]:
    """Return tokens that follow from those before by a rule with chance in it, so that there is something to learn."""
    words = min(vocab - 8, 4_096)
    tokens = np.empty(length, np.int64)
    tokens[0] = rng.integers(words)
    for place, chance in enumerate(rng.integers(0, 4, length - 1), 1):
        tokens[place] = (7 * tokens[place - 1] + chance) % words
    return tokens + 8


def step_parts(
    config: EncoderConfig, settings: TrainingConfig, objective: str, steps: int, *, fixed: bool
) -> Iterator[list[ObjectiveBatch]]:
    """Yield the passes of each step as the data loader makes them, with the weights of their tokens."""
    rng, rule = np.random.default_rng(0), MaskRule.of(config, ratio=0.4, seed=0)
    number, batches = 0, settings.batches
    for lengths in passes(settings, steps):
        made, counts = [], torch.zeros(batches.global_batch // batches.group_size, dtype=torch.float64)
        for one in lengths:
            ids = np.arange(number, number + len(one))
            number += len(one)
            packed = PackedBatch.of(
                [made_up(rng, n, config.vocab_size) for n in one], ids, max_length=batches.max_length
            )
            part = (clm(packed) if objective == "clm" else mlm(packed, rule)).grouped(
                torch.from_numpy(ids % len(counts))
            )
            counts += part.counts(len(counts))
            made.append(part.padded(*batches.pass_multiples) if fixed else part)
        weights = group_weights(counts, "equal")
        yield [replace(part, weights=weights) for part in made]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to train."""

    backend: str = "flash2"
    residual: str = "fp32"
    microbatch: int = 12
    tuned: bool = False

    @property
    def label(self) -> str:
        """What it is, for a table."""
        words = [self.backend, f"residual {self.residual}", f"microbatch {self.microbatch}"]
        return ", ".join([*words, "tuned"] if self.tuned else words)


def trained(
    device: torch.device,
    shape: Shape,
    variant: Variant,
    objective: str = "mlm",
    *,
    steps: int = STEPS,
    small: bool = False,
    trace: bool = False,
) -> Row:
    """Return tokens/s, MFU, memory and losses of a run; with `trace`, its last step's milliseconds by kernels."""
    config = config_of(shape, {"bos_id": 1, "eos_id": 2, "mask_id": 3})
    given = (
        {"global_batch": 16, "max_length": 48, "microbatch": 2}
        if small
        else {"global_batch": SEQUENCES, "microbatch": variant.microbatch}
    )
    settings = TrainingConfig(batches=Batches(**given))  # type: ignore[arg-type]
    dtype = torch.bfloat16
    backend = resolve_backend(variant.backend, device, dtype, shape.head_dim)
    model: EuroBertForMaskedLM = ours(config).to(device)
    model.set_attention_backend(backend.name)
    model.fuse_projections(device.type == "cuda")
    model.body.residual_is_narrow = variant.residual == "bf16"
    if device.type == "cuda":
        model.compile_blocks(options={"coordinate_descent_tuning": True} if variant.tuned else None)
    optimizer, losses, taken, tokens = adamw(model), list[torch.Tensor](), list[float](), list[int]()
    begin, profiler = clock(device), None
    for number, parts in enumerate(
        step_parts(config, settings, objective, steps, fixed=backend.fixed_shapes)
    ):
        if trace and device.type == "cuda" and number == steps - 1:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            profiler.__enter__()
        begin = clock(device)  # without the making of the step's text
        loss = torch.zeros((), device=device)
        for part in parts:
            with torch.autocast(device.type, dtype):
                total = loss_sum(model, part.to(device, non_blocking=True)).total
            total.backward()  # type: ignore[no-untyped-call]
            loss += total.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.optimizer.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss)
        taken.append(clock(device) - begin)
        tokens.append(sum(part.inputs.num_tokens for part in parts))
    late = slice(min(WARM, steps // 2), None)
    rate = sum(tokens[late]) / sum(taken[late])
    flops = model_flops_per_token(
        shape, length=settings.sequences.attended_length, predicted=1.0 if objective == "clm" else 0.4
    )
    row: Row = {"tokens/s": rate, "host GB": _memory(), "attention": backend.name}
    if device.type == "cuda":
        share = mfu(rate, flops, torch.cuda.get_device_name())
        row |= {"MFU": share or 0.0, "GPU GB": torch.cuda.max_memory_allocated() / 1e9}
    if profiler is not None:
        profiler.__exit__(None, None, None)
        row["trace, ms"] = kinds(profiler, taken[-1])
    return row | {"losses": [float(loss) for loss in losses]}


def kinds(profiler: Any, seconds: float) -> dict[str, float]:
    """Return milliseconds of a traced step by kind of kernel."""
    found = {"products": 0.0, "attention": 0.0, "other": 0.0}
    for event in profiler.key_averages():
        name = event.key.lower()
        attends = any(word in name for word in ("flash", "fmha", "attention", "sdpa"))
        multiplies = any(word in name for word in ("gemm", "nvjet", "cutlass", "matmul"))
        kind = "attention" if attends else "products" if multiplies else "other"
        found[kind] += event.self_device_time_total / 1e3
    return found | {"idle": max(0.0, 1e3 * seconds - sum(found.values()))}


def all_variants(part: Part, small: bool) -> Variant:
    """Time 30 steps of 610M by variant; return the fastest, with the residual that the losses allow."""
    shape = _sizes(small)["tiny" if small else "610m"]
    most = max(1, largest_microbatch(shape, _free(part.device), Batches().max_length)) if not small else 4

    def run(variant: Variant) -> Row:
        return part.measure(variant.label, lambda: trained(part.device, shape, variant, small=small))

    base = Variant(backend="sdpa") if part.device.type == "cpu" else Variant()
    timed = {base: run(base)}
    for name in ("flash4", "cudnn", "flash3"):
        timed[replace(base, backend=name)] = run(replace(base, backend=name))
    ran = {variant: row for variant, row in timed.items() if "tokens/s" in row}
    if not ran:
        return base
    fastest = max(ran, key=lambda variant: ran[variant]["tokens/s"])
    if fastest.backend == "cudnn" and ran[fastest]["tokens/s"] < GAIN * timed[base].get("tokens/s", 0.0):
        fastest = max((v for v in ran if v.backend != "cudnn"), key=lambda variant: ran[variant]["tokens/s"])
    print(f"decision: attention {fastest.backend} (cuDNN only from {GAIN:g} times flash2 on)")
    narrow = replace(fastest, residual="bf16")
    again = part.measure(f"{fastest.label}, again", lambda: trained(part.device, shape, fastest, small=small))
    row = run(narrow)
    off, noise = _apart(row, ran[fastest]), _apart(again, ran[fastest])
    allowed = off <= max(RESIDUAL_WITHIN, noise)
    print(
        f"decision: residual=bf16 moves a loss by at most {off:.5f} nats, a second run by {noise:.5f}; it "
        f"{'may' if allowed else 'may not'} become a default ({RESIDUAL_WITHIN} or the second run's)"
    )
    best = narrow if allowed else fastest
    large = replace(best, microbatch=most)
    tuned = replace(large, tuned=True)
    rows = {variant: run(variant) for variant in (large, tuned)} | {best: ran.get(best, row)}
    best = max((v for v in rows if "tokens/s" in rows[v]), key=lambda v: rows[v]["tokens/s"])
    print(f"decision: {best.label}")
    return best


def _free(device: torch.device) -> float:
    return torch.cuda.mem_get_info(device)[0] / 1e9 if device.type == "cuda" else 0.0


def _apart(row: Row, other: Row) -> float:
    pairs = zip(row.get("losses", [np.inf]), other.get("losses", [0.0]), strict=False)
    return max((abs(a - b) for a, b in pairs), default=float("inf"))


def best_of(part: Part, small: bool, options: Any) -> None:
    """Time the best variant at three sizes and in both directions, trace it, and time fine-tuning."""
    file = part.file.parent / "chosen.json"
    if not file.is_file():
        print("variants has not been measured to its end: FlashAttention 2 as it was")
    base = Variant(backend="sdpa") if part.device.type == "cpu" else Variant()
    chosen = Variant(**json.loads(file.read_text())) if file.is_file() else base
    for (size, shape), objective in itertools.product(_sizes(small).items(), ("mlm", "clm")):
        micro = max(1, largest_microbatch(shape, _free(part.device), Batches().max_length))
        variant = chosen if small or chosen.microbatch == 12 else replace(chosen, microbatch=micro)
        row = part.measure(
            f"{size} {objective} {variant.label}",
            lambda shape=shape, variant=variant, objective=objective: trained(
                part.device,
                shape,
                variant,
                objective,
                steps=20,
                small=small,
                trace=objective == "mlm" and not options.counter,
            ),
        )
        if size == "610m" and objective == "mlm" and "MFU" in row:
            predicted = ", ".join(f"{label} {speed(shape, rates)[1]:.1%}" for label, rates in variants())
            says = "confirms the budget" if row["MFU"] >= CONFIRMED else "is below the budget's last row"
            wrong = "; the trace says which row of the budget is wrong" if row["MFU"] < WRONG else ""
            print(f"decision: MFU {row['MFU']:.1%} {says}{wrong} (predicted: {predicted})")
    command = [sys.executable, "-m", "tests.speed.finetuning", "--kinds", "SC", "QA", "--steps", "20"]
    command += ["--size", "tiny" if small else "610m", "--device", part.device.type, "--trainer", "32"]
    command += ["--variants", "now", *(() if small else ("compiled",))]
    command += ["--counter", options.counter] if options.counter else []

    def finetuning() -> Row:
        left = max(60.0, part.end - time.monotonic() + 60)
        done = subprocess.run(command, capture_output=True, text=True, timeout=left)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
        print(done.stdout)
        return {"lines": len(done.stdout.splitlines())}

    part.measure("fine-tuning", finetuning)


def main() -> None:
    """Run the parts."""
    parser = parser_of(__doc__)
    parser.add_argument("parts", nargs="+", choices=("kernels", "variants", "best"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny model, as always on a CPU")
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="of each part, after which no row is begun"
    )
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "h100-results")))
    parser.add_argument(
        "--counter", default="", help="C function of a stand-in's counters: there losses mean nothing"
    )
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU is at hand; --device cpu walks through the same with a tiny model")
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device("cpu")
    small = options.small or device.type == "cpu"
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if device.type == "cuda" else machine()
    warning = "; on a stand-in no time, loss or decision means anything" if options.counter else ""
    print(f"{name}, torch {torch.__version__}{warning}", flush=True)
    for word in options.parts:
        file = options.out / f"{word}.json"
        rows = json.loads(file.read_text()) if file.is_file() else {}
        part = Part(file=file, device=device, end=time.monotonic() + 60 * options.minutes, rows=rows)
        print(f"\n{word}", flush=True)
        try:
            if word == "kernels":
                kernels(part, small)
            elif word == "variants":
                write_text(options.out / "chosen.json", json.dumps(vars(all_variants(part, small))))
            else:
                best_of(part, small, options)
        except OutOfTime:
            print(f"{options.minutes:g} minutes are over; the same command measures what is missing")


if __name__ == "__main__":
    main()
