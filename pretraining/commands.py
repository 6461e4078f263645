"""Commands that prepare and do the pretraining of the study's models."""

# torch is imported only when a command has understood its options.

from __future__ import annotations

import gc
import logging
import sys
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from common.cli import MANY, shared_options
from common.errors import UserError, nearest, path_hint
from common.manifest import MANIFEST, outputs_folder
from common.processes import AGAIN
from common.settings import assignments, describe_settings, read_settings
from common.tables import PRINTED, Grid, TableDocument, write
from pretraining.data.shard_folder import others_in
from pretraining.data.shard_manifest import ShardSettings
from pretraining.models import Model, arm_of
from pretraining.names import ModelName
from pretraining.plan.config import TrainingConfig
from pretraining.plan.devices import H100, device_of
from pretraining.plan.study_plan import Study, load_study, targets_of

if TYPE_CHECKING:
    from pretraining.adapt import Adaptation
    from pretraining.starts import Start

log = logging.getLogger(__name__)

_STUDY = "the study and its settings"


@shared_options(_STUDY)
@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The study that a command is about."""

    study: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """a study of your own (TOML); default: the paper's"""


@shared_options(_STUDY)
@dataclass(frozen=True, kw_only=True)
class ConfigOptions(StudyOptions):
    """The study, and settings of its own for one command."""

    set_: Annotated[
        tuple[str, ...], MANY, Parameter(name="--set", metavar="KEY=VALUE")
    ] = ()
    """change a setting, such as seed=1 (may be repeated); `clm-or-mlm settings` lists all"""

    def config(self, study: Study) -> TrainingConfig:
        """Return the study's settings with those of `--set` in their place."""
        # Not typed: words of the command line are texts, which are converted to numbers where a setting is
        # one.
        return read_settings(
            TrainingConfig,
            assignments(self.set_),
            "--set",
            base=study.config,
            typed=False,
        )


def models(
    *,
    study: StudyOptions = StudyOptions(),
    format: Annotated[str, Parameter(choices=PRINTED)] = "text",
) -> None:
    """List the models of the study, by name, with what they are trained on.

    examples:
      clm-or-mlm models
      clm-or-mlm models --study mine.toml

    Args:
        format: output format
    """
    import pandas as pd  # imported here, since training does not need it

    chosen = load_study(study.study)
    head = ["model", "size", "trained_on", "steps", "kind"]
    # The same rows twice: for programs (CSV, JSON) with steps as numbers, and as texts with 42,000 for 42000.
    rows = []
    texts = [("model", "size", "trained on", "steps", "kind")]
    for item in chosen.models.values():
        label = item.label()
        rows.append((item.name, item.size, label, item.steps, item.kind))
        texts.append((item.name, item.size, label, f"{item.steps:,}", item.kind))

    records = pd.DataFrame(rows, columns=head)
    # Column 3, the steps, is aligned on the right, as numbers are.
    document = TableDocument(body=[Grid(texts, numbers={3})], records=records)
    write(document, format, None)  # to standard output


def warn_of_a_slip(study: Study, model: Model) -> None:
    """Warn of a model that the study does not list, since its name may be misspelt.

    It is trained all the same: any name of the scheme says how. A study that lists no models has no warnings.
    """
    name_without_seed, _ = arm_of(model.name)
    if study.models and name_without_seed not in study.models:
        # Only a listed name that is very close is suggested, since the name that was given is valid.
        slip = nearest(model.name, study.models, at_least=0.9)
        log.warning(
            "%s is not listed in the study %r; going by its name%s",
            model.name,
            study.name,
            slip,
        )


def settings(*words: str, study: ConfigOptions = ConfigOptions()) -> None:
    """Print the settings of `train`, each with its value and its meaning.

    Model size, objectives, masking ratio and steps are not settings; they are in the model's name.

    examples:
      clm-or-mlm settings --set global_batch=96
      clm-or-mlm settings gradient norm

    Args:
        words: print only settings whose name or meaning contains all of these words
    """
    text = describe_settings(study.config(load_study(study.study)), words)
    if not text:
        raise UserError(
            f"no setting matches {' '.join(words)!r}; `clm-or-mlm settings` lists all; model size, objectives, "
            "masking ratio and steps are in the model's name, such as 610m-mlm40-42k"
        )
    sys.stdout.write(text)


def shards(
    *,
    source: Annotated[tuple[str, ...], MANY, Parameter(metavar="SOURCE")],
    tokenizer: Annotated[str, Parameter(metavar="ID_OR_PATH")],
    out: Annotated[Path, Parameter(metavar="DIR")],
    begin_of_text: str | None = None,
    end_of_text: str | None = None,
    kind: str | None = None,
    workers: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    part: str | None = None,
    as_llama3: Annotated[bool, Parameter(negative="")] = False,
    settings: ShardSettings = ShardSettings(),
) -> None:
    """Convert a source's documents to training shards in MosaicML's streaming format, compressed with zstd.

    example: clm-or-mlm shards --source 'documents/*.jsonl.zst' --tokenizer tokenizer/ --out shards/

    Args:
        source: files (Parquet, JSON lines, text), folders, patterns, or hf:OWNER/NAME[:CONFIG]
        tokenizer: folder, tokenizer.json, tiktoken file or Hugging Face id
        out: output folder for the shards
        begin_of_text: token that begins a text (default: as the tokenizer's files say)
        end_of_text: token that ends a text (default: as the tokenizer's files say)
        kind: how files of no known suffix are read: txt, jsonl or parquet (default: they are left out)
        workers: tokenising threads (default: one per core); their number does not change the shards
        part: such as 3/8: tokenise every eighth file from the third on, no more
        as_llama3: read a tiktoken file of other ranks with Llama 3's split and special tokens
    """
    from pretraining.data.build_shards import build

    build(
        source,
        tokenizer,
        out,
        settings,
        begin=begin_of_text,
        end=end_of_text,
        kind=kind,
        workers=workers,
        part=part,
        as_llama3=as_llama3,
    )


def tokenizer(
    *,
    out: Annotated[Path, Parameter(metavar="DIR")],
    convert: Annotated[str | None, Parameter(metavar="ID_OR_PATH")] = None,
    train: Annotated[tuple[str, ...], MANY, Parameter(metavar="SOURCE")] = (),
    vocab: int = 4096,
    documents: Annotated[int, Parameter(validator=Number(gte=1))] = 2000,
    text_field: str = "text",
    kind: str | None = None,
    begin_of_text: str | None = None,
    end_of_text: str | None = None,
    as_llama3: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Convert or train a tokenizer and save it as a Hugging Face tokenizer folder.

    examples:
      clm-or-mlm tokenizer --convert tokenizer.model --out tokenizer/
      clm-or-mlm tokenizer --train documents.jsonl --vocab 2048 --out tokenizer/

    Args:
        out: output folder
        convert: convert a tokenizer.json, or a tiktoken file such as Llama 3's
        train: train a byte-level BPE on these documents
        vocab: size of the trained vocabulary, at least 259
        documents: maximum number of documents to train the tokenizer on
        text_field: column or key of the text
        kind: how files of no known suffix are read: txt, jsonl or parquet (default: they are left out)
        begin_of_text: token that begins a text, of a converted one (default: as its files say)
        end_of_text: token that ends a text, of a converted one (default: as its files say)
        as_llama3: convert a tiktoken file of other ranks with Llama 3's split and special tokens
    """
    # Neither is given, or both are.
    if (convert is None) == (not train):
        raise UserError("give either --convert or --train")
    from pretraining.data.corpus import open_documents
    from pretraining.data.tokenizer import load_tokenizer, train_tokenizer

    if convert is not None:
        result = load_tokenizer(
            convert, begin=begin_of_text, end=end_of_text, as_llama3=as_llama3
        )
    else:
        source = open_documents(train, text_field, kind=kind)
        # The option `documents` is how many of the source's documents are read.
        first_documents = islice(source.documents(), documents)
        texts = (document.text for document in first_documents)
        result = train_tokenizer(texts, vocab)

    # The files move from this temporary folder to `out` when all are written.
    with outputs_folder(out) as temporary_folder:
        result.save(temporary_folder)
    sys.stdout.write(f"{out}: {result.vocab_size} ids, SHA-256 {result.sha256}\n")


def train(
    model: Annotated[ModelName, Parameter(metavar="MODEL")],
    /,
    *,
    data: Annotated[str, Parameter(metavar="DIR_OR_URL")],
    out: Annotated[Path, Parameter(metavar="DIR")],
    callback: Annotated[tuple[str, ...], MANY, Parameter(metavar="MODULE:CLASS")] = (),
    stop_file: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    study: ConfigOptions = ConfigOptions(),
) -> int | None:
    """Pretrain a model of the study, or a single stage of its plan, such as a trunk.

    A name is SIZE, then OBJECTIVE-STEPS for each stage: 610m-clm-10k-mlm40-42k is trained with CLM to step 10,000, then
    with MLM at a masking ratio of 40 % to step 42,000. To use several GPUs, start the command with srun, torchrun or
    composer. Rerun the command to resume from the last checkpoint. NAME-s2 is NAME pretrained again with another seed.
    After Ctrl-C, SIGTERM or SIGUSR1, training finishes the current step and saves a checkpoint; after SIGTERM or
    SIGUSR1, the exit code is 75.

    example: clm-or-mlm train 610m-clm-10k-mlm40-42k --data shards/ --out pretrained/

    Args:
        model: a model such as 610m-clm-10k-mlm40-42k, or a trunk such as 610m-clm
        data: folder of the shards, or a URL: s3://, gs://, hf://datasets/OWNER/NAME/DIR
        out: output folder for checkpoints, logs and models
        callback: your own callback or logger for Composer's Trainer (may be repeated)
        stop_file: save a checkpoint and exit with code 75 once this file exists
    """
    chosen = load_study(study.study)
    config = study.config(chosen)
    # The callbacks of the settings, and those of --callback after them. Where the settings have none, the
    # text begins with a comma, and training passes over the empty name before it.
    callbacks = ",".join([config.record.callbacks, *callback])
    record = replace(config.record, callbacks=callbacks)
    targets = targets_of(model, chosen)
    if targets.is_model:
        warn_of_a_slip(chosen, targets.model)
    _check_shards(data, "")

    # A model has its start as a text only, a folder or hub id. Training takes the opened start.
    if targets.model.start:
        targets = replace(targets, start=_open_start(targets.model.start, data, out))

    # This module imports torch, which takes seconds. It is imported only here, so that a misspelt word is reported
    # before that. Garbage collection would take a fifth of the import's time, so it is off meanwhile.
    gc.disable()
    try:
        from pretraining.training import train as training
    finally:
        gc.enable()

    is_finished = training.train(
        targets,
        data=data,
        out=out,
        config=replace(config, record=record),
        stop_file=stop_file,
    )
    # Training that was asked to stop is not finished: the exit code (75) asks for a new start of the command.
    return None if is_finished else AGAIN


def _check_shards(data: str, options: str) -> None:
    """Refuse a folder without shards. What an address holds is checked later, when training opens it.

    Args:
        data: a folder or an address.
        options: the options of the command `shards` that the message suggests, beginning with a blank; may be empty.
    """
    if "://" in data or Path(data, MANIFEST).is_file():
        return
    # The rest of a sentence that begins with the folder, such as "holds other files (NAME)"; empty without
    # such files.
    holds_others = others_in(Path(data))
    if holds_others:
        raise UserError(
            f"{data} {holds_others}, not shards of this package; write them into another folder with `clm-or-mlm "
            f"shards{options} --out DIR`"
        )

    # The end of a sentence that names a folder of shards which may have been meant; empty where there is none.
    hint = path_hint(Path(data), MANIFEST)
    raise UserError(
        f"{data}: no shards here; write them with `clm-or-mlm shards{options} --out {data}`{hint}"
    )


def _open_start(text: str, data: str, out: Path, revision: str | None = None) -> Start:
    """Return the model to start from, all its small files read.

    A fault of the model is reported here, before torch is imported. A stage's checkpoint, which holds no tokenizer, is
    first written as a model into the folder `starts` of the output, with the tokenizer of the shards.

    Args:
        text: folder or hub id of a model, or folder of a stage's checkpoint.
        data: folder or address of the shards.
        out: output folder of the training.
        revision: branch, tag or commit of a hub id.
    """
    from pretraining.starts import is_checkpoint, start_of

    if is_checkpoint(text):
        from pretraining.training.train import checkpoint_as_model

        text = str(checkpoint_as_model(text, data, out))
    return start_of(text, revision=revision)


def export(
    checkpoint: Annotated[Path, Parameter(metavar="CHECKPOINT")],
    /,
    *,
    out: Annotated[Path, Parameter(metavar="DIR")],
    data: Annotated[str | None, Parameter(metavar="DIR_OR_URL")] = None,
    start: Annotated[str | None, Parameter(metavar="START")] = None,
    as_: Annotated[str | None, Parameter(name="--as", choices=("llama",))] = None,
) -> None:
    """Export a checkpoint as a Hugging Face model folder, or an exported model in the class that servers know.

    examples:
      clm-or-mlm pretraining export pretrained/stages/610m-clm/step-00010000 --data shards/ --out encoder/
      clm-or-mlm pretraining export pretrained/models/610m-mlm40-42k --as llama --out twin/

    Args:
        checkpoint: a step-... folder of a stage; with --as, an exported model
        out: output folder
        data: the shards that the checkpoint was trained on; their tokenizer is exported with it
        start: what the checkpoint was started from, if not from random weights
        as_: llama: the same encoder in transformers' Llama class, with the same outputs
    """
    if as_ is not None:
        from pretraining.model.start_folder import export_llama

        export_llama(checkpoint, out)
        return

    if data is None:
        raise UserError("give --data, the shards that the checkpoint was trained on")
    from pretraining.starts import start_of
    from pretraining.training.train import export_checkpoint

    opened = None if start is None else start_of(start)
    export_checkpoint(checkpoint, data, out, start=opened)


def adapt(
    start: Annotated[str, Parameter(metavar="START")],
    /,
    *,
    data: Annotated[str, Parameter(metavar="DIR_OR_URL")],
    out: Annotated[Path, Parameter(metavar="DIR")],
    objective: str = "mlm30",
    steps: int | None = None,
    tokens: float | None = None,
    merge: float | None = None,
    repeat_text: bool = False,
    revision: str | None = None,
    stop_file: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    set_: Annotated[
        tuple[str, ...], MANY, Parameter(name="--set", metavar="KEY=VALUE")
    ] = (),
) -> int | None:
    """Make an encoder of an existing model: continue its pretraining, in both directions, and export it.

    The start is a decoder (Llama, Mistral, Qwen, Gemma, OLMo, GPT-2, ...), an encoder (BERT, RoBERTa, ModernBERT, ...),
    a model of the paper's authors, or a model or checkpoint of this package. Only its weights are taken. Every setting
    that is chosen for it is printed with its reason. Rerun the command to resume; docs/build-an-encoder.md says more.

    examples:
      clm-or-mlm shards --source text.txt --tokenizer smollm2/ --out shards/
      clm-or-mlm adapt smollm2/ --data shards/ --tokens 1e9 --out encoder/
      clm-or-mlm check encoder/models/smollm2-mlm30-3815

    Args:
        start: a folder with config.json, safetensors and tokenizer.json, a step-... folder of a stage, or a Hugging
            Face id
        data: folder of the shards, or a URL; written with the start's tokenizer
        out: output folder for checkpoints, logs and the encoder
        objective: mlm or mntp (predicts from the token before), with a masking ratio in percent
        steps: optimiser steps (give these or --tokens)
        tokens: tokens to train on
        merge: also write the average of start and encoder, with this share of the start (0 to 1)
        repeat_text: train on the text more than 20 times over, where steps or tokens say so
        revision: branch, tag or commit of a Hugging Face id
        stop_file: save a checkpoint and exit with code 75 once this file exists
        set_: change a setting, such as global_batch=12 (may be repeated); `clm-or-mlm settings` lists all
    """
    if merge is not None and not 0 < merge < 1:
        raise UserError(f"--merge must be between 0 and 1, not {merge}")
    _check_shards(data, f" --source TEXTS --tokenizer {start}")
    opened = _open_start(start, data, out, revision)
    from pretraining.adapt import Adaptation
    from pretraining.data.remote_shards import find_shards
    from pretraining.data.shard_manifest import load_manifest

    # What to train: the settings are chosen, and too little text for so many steps is refused.
    adaptation = Adaptation(
        start=opened, objective=objective, steps=steps, tokens=tokens, changes=set_
    )
    if not repeat_text:
        # `folder` is a temporary copy if the shards are at an address, and is removed with `_remote_shards`.
        folder, _remote_shards = find_shards(data)
        manifest = load_manifest(folder)
        adaptation.check_passes(manifest["splits"]["train"]["tokens"], data)

    # As in `train`: torch is imported late, and without garbage collection, which makes it faster.
    gc.disable()
    try:
        from pretraining.model.encoder_folder import refuse_other_folder
        from pretraining.model.start_folder import merged_folder, write_merged
        from pretraining.training import train as training
    finally:
        gc.enable()

    model = adaptation.targets.model
    model_folder = out / "models" / model.name
    if merge is not None:
        # Refused before the training rather than after it.
        refuse_other_folder(merged_folder(model_folder, merge))

    _log_costs_and_choices(adaptation)

    # Train and export the encoder.
    is_finished = training.train(
        adaptation.targets,
        data=data,
        out=out,
        config=adaptation.config,
        stop_file=stop_file,
    )
    if not is_finished:
        # Asked to stop: there is no encoder yet. The exit code (75) asks for a new start of the command.
        return AGAIN

    # Say what validation gained, and write the average with the start.
    from pretraining.training.log import LOG, read_log, validation_gain

    # The list takes faults: a damaged line of the log is left out, and not refused after the training.
    rows = read_log(model_folder / LOG, [])
    gain = validation_gain(rows)
    log.info("validation %s; an embedder needs pairs next", gain or "was not done")
    if merge is not None:
        merged = write_merged(adaptation.start, model_folder, merge)
        sys.stdout.write(f"{merged}\n")

    sys.stdout.write(f"{model_folder}\n")
    return None


def _log_costs_and_choices(adaptation: Adaptation) -> None:
    """Log what a training costs, on this machine's GPU and on an H100, and why its settings were chosen."""
    # At the head of the module it would slow every command. `adapt` has loaded it by now.
    import torch

    # Of these costs only steps, tokens and FLOPs are printed, which are the same on each device. The hours
    # are estimated below, for each GPU in the passes that fit into its memory.
    model, costs = adaptation.targets.model, adaptation.targets.plan.costs()
    # By name, so that an H100 is not listed twice where this machine's GPU is one.
    gpus = {H100.name: H100}
    if torch.cuda.is_available():
        own_gpu = device_of(torch.cuda.get_device_name())
        if own_gpu is not None:
            gpus = {own_gpu.name: own_gpu, H100.name: H100}

    hours = []
    for gpu in gpus.values():
        time = adaptation.plan_on(gpu).costs(device=gpu).gpu_hours
        hours.append(f"{time:.2g} hours of one {gpu.name}")

    # The FLOPs are counted as for MFU, and not by Hoffmann et al. (`pretraining.plan.flops`).
    log.info(
        "%s: %s updates of %s tokens, %s tokens in all, %.2g FLOPs, %s",
        model.name,
        f"{costs.steps:,}",
        f"{costs.tokens / costs.steps:,.0f}",
        f"{costs.tokens:,.0f}",
        costs.flops["model"],
        ", ".join(hours),
    )
    mask, licence = adaptation.start.mask, adaptation.start.licence

    # The third origin, `was TOKEN`, is printed as it is.
    origins = {"own": "its own", "new": "a new row at the mean of the others"}
    log.info(
        "mask token %s, id %d, %s; licence of the start: %s",
        mask.token,
        mask.id,
        origins.get(mask.origin, mask.origin),
        licence or "unknown",
    )
    for reason in adaptation.advice.values():
        log.info("%s", reason)
