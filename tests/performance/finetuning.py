"""One cell of runs, ours against one process a run with transformers' Trainer, as the paper's code does it.

    python -m tests.performance.finetuning                                    # made-up SST-2, a small model, minutes
    python -m tests.performance.finetuning --data data --model PATH --full    # the paper's 30 runs, long

The reference loads model and data in a new process for every run, accumulates 8 micro-batches of 4, evaluates the
validation split ten times in training and both splits at the end, four examples at a time. Both sides start from the
same weights and draw the same examples, so their scores must agree. Fewer steps than the paper's 1,000 make the start
of a process weigh more; the last line scales what follows it to 1,000 steps.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.performance.timing import Timing, command, line, machine

SPLITS = ("validation", "test")


def main() -> None:
    """Run both sides and print what they took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with the dataset (default: a made-up one)")
    parser.add_argument("--model", type=Path, help="model folder (default: 4 layers of width 128)")
    parser.add_argument("--dataset", default="sst2", choices=["sst2", "qqp", "mnli_m"])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, nargs="+", default=[2e-4, 5e-4])
    parser.add_argument("--seed", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--full", action="store_true", help="the paper's 30 runs of 1,000 steps")
    parser.add_argument("--reference", nargs=3, metavar=("LR", "SEED", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.full:
        from benchmarks.protocol import LEARNING_RATES, SEEDS

        options.steps, options.lr, options.seed = 1_000, list(LEARNING_RATES), list(SEEDS)
    if options.reference:
        lr, seed, out = options.reference
        reference(options, float(lr), int(seed), Path(out))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Time ours, one command for all runs, and the reference, a process each."""
    options.data = options.data or made_up(folder / "data", options.dataset)
    options.model = options.model or small_model(folder / "model", options.data, options.dataset)
    runs = [(lr, seed) for lr in options.lr for seed in options.seed]
    common = ["--data", options.data, "--model", options.model, "--device", options.device,
              "--precision", options.precision, "--steps", options.steps, "--dataset", options.dataset]  # fmt: skip
    print(
        f"{options.dataset}, {options.model.name}, {len(runs)} runs of {options.steps} steps; {machine()}",
        flush=True,
    )
    grid = ["--lr", *options.lr, "--seed", *options.seed]
    ours = command("-m", "benchmarks", "run", *common, "--name", "ours", *grid, "--out", folder)
    line("ours, one command for all runs", ours)
    theirs, gaps, parts = Timing(seconds=0.0, cpu=0.0), list[float](), list[float]()
    for lr, seed in runs:
        out = folder / f"{lr}-{seed}.json"
        one = command("-m", "tests.performance.finetuning", *common, "--reference", lr, seed, out)
        theirs = Timing(seconds=theirs.seconds + one.seconds, cpu=theirs.cpu + one.cpu)
        found, mine = json.loads(out.read_text()), scores_of_ours(folder, options.dataset, lr, seed)
        gaps.append(max(abs(mine[split] - found["scores"][split]) for split in SPLITS))
        parts.append(found["cpu"])
    line("reference: the Trainer, one process each", theirs, ours)
    print(f"runs with equal scores: {gaps.count(0)} of {len(runs)}, largest difference {max(gaps):.5f}")
    start, scale = theirs.cpu / len(runs) - sum(parts) / len(runs), 1_000 / options.steps
    ratio = (start * len(runs) + scale * sum(parts)) / (start + scale * (ours.cpu - start))
    print(
        f"CPU ratio at 1,000 steps, starting a process once and {len(runs)} times ({start:.1f} s): {ratio:.2f}"
    )


def scores_of_ours(folder: Path, dataset: str, lr: float, seed: int) -> dict[str, float]:
    """Return the scores of one of our runs by split."""
    from benchmarks.runs import RESULTS, RunKey

    key = RunKey(model="ours", dataset=dataset, lr=lr, seed=seed)
    results = json.loads((folder / "results" / key.folder / RESULTS).read_text())
    return {split: results[split]["score"] for split in SPLITS}


def made_up(folder: Path, dataset: str) -> Path:
    """Write a made-up dataset."""
    from benchmarks.datasets.synthetic import make_synthetic

    make_synthetic(folder, dataset, train=20_000, evaluation=1_000)
    return folder


def small_model(folder: Path, data: Path, dataset: str) -> Path:
    """Save a small encoder with random weights and a tokenizer made from the training texts."""
    import torch
    from transformers import AutoModel

    import pretraining.model.heads  # noqa: F401  (registers the encoder with AutoModel)
    from benchmarks.datasets.local_dataset import load
    from tests.benchmarks.tiny import make_config, make_tokenizer

    tokenizer = make_tokenizer(load(data, dataset).train["first"].to_pylist(), size=4_000)
    torch.manual_seed(0)
    AutoModel.from_config(make_config("ours", vocab=len(tokenizer), hidden=128, layers=4)).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return folder


def reference(options: argparse.Namespace, lr: float, seed: int, out: Path) -> None:
    """One run as the paper's code does it, with the same weights and the same draws as ours."""
    import time

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

    def examples(table: Any) -> Sequence[dict[str, Any]]:
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
        began, scores = time.process_time(), {}
        trainer.train()
        for split, rows in splits.items():
            found = trainer.predict(rows)  # type: ignore[arg-type]
            scores[split] = float(np.mean(np.argmax(found.predictions, 1) == found.label_ids))
    out.write_text(json.dumps({"scores": scores, "cpu": time.process_time() - began}))


if __name__ == "__main__":
    main()
