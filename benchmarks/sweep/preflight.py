"""Checks of model, data and memory that `run` and its `--dry-run` make before anything is computed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benchmarks.datasets.local_dataset import LocalDataset, load_dataset
from benchmarks.datasets.schema import FORMS
from benchmarks.finetuning.device import (
    Precision,
    choose_device,
    choose_kind,
    choose_precision,
)
from benchmarks.finetuning.encoders import Encoder, LoadedModel, load_model
from benchmarks.finetuning.heads import POOLINGS, Pooling
from benchmarks.finetuning.tokenization import (
    encode_as_written,
    end_of_text,
    texts_of,
)
from benchmarks.protocol import HeadName
from benchmarks.sweep.keep import check_keeping
from benchmarks.sweep.request import RunRequest
from benchmarks.sweep.run_jobs import compared_jobs
from benchmarks.sweep.window import window_cuts
from benchmarks.tasks.base import Setting
from benchmarks.tasks.families import (
    family_of,
    fine_tuning_steps,
    new_model,
)
from common.errors import UserError, first_line
from common.progress import progress
from pretraining.plan.devices import H100

_PASSES, _PASS_TOKENS = 4, 2_048
"""Passes that are timed for an estimate of hours, and the most tokens of one: few enough for a large model on a CPU."""
_LONG_PASS = 5.0
"""Seconds of a pass that is not repeated once more."""
_SAMPLE = 64
"""Training rows by which the mean length of all is estimated."""
_SHARE = 0.15
"""Share of a GPU's peak FLOP/s that fine-tuning on short texts reaches."""


def preflight(request: RunRequest) -> tuple[LoadedModel, Precision, list[LocalDataset]]:
    """Load the model and the datasets of a request, and check on the CPU that the model can read the datasets.

    Returns:
        The model, the precision of the runs, and the datasets that they are scored on.

    Raises:
        UserError: the first thing that a run would stumble over.
    """
    precision = choose_precision(request.device, request.precision)
    # `request.sources` also names datasets that are only trained on; `request.datasets` has those to score.
    sources = progress(request.sources, "checking data", unit="dataset")
    sets = {name: load_dataset(request.data, request.known[name]) for name in sources}
    for dataset in sets.values():
        check_labels(dataset)
    loaded = requested_model(request)
    check_special_tokens(loaded)

    # One dataset of each form is tried: to a model, datasets of one form differ only in the number of labels.
    one_of_form = {sets[name].dataset.form: sets[name] for name in request.datasets}
    for dataset in one_of_form.values():
        pooling = POOLINGS[request.reading(dataset.name).pooling]
        dry_run(dataset, loaded, precision, pooling, request.head)

    # Whether the model can read every example: a question, for one, must leave room for its context.
    for dataset in sets.values():
        family_of(dataset.dataset).check(dataset, loaded)
    if request.keep == "best":
        check_keeping(request, loaded)
    return loaded, precision, [sets[name] for name in request.datasets]


def requested_model(request: RunRequest) -> LoadedModel:
    """Return a request's model, on the CPU."""
    return load_model(
        request.model,
        revision=request.revision,
        trust_remote_code=request.trust_remote_code,
        max_length=request.fine_tuning.max_length,
    )


def check_labels(dataset: LocalDataset) -> None:
    """Refuse a dataset whose number of labels is not the number of the head's outputs."""
    # The definition, whose `labels` is a number; `dataset.labels` are the names in the data's manifest.
    entry = dataset.dataset
    number = len(dataset.labels)
    # `label` is the column with the labels of a form's examples; None for forms whose examples have none.
    if FORMS[entry.form].label is not None and number != entry.labels:
        names = ", ".join(dataset.labels)
        raise UserError(
            f"{dataset.name} has {number} labels ({names}), but the protocol's "
            f"head has {entry.labels} classes; correct its definition or import the dataset again"
        )


def check_special_tokens(loaded: LoadedModel) -> None:
    """Check that the end of text is one token of the vocabulary, and that padding has a row.

    Raises:
        UserError: texts would end in pieces, in the unknown token, or in an id that the model has no row for.
    """
    rows = loaded.encoder.base.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    # That of retrieval may have another end of text, as it lacks the special tokens of the config (D20).
    for tokenizer in (loaded.tokenizer, loaded.retrieval_tokenizer):
        end = end_of_text(tokenizer)
        # As in fine-tuning, the end of text stands in the text: it has to be read as one token.
        ids = tokenizer(f"a{end}", add_special_tokens=False)["input_ids"]
        end_id = tokenizer.convert_tokens_to_ids(end)

        # The id of a token that the vocabulary lacks is that of the unknown token.
        is_unknown = end_id == tokenizer.unk_token_id and end != tokenizer.unk_token
        if ids[-1] != end_id or is_unknown:
            raise UserError(
                f"{loaded.source}: the end-of-text token {end!r} is not a single token of the vocabulary, so texts "
                "would end in pieces of it; add it to tokenizer.json as a special token"
            )

        if max(end_id, tokenizer.pad_token_id) >= rows:
            raise UserError(
                f"{loaded.source}: the end-of-text or padding id is beyond the {rows} rows of the embedding; "
                "set eos_token and pad_token in tokenizer_config.json to tokens that the model knows"
            )


@torch.no_grad()
def dry_run(
    dataset: LocalDataset,
    loaded: LoadedModel,
    precision: Precision,
    pooling: Pooling,
    head: HeadName,
) -> int:
    """Put an input of the largest length that a run may have through the model with the dataset's head.

    A text of the evaluation data is repeated up to that length and computed on the CPU in the precision of the run.
    Afterwards the weights are as they were.

    Args:
        dataset: the dataset that is evaluated.
        loaded: the model.
        precision: the run's precision.
        pooling: the run's pooling.
        head: whose head is put on the encoder.

    Returns:
        The length of the input, in tokens.

    Raises:
        UserError: the model cannot read so many tokens, or its outputs are not finite.
    """
    # The input: the first text of validation (of retrieval, its first query), made as long as inputs can be.
    first_split = next(iter(dataset.evaluated().values()))
    first_row = first_split.slice(0, 1).to_pylist()[0]
    text = texts_of(dataset.dataset, first_row)[0]
    limits = loaded.limits
    length = limits.labelled

    # Retrieval, which has no labels, has limits of its own in fine-tuning and in the paper's evaluation.
    if dataset.dataset.labels is None:
        length = max(limits.retrieval, limits.paper_retrieval)
    # An empty text has no tokens to repeat, so a letter stands for it.
    tokens = loaded.tokenizer(text or "a", add_special_tokens=False)["input_ids"]

    # The tokenizer may know nothing of a text, and give no token.
    tokens = tokens or [loaded.tokenizer.pad_token_id]
    # np.resize repeats the tokens up to the length.
    ids = torch.from_numpy(np.resize(np.array(tokens, dtype=np.int64), (1, length)))

    # The pass, after which the model is as it was.
    model = new_model(dataset.dataset, loaded.encoder, pooling, head)
    was_training = model.training
    loaded_weights = {
        name: parameter.data for name, parameter in model.named_parameters()
    }
    try:
        # The parameters get converted copies, and below their loaded tensors again.
        for parameter in model.parameters():
            parameter.data = parameter.data.to(precision.weights)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast):
            outputs = model.eval()(ids, torch.tensor([length]))
    # The code of a class may raise anything.
    except Exception as error:
        raise UserError(
            f"{loaded.source} cannot read {length} tokens, the input limit for {dataset.name}: "
            f"{first_line(error)}; lower --max-length, or set max_position_embeddings in config.json and "
            "model_max_length in tokenizer_config.json to the model's limit"
        ) from None
    finally:
        for name, parameter in model.named_parameters():
            parameter.data = loaded_weights[name]
        model.train(was_training)

    if not bool(torch.isfinite(outputs).all()):
        raise UserError(
            f"the outputs of {loaded.source} for {length} tokens are not finite in {precision.name}; try --precision "
            "mixed or fp32"
        )

    return length


def run_bytes(
    encoder: Encoder, precision: Precision, positions: int
) -> tuple[int, int]:
    """Return the bytes that a run keeps in memory: those for the model, and those for the activations of a pass.

    The model's are its weights, the copy that they are reset from, gradients, and AdamW's two moments. Activations are
    what a forward pass saves for the backward pass; they are counted in a small pass on the CPU.

    Args:
        encoder: the model.
        precision: the run's precision.
        positions: positions of the largest pass of a run.
    """
    parameters = [*encoder.parameters()]
    # Addresses in memory, by which a saved tensor is known to be a weight.
    weights = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    # Bytes of each saved storage by its address: several tensors may be views of one storage.
    saved: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        """Count a tensor that torch saves for the backward pass, unless it is a weight; return it unchanged."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    length = 64
    ids = torch.zeros((1, length), dtype=torch.long)
    # The list keeps the output, and with it all saved tensors, alive: else the address of a freed one could come again
    # and two would count as one.
    outputs = []
    with (
        torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast),
    ):
        outputs.append(encoder(ids, torch.tensor([length])))

    numbers = sum(parameter.numel() for parameter in parameters)
    # Five: weights, their copy, gradients and AdamW's two moments.
    of_model = 5 * numbers * precision.weights.itemsize

    # The pass had `length` positions: the bytes of one, times the positions of a run's largest pass.
    return of_model, sum(saved.values()) // length * positions


def _hours(dataset: LocalDataset, setting: Setting, request: RunRequest) -> str:
    """Return in words how long all runs on a retrieval set of one's own take, estimated from a pass of a few texts."""
    rows = dataset.train.slice(0, _SAMPLE).to_pylist()
    texts: list[str] = []
    for row in rows:
        texts += texts_of(dataset.dataset, row, setting.reading)
    ids = encode_as_written(setting.own_tokenizer, texts, setting.own_longest)
    tokens_per_step = ids.lengths.sum() / len(rows) * request.fine_tuning.batch
    steps = fine_tuning_steps(dataset, request.fine_tuning)
    tokens = float(tokens_per_step * steps * len(request.lrs) * len(request.seeds))
    encoder = setting.loaded.encoder
    # The longest of the sample, which need little padding: fine-tuning reads texts of one length together.
    longest_first = np.argsort(-ids.lengths, kind="stable")
    tokens_up_to = np.cumsum(ids.lengths[longest_first])
    count = int(np.searchsorted(tokens_up_to, _PASS_TOKENS, side="right"))
    few = longest_first[: max(1, count)]

    # Padded with 0: any id will do, as the lengths tell what is real. The other 0 is the smallest width: the
    # longest of these texts decides the width.
    padded = torch.from_numpy(ids.padded(few, 0, 0)).long()
    lengths = torch.from_numpy(ids.lengths[few])
    # The fastest pass counts: the first one is slower than those that follow, and other work of the machine comes
    # and goes.
    seconds = math.inf
    for number in range(_PASSES):
        begin = time.perf_counter()
        encoder(padded, lengths).sum().backward()
        taken = time.perf_counter() - begin
        seconds = min(seconds, taken)
        # Of a long pass two are enough.
        if number > 0 and taken > _LONG_PASS:
            break

    seconds_per_token = seconds / int(lengths.sum())

    encoder.zero_grad(set_to_none=True)
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    on_cpu = seconds_per_token * tokens / 3600

    # 6: two operations for each parameter and token forward, four backward.
    on_gpu = 6 * parameters * tokens / (_SHARE * H100.peak) / 3600
    return (
        f"a step reads {tokens_per_step:,.0f} tokens; all runs take about {on_cpu:.2g} hours of this CPU as it "
        f"is now, or {on_gpu:.2g} of an H100, evaluation apart"
    )


def validate(request: RunRequest) -> Iterator[str]:
    """Check everything that a run needs, and yield lines on the model, the memory of a run, and each dataset.

    Raises:
        UserError: the first thing that a run would stumble over.
    """
    # What is asked for can be done: everything is tried before the first line.
    runs_left = sum(len(job.pending()) for job in compared_jobs(request))
    loaded, precision, sets = preflight(request)
    positions = request.positions or choose_kind(request.device).positions
    parameters = sum(p.numel() for p in loaded.encoder.parameters())
    model_bytes, activation_bytes = run_bytes(loaded.encoder, precision, positions)
    model_size = f"{model_bytes / 2**30:.2f} GiB"
    activations_size = f"{activation_bytes / 2**30:.2f} GiB"
    yield (
        f"model {request.name}: {type(loaded.encoder.base).__name__}, {parameters / 1e6:,.1f}M parameters, "
        f"{loaded.encoder.description}, inputs up to {loaded.limits.labelled} tokens"
    )
    yield (
        f"memory of each parallel run (--workers): {model_size} for weights, gradients and optimiser in "
        f"{precision.name}, {activations_size} for the activations of {positions:,} token positions (--positions)"
    )
    # The model is on the CPU in float32, as it was loaded.
    device = choose_device("cpu", "fp32")
    setting = Setting(loaded=loaded, device=device, fine_tuning=request.fine_tuning)
    for dataset in sets:
        if "corpus" in dataset.tables:
            yield f"{dataset.name}: {dataset.corpus.num_rows:,} documents are searched for each query"
        as_read = setting.reading_as(request.reading(dataset.name))
        cut = window_cuts(dataset, as_read)
        if cut:
            yield f"{dataset.name}: {cut}"
        if dataset.dataset.is_own_retrieval and runs_left:
            yield f"{dataset.name}: {_hours(dataset, as_read, request)}"

    if request.keep == "best":
        yield f"kept: the weights of the best run of each dataset, in {request.store / 'encoders'}"
    yield f"{runs_left} runs to do; everything they need is available"
