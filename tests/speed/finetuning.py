"""Speed of a fine-tuning and of its evaluation, next to transformers' Trainer on the same examples.

    python -m tests.speed.finetuning                                  # a CPU: 6 layers of 384, float32
    python -m tests.speed.finetuning --size 610m --device cuda        # the paper's model in bfloat16
    python -m tests.speed.finetuning --size 610m --device cuda --trace
    python -m tests.speed.finetuning --kinds IR QA --data datasets/ --tokenizer FOLDER --trainer 32

Weights and tokens are drawn: no model, tokenizer or dataset is needed; `--data` takes the texts of sst2, uner_en, squad
and msmarco there. SC are short texts of two classes, TC and QA
short and long ones with a class a token, IR pairs of a query and a document, with InfoNCE in the Trainer, too; a step
is 32 examples, of which the Trainer takes 4 at a time, or all (pairs: all). `compiled` is ours with
compiled blocks, which round at other places. Host is the CPU time of the process.
`--trace` adds the share of the time in which the GPU computes, by torch's profiler.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    EuroBertConfig,
    EuroBertForSequenceClassification,
    EuroBertForTokenClassification,
)
from transformers import (
    EuroBertModel as HubModel,
)

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.finetuning import trainer
from benchmarks.finetuning.base_models import load_tokenizer
from benchmarks.finetuning.device import RunDevice, choose_device
from benchmarks.finetuning.encoders import Encoder
from benchmarks.finetuning.heads import MEAN, SequenceHead, TokenHead
from benchmarks.finetuning.tokenization import encode_texts
from benchmarks.finetuning.trainer import TrainingLoss
from benchmarks.protocol import FINE_TUNING
from benchmarks.ragged import Ragged
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.families import family_of
from benchmarks.tasks.retrieval import ContrastiveObjective
from benchmarks.tasks.supervised import (
    PaddedBatch,
    SupervisedFamily,
    SupervisedObjective,
    predict,
)
from common.embedding import PAPER_READING
from pretraining.model.configuration import EncoderConfig, config_of
from pretraining.model.modeling import EuroBertModel
from pretraining.paper_settings import SHAPES, Shape
from tests.pretraining.sizes import TINY
from tests.speed.timing import machine, parser_of
from tests.speed.trainer import FIELDS, padded, trainer_of

SHAPES_HERE = {
    **SHAPES,
    "tiny": TINY,
    "small": Shape(
        hidden=384,
        layers=6,
        heads=6,
        kv_heads=6,
        mlp=1_536,
        vocab=32_000,
        max_length=512,
    ),
}
"""The paper's, one for a CPU and one for tests."""
LENGTHS = {"SC": (8, 60), "TC": (4, 60), "QA": (100, 380), "IR": (40, 140)}
"""Tokens of the shortest and the longest example; of retrieval, of the documents."""
QUERIES = (6, 16)
DATASETS = {"SC": "sst2", "TC": "uner_en", "QA": "squad", "IR": "msmarco"}
SPECIAL = {"bos_id": 1, "eos_id": 2, "mask_id": 3}
EXAMPLES, EVALUATED, LR = 2_048, 1_024, 1e-5
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What both sides fine-tune."""

    config: EncoderConfig
    of_tokens: bool
    ids: Ragged
    labels: Ragged
    """A class a token; that of the first counts where texts have one."""
    queries: Ragged | None
    """Of retrieval, whose documents are `ids`."""
    device: RunDevice
    steps: int
    trace: bool


@dataclass(kw_only=True)
class Clock:
    """Seconds and host seconds of the steps behind the first few, which compile and fill caches."""

    given: Given
    skip: int
    profiler: Any = None
    began: tuple[float, float] | None = None

    def now(self) -> tuple[float, float]:
        """Return the time once the device is done."""
        if self.given.device.kind.gpu:
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def start(self) -> None:
        """Begin to measure."""
        if self.given.trace:
            self.profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            )
            self.profiler.__enter__()
        self.began = self.now()

    def after(self, steps: int) -> None:
        """Begin to measure after so many steps."""
        if steps == self.skip:
            self.start()

    def watch(self, steps: range) -> Iterator[int]:
        """Pass the steps on."""
        for step in steps:
            self.after(step)
            yield step

    def row(self, label: str, done: int, unit: str) -> None:
        """Print what a step, or a row, took."""
        assert self.began is not None
        after = self.now()
        seconds, host = after[0] - self.began[0], after[1] - self.began[1]
        words = [
            f"{label:26}{1e3 * seconds / done:10.2f} ms {1e3 * host / done:10.2f} ms of host a {unit}"
        ]
        if self.profiler is not None:
            self.profiler.__exit__(None, None, None)
            # Without the calls that launch them, which take no time of the device.
            events = [
                event
                for event in self.profiler.key_averages()
                if event.self_device_time_total
            ]
            busy = sum(event.self_device_time_total for event in events) / 1e6
            kernels = sum(event.count for event in events)
            words.append(
                f"GPU computes {busy / seconds:.0%}, {kernels / done:,.0f} kernels and copies"
            )
        if self.given.device.kind.gpu:
            words.append(f"peak {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
            torch.cuda.reset_peak_memory_stats()
        print("  ".join(words), flush=True)


def ours(given: Given, variant: str) -> None:
    """Time ours and its evaluation."""
    torch.manual_seed(0)
    with given.device.torch_device:
        base = EuroBertModel(given.config)
    encoder = Encoder(base)
    encoder.packs = given.device.packs
    kind = TokenHead if given.of_tokens else SequenceHead
    model = TaskModel(
        encoder, kind(given.config.hidden_size, 2) if given.queries is None else None
    )
    given.device.place(model)
    if variant == "compiled":
        base.compile_blocks()
    labels: Any = given.labels
    if not given.of_tokens:
        labels = given.labels.values[given.labels.offsets[:-1]].astype(np.int64)[
            :, None
        ]
    shared: Any = {
        "fine_tuning": FINE_TUNING,
        "pad": given.config.pad_token_id,
        "rows": np.arange(len(given.ids)),
    }
    objective: TrainingLoss = SupervisedObjective(
        **shared,
        ids=given.ids,
        labels=labels,
        order=lambda seed: trainer.example_order(len(given.ids), seed, 4, 8),
    )
    if given.queries is not None:
        objective = ContrastiveObjective(
            **shared,
            queries=given.queries,
            documents=given.ids,
            pooling=MEAN,
            negatives=Ragged.of([]),
            offsets=np.zeros(len(given.ids) + 1, dtype=np.int64),
            order=lambda seed: trainer.pair_order(len(given.ids), seed, 32),
        )
    clock = Clock(given=given, skip=given.steps // 3)
    trainer.fine_tune(
        model,
        objective,
        given.device,
        lr=LR,
        seed=0,
        steps=given.steps,
        fine_tuning=FINE_TUNING,
        watch=clock.watch,
    )
    clock.row(f"ours, {variant}", given.steps - clock.skip, "step")
    if given.queries is not None:
        return
    kept = Ragged.of([given.ids[row] for row in range(min(EVALUATED, len(given.ids)))])
    batches = PaddedBatch.cut(kept, given.device, given.config.pad_token_id)
    for _ in predict(model, batches[:2], given.device):
        pass
    clock.start()
    for _ in predict(model, batches, given.device):
        pass
    clock.row("  evaluation", len(kept) / 1_000, f"1,000 rows, {len(batches)} batches")


class _Pairs(nn.Module):
    """A model with InfoNCE over a batch of pairs as its loss, as sentence-transformers has it."""

    def __init__(self, config: EuroBertConfig) -> None:
        super().__init__()
        self.base = HubModel(config)

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Row:
        vectors = []
        for ids, mask in ((query, query_mask), (document, document_mask)):
            hidden = self.base(input_ids=ids, attention_mask=mask).last_hidden_state
            mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            vectors.append(nn.functional.normalize(mean, dim=-1))
        places = torch.arange(len(query), device=query.device)
        return {
            "loss": nn.functional.cross_entropy(20 * vectors[0] @ vectors[1].T, places)
        }


def _pairs(rows: list[Row]) -> Row:
    out: Row = {}
    for side in ("query", "document"):
        texts = [row[side] for row in rows]
        out[side] = pad_sequence(texts, batch_first=True).long()
        ones = [torch.ones_like(text) for text in texts]
        out[f"{side}_mask"] = pad_sequence(ones, batch_first=True).long()
    return out


def reference(given: Given, size: int) -> None:
    """Time the Trainer with passes of `size` examples, and its evaluation."""
    torch.manual_seed(0)
    rope = {"rope_type": "default", "rope_theta": given.config.rope_theta}
    fields = {name: getattr(given.config, name) for name in FIELDS}
    config = EuroBertConfig(
        **fields, rope_parameters=rope, num_labels=2, classifier_pooling="mean"
    )
    kind = (
        EuroBertForTokenClassification
        if given.of_tokens
        else EuroBertForSequenceClassification
    )
    pairs = given.queries is not None
    with given.device.torch_device:
        model: nn.Module = (_Pairs if pairs else kind)(config).to(
            given.device.precision.weights
        )
    rows: list[Row] = [
        {
            "input_ids": torch.from_numpy(given.ids[row]),
            "labels": torch.from_numpy(given.labels[row]),
        }
        for row in range(len(given.ids))
    ]
    if given.queries is not None:
        sides = {"query": given.queries, "document": given.ids}
        rows = [
            {side: torch.from_numpy(ids[row]) for side, ids in sides.items()}
            for row in range(len(given.ids))
        ]
    clock = Clock(given=given, skip=given.steps // 3)
    gpu = given.device.kind.gpu
    with tempfile.TemporaryDirectory() as folder:
        made = trainer_of(
            model,
            rows,
            _pairs if pairs else partial(_padded, of_tokens=given.of_tokens),
            clock.after,
            folder,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=32 // size,
            per_device_eval_batch_size=32,
            max_steps=given.steps,
            learning_rate=LR,
            warmup_steps=given.steps // 10,
            seed=0,  # SC, TC and QA: the same batches on both sides
            optim="adamw_torch",
            weight_decay=0.1,
            max_grad_norm=1.0,
            bf16=given.device.precision.autocast,
            use_cpu=not gpu,
            dataloader_pin_memory=gpu,
        )
        made.train()
        clock.row(f"Trainer, {32 // size} x {size}", given.steps - clock.skip, "step")
        if pairs:
            return
        made.predict(rows[:64])
        clock.start()
        made.predict(rows[:EVALUATED])
        clock.row(
            "  evaluation", min(EVALUATED, len(rows)) / 1_000, "1,000 rows, 32 a batch"
        )


def _padded(rows: list[Row], *, of_tokens: bool) -> Row:
    batch = {name: values.long() for name, values in padded(rows).items()}
    return batch if of_tokens else {**batch, "labels": batch["labels"][:, 0]}


def drawn(kind: str, vocab: int) -> tuple[Ragged, Ragged | None]:
    """Return token ids of examples of a kind, and of the queries of pairs, drawn."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(*LENGTHS[kind], EXAMPLES)
    ids = Ragged.of([rng.integers(4, vocab, length) for length in lengths])
    if kind != "IR":
        return ids, None
    return ids, Ragged.of(
        [rng.integers(4, vocab, rng.integers(*QUERIES)) for _ in lengths]
    )


def real(kind: str, data: Path, tokenizer: Path) -> tuple[Ragged, Ragged | None]:
    """Return the same of a dataset, as fine-tuning reads it."""
    found, words = load_dataset(data, DATASETS[kind]), load_tokenizer(tokenizer)
    limit = FINE_TUNING.max_length
    family = family_of(found.dataset)
    if isinstance(family, SupervisedFamily):
        loaded: Any = SimpleNamespace(
            tokenizer=words, limits=SimpleNamespace(labelled=limit)
        )
        return family.examples(found.dataset, found.train, loaded).ids, None
    documents = [
        PAPER_READING.document_text(text)
        for text in found.train["positive"].to_pylist()
    ]
    queries = [
        PAPER_READING.query_text(text) for text in found.train["query"].to_pylist()
    ]
    return encode_texts(words, documents, limit), encode_texts(words, queries, limit)


def main() -> None:
    """Time both sides on each kind of examples."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", default="small", choices=SHAPES_HERE)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--kinds", nargs="*", default=[*LENGTHS], choices=LENGTHS)
    parser.add_argument(
        "--variants", nargs="*", default=["now"], choices=("now", "compiled")
    )
    parser.add_argument(
        "--trainer", nargs="*", type=int, default=[4, 32], help="examples of a pass"
    )
    parser.add_argument(
        "--steps", type=int, default=30, help="of which the first third is not timed"
    )
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument(
        "--data", type=Path, help="folder of datasets, in place of drawn tokens"
    )
    parser.add_argument(
        "--tokenizer", type=Path, help="folder of a tokenizer, for --data"
    )
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{machine()}, torch {torch.__version__}", flush=True)
    shape = SHAPES_HERE[options.size]
    for name in options.kinds:
        ids, queries = drawn(name, shape.vocab)
        if options.data:
            ids, queries = real(name, options.data, options.tokenizer)
        rng, lengths = np.random.default_rng(0), ids.lengths
        given = Given(
            config=config_of(shape, SPECIAL),
            of_tokens=name in ("TC", "QA"),
            ids=ids,
            labels=Ragged.of([rng.integers(0, 2, length) for length in lengths]),
            queries=queries,
            device=choose_device(options.device, options.precision),
            steps=options.steps,
            trace=options.trace,
        )
        title = f"{name}: {options.size}, {given.device.title}, {given.device.precision.name}"
        print(
            f"\n{title}, {lengths.min()} to {lengths.max()} tokens, mean {lengths.mean():.0f}",
            flush=True,
        )
        for variant in options.variants:
            ours(given, variant)
        for size in options.trainer if name != "IR" else [32]:
            reference(given, size)


if __name__ == "__main__":
    main()
