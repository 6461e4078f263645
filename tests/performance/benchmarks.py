"""One cell of runs, ours against one process a run with transformers' Trainer as the paper's code does it.

    python tests/performance/benchmarks.py                       # synthetic SST-2, a small model, some minutes
    python tests/performance/benchmarks.py --data data --model PATH --full           # the paper's 30 runs, long
    python tests/performance/benchmarks.py --data data --grid --steps 100 --in-proportion

The reference loads model and data afresh in a process for every run, accumulates 8 micro-batches of 4, evaluates
the validation split ten times in training and both splits at the end, four examples at a time, with as many threads
as torch takes. Both sides start from the same weights and draw the same examples, so their scores must agree.

Prints both times, their ratio, the largest difference of scores, and where our time goes. Fewer steps than 1,000 make
the start of a process weigh more than it does in the paper's runs; the last line of the comparison therefore scales
what follows the start to 1,000 steps. `--in-proportion` keeps steps/1,000 of the evaluation splits, so that
evaluation and training keep their proportion, too.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with the dataset (default: a synthetic one)")
    parser.add_argument("--model", type=Path, help="model folder (default: 4 layers of width 128)")
    parser.add_argument("--dataset", default="sst2", choices=["sst2", "qqp", "mnli_m"])
    parser.add_argument("--evaluation", type=int, default=1_000, help="examples a split of the synthetic one")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, nargs="+", default=[2e-4, 5e-4])
    parser.add_argument("--seed", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--grid", action="store_true", help="the paper's 6 learning rates and 5 seeds")
    parser.add_argument("--full", action="store_true", help="--grid with 1,000 steps")
    parser.add_argument("--in-proportion", action="store_true", help="cut the evaluation splits as the steps")
    parser.add_argument("--reference", nargs=3, metavar=("LR", "SEED", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.full:
        options.steps = 1_000
    if options.full or options.grid:
        from benchmarks.protocol import LEARNING_RATES, SEEDS

        options.lr, options.seed = list(LEARNING_RATES), list(SEEDS)
    if options.reference:
        reference(options, float(options.reference[0]), int(options.reference[1]), Path(options.reference[2]))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        compare(options, Path(temporary))
    return 0


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Run both sides and print what they took."""
    options.data = options.data or make_data(folder / "data", options.dataset, options.evaluation)
    options.model = options.model or make_model(folder / "model", options.data, options.dataset)
    if options.in_proportion:
        options.data = cut(options.data, options.dataset, options.steps / 1_000, folder / "cut")
    runs = [(lr, seed) for lr in options.lr for seed in options.seed]
    common = ["--data", options.data, "--model", options.model, "--device", options.device,
              "--precision", options.precision, "--steps", options.steps, "--dataset", options.dataset]  # fmt: skip
    print(f"{options.dataset}, {options.model.name}, {len(runs)} runs of {options.steps} steps, {options.precision} "
          f"on {options.device}; {sizes(options)}", flush=True)  # fmt: skip
    start = clocks()
    call(["-m", "benchmarks", "run", *common, "--name", "ours", "--lr", *options.lr,
          "--seed", *options.seed, "--out", folder])  # fmt: skip
    ours = [now - then for now, then in zip(clocks(), start, strict=True)]
    mine = {(lr, seed): ours_of(folder, options.dataset, lr, seed) for lr, seed in runs}
    print(f"ours, one command for all runs:          {ours[0]:8.1f} s, {ours[1]:8.1f} s of CPU", flush=True)
    start, theirs = clocks(), {}
    for lr, seed in runs:
        out = folder / f"{lr}-{seed}.json"
        before = time.perf_counter()
        call([__file__, *common, "--reference", lr, seed, out])
        theirs[lr, seed] = json.loads(out.read_text()) | {"whole": time.perf_counter() - before}
    took = [now - then for now, then in zip(clocks(), start, strict=True)]
    print(f"transformers' Trainer, one process each: {took[0]:8.1f} s, {took[1]:8.1f} s of CPU")
    print(f"ratio:                                   {took[0] / ours[0]:8.2f}    {took[1] / ours[1]:8.2f}")
    gaps = [
        max(abs(mine[run]["scores"][split] - theirs[run]["scores"][split]) for split in SPLITS)
        for run in runs
    ]
    print(
        f"runs with equal scores:                  {gaps.count(0)} of {len(runs)}, largest difference {max(gaps):.5f}"
    )
    working = sum(run["working"] for run in theirs.values())
    own = sum(run["working"] for run in mine.values()) / min(len(runs), processes(options))
    scale, starting = 1_000 / options.steps, (max(0.0, ours[0] - own), took[0] - working)
    print(f"starting, until fine-tuning begins:      {starting[0]:8.1f} s against {starting[1]:.1f} s")
    print(f"ratio with all but that x {scale:<6.4g}         "
          f"{(starting[1] + scale * working) / (starting[0] + scale * own):8.2f}")  # fmt: skip
    breakdown(options)


SPLITS = ("validation", "test")


def ours_of(folder: Path, dataset: str, lr: float, seed: int) -> dict[str, Any]:
    """Return the scores of one of our runs, and the seconds it took."""
    from benchmarks.runs import RESULTS, RunKey
    from benchmarks.sweep.run_state import timings

    key = RunKey(model="ours", dataset=dataset, lr=lr, seed=seed)
    results = json.loads((folder / "results" / key.folder / RESULTS).read_text())
    scores = {split: results[split]["score"] for split in SPLITS}
    return {"scores": scores, "working": sum(timings(folder, key).values())}


def processes(options: argparse.Namespace) -> int:
    """Return how many of our runs go side by side, as the command chooses by itself."""
    from benchmarks.sweep.fork_pool import default_size

    return default_size(1, 2**28) if options.device == "cpu" else 1


def sizes(options: argparse.Namespace) -> str:
    from benchmarks.datasets.local_dataset import read_manifest

    counts = read_manifest(options.data, options.dataset).counts
    return ", ".join(f"{number:,} {split}" for split, number in counts.items())


def cut(data: Path, dataset: str, share: float, folder: Path) -> Path:
    """Write a dataset again with the first `share` of its evaluation splits."""
    from benchmarks.datasets.local_dataset import Content, load, write

    whole = load(data, dataset)
    tables = {
        name: table if name == "train" else table.slice(0, max(1, round(share * table.num_rows)))
        for name, table in whole.tables.items()
    }
    source = {"kind": "cut", "share": share, "files": []}
    content = Content(tables=tables, labels=whole.labels, splits="cut for a measurement")
    write(folder, whole.dataset, content, source=source, licence="as the whole", citation="as the whole")
    return folder


def clocks() -> tuple[float, float]:
    """Return wall time, and CPU time of the processes that ended: the latter on a machine that others use too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def call(arguments: Sequence[Any]) -> None:
    subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, check=True, capture_output=True)


def breakdown(options: argparse.Namespace) -> None:
    """Print where the time of one fine-tuning goes, each part waited for."""
    import torch

    from benchmarks.datasets.local_dataset import load as load_data
    from benchmarks.finetuning.device import choose_device
    from benchmarks.finetuning.encoders import load
    from benchmarks.finetuning.heads import MEAN
    from benchmarks.finetuning.trainer import example_order, make_optimiser
    from benchmarks.protocol import FINE_TUNING
    from benchmarks.ragged import padded_batches
    from benchmarks.sweep.model_reset import ResettableModel
    from benchmarks.tasks.families import family_of, objective_of
    from benchmarks.tasks.supervised import SupervisedObjective

    def clock() -> float:
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    device = choose_device(options.device, options.precision)
    resettable = ResettableModel(loaded=load(str(options.model)), device=device, pooling=MEAN)
    dataset, fine_tuning = load_data(options.data, options.dataset), replace(FINE_TUNING, steps=options.steps)
    objective = objective_of(dataset, resettable.loaded, fine_tuning, seeds=[0], pooling=MEAN)
    assert isinstance(objective, SupervisedObjective)
    evaluator = family_of(dataset.dataset).evaluator(dataset, resettable.loaded, device, fine_tuning, MEAN)
    model = resettable.reset(dataset.dataset, 0).train()
    optimiser = make_optimiser(model, 1e-4, fine_tuning)
    steps = list(islice(example_order(objective.size, 0, 4, 8), min(options.steps, 100)))
    spent = dict.fromkeys(("batches", "forward and backward", "clipping and optimiser"), 0.0)
    for groups in steps:
        at = clock()
        loss = objective.backward(model, groups, device)
        after = clock()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        spent["clipping and optimiser"] += clock() - after
        at_batches = clock()
        import numpy as np

        rows = np.searchsorted(objective.rows, np.concatenate(groups))
        for part in padded_batches(objective.ids.lengths[rows], device.train_positions, device.kind.overhead):
            device.tensor(objective.ids.padded(rows[part], objective.pad))
        batches = clock() - at_batches
        spent["batches"] += batches
        spent["forward and backward"] += after - at - batches
    assert math.isfinite(float(loss))
    start = clock()
    evaluator.evaluate(model, device)
    evaluated = clock() - start
    scale = options.steps / len(steps)
    total = sum(spent.values()) * scale + evaluated
    for name, seconds in spent.items():
        print(f"  {name:24} {100 * seconds * scale / total:5.1f} % of a run's {total:.1f} s")
    print(f"  {'evaluation':24} {100 * evaluated / total:5.1f} %")
    outside = 1 - spent["forward and backward"] / sum(spent.values())
    print(f"fine-tuning time outside forward and backward: {100 * outside:.1f} %")


def make_data(folder: Path, dataset: str, evaluation: int) -> Path:
    """Write a synthetic dataset."""
    from benchmarks.datasets.synthetic import make_synthetic

    make_synthetic(folder, dataset, train=20_000, evaluation=evaluation)
    return folder


def make_model(folder: Path, data: Path, dataset: str) -> Path:
    """Save a small encoder with random weights and a tokenizer made from the training texts."""
    import torch
    from transformers import AutoModel

    import pretraining.model.heads  # noqa: F401
    from benchmarks.datasets.local_dataset import load
    from tests.benchmarks.tiny import make_config, make_tokenizer

    tokenizer = make_tokenizer(load(data, dataset).train["first"].to_pylist(), size=4_000)
    torch.manual_seed(0)
    config = make_config("ours", vocab=len(tokenizer), hidden=128, layers=4)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def reference(options: argparse.Namespace, lr: float, seed: int, out: Path) -> None:
    """One run as the paper's code does it, with the same weights and the same draws as ours."""
    import numpy as np
    import torch
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    from benchmarks.datasets.local_dataset import load as load_data
    from benchmarks.finetuning.encoders import load
    from benchmarks.finetuning.heads import SequenceHead
    from benchmarks.finetuning.tokenization import classification_text
    from benchmarks.tasks.base import TaskModel

    loaded, dataset = load(str(options.model)), load_data(options.data, options.dataset)
    tokenizer, encoder = loaded.tokenizer, loaded.encoder
    head = SequenceHead(encoder.hidden_size, len(dataset.labels))
    head.draw(encoder.init_std, seed)

    class ForTrainer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = TaskModel(encoder, head)

        def forward(self, input_ids: Any, attention_mask: Any, labels: Any) -> dict[str, Any]:
            logits = self.model(input_ids, attention_mask.sum(1))
            return {"loss": torch.nn.functional.cross_entropy(logits.float(), labels), "logits": logits}

    def examples(table: Any) -> list[dict[str, Any]]:
        pairs = zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
        texts = [classification_text(dataset.dataset, *pair) + tokenizer.eos_token for pair in pairs]
        found = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=loaded.limits.labelled)
        labelled = zip(found["input_ids"], table["label"].to_pylist(), strict=True)
        return [{"input_ids": ids, "labels": label} for ids, label in labelled]

    model = ForTrainer()
    if options.precision == "bf16":
        model.to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as temporary:
        arguments = TrainingArguments(
            output_dir=temporary, max_steps=options.steps, per_device_train_batch_size=4,
            per_device_eval_batch_size=4, gradient_accumulation_steps=8, learning_rate=lr, warmup_steps=0.1,
            lr_scheduler_type="linear", adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-5, weight_decay=0.1,
            max_grad_norm=1.0, seed=seed, save_strategy="no", eval_strategy="steps",
            eval_steps=max(1, options.steps // 10), logging_steps=10, report_to=[], optim="adamw_torch",
            use_cpu=options.device == "cpu", bf16=options.precision == "bf16", disable_tqdm=True,
        )  # fmt: skip
        splits = {"validation": examples(dataset.validation), "test": examples(dataset.test)}
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=examples(dataset.train),  # type: ignore[arg-type]
            eval_dataset=splits["validation"],  # type: ignore[arg-type]
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=lambda found: {"accuracy": float((found[0].argmax(1) == found[1]).mean())},
        )
        begun = time.perf_counter()
        trainer.train()
        scores = {}
        for split, rows in splits.items():
            found = trainer.predict(rows)  # type: ignore[arg-type]
            scores[split] = float(np.mean(np.argmax(found.predictions, 1) == found.label_ids))
    out.write_text(json.dumps({"scores": scores, "working": time.perf_counter() - begun}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
