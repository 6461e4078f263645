"""Training a model of the study: its stages one after the other, then its export as a Hugging Face folder.

A stage is one run of the optimizer with one objective, such as `610m-clm`. Models share stages: one that is already
trained, such as a trunk (a stage before its learning rate falls), is reused. Without a start, which is an existing
model to take weights from (`pretraining.starts`), weights are random.

The loop is read from top to bottom in seven files:

    train            the stages of a model, one after the other; then the finished model
    context          what the stages share, where each resumes, and what a checkpoint must agree with
    stage            one stage: Composer's trainer, and what is done before and after each update
    dataloader       the batch of a step, for this rank
    objectives       what that batch predicts, and its loss
    composer_parts   model, batches and gradients in the form in which Composer takes them
    optimizer        AdamW, its state in a checkpoint, and the rate of a step

Next to them: `validation` measures a stage, `checkpoints`, `log` and `log_rows` write what is kept, `ranks` says
which process of the job this is, `watchdog` which process hangs or is slow, `pass_memory` how much memory a
forward and backward pass of another library's class takes.

<out>/stages/<stage>/step-<n>/   checkpoints: the newest, and those at which other stages branch off
<out>/stages/<stage>/log.jsonl   its log; TensorBoard's files are next to it
<out>/models/<model>/            the finished model as a Hugging Face folder, and its whole log

A model has the same bytes wherever and whenever it is trained (on one kind of machine); command and machine are
in its `provenance.json`.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError
from common.files import sha256_bytes, sha256_file, write_text
from common.locks import try_lease, wait_for_lease
from common.manifest import MANIFEST
from common.processes import AGAIN
from common.provenance import provenance
from common.settings import read_settings
from pretraining.data.remote_shards import find_shards
from pretraining.data.shard_manifest import check_tokenizer, load_manifest
from pretraining.model.encoder_folder import PACKAGES, check_model, refuse_other_folder
from pretraining.model.start_folder import export_trained, refuse_other_embedding
from pretraining.model.start_weights import data_config, export_config, is_eurobert
from pretraining.models import OBJECTIVES, PREDICTION_SHIFT
from pretraining.paper_settings import Shape
from pretraining.plan.config import TrainingConfig
from pretraining.plan.study_plan import PlannedStage, Targets
from pretraining.starts import Start
from pretraining.training import checkpoints
from pretraining.training.context import TrainingContext
from pretraining.training.log import LOG, log_text, read_log, validation_gain
from pretraining.training.ranks import Ranks
from pretraining.training.stage import EARLIER_PRECISION, StageTraining

logger = logging.getLogger(__name__)

_SMALL = 1e7
"""Number of parameters up to which a stage leaves so little in a CPU's memory that freeing it is not worth a third of
a second."""


def train(
    targets: Targets,
    *,
    data: Path | str,
    out: Path,
    config: TrainingConfig | None = None,
    stop_file: Path | None = None,
) -> bool:
    """Train a model, or one stage of the plan such as the trunk `610m-clm`; what is trained already is reused.

    Args:
        targets: what `pretraining.plan.study_plan.targets_of` returns for the name of a model or stage; a name that
            ends in `-s2` is trained with the settings' seed plus 2.
        data: shards as `clm-or-mlm shards` writes them, a folder or an address (`remote_shards`).
        out: folder of checkpoints, logs and models, shared by the models of a study.
        config: settings in place of the study's.
        stop_file: once this file exists, training saves and ends, as after a signal; for where no signal arrives.

    Returns:
        True when all is trained; False when training was asked to stop, and the same call resumes it.

    Raises:
        UserError: whatever the user can correct, in one sentence.
    """
    if stop_file is not None and stop_file.exists():
        raise UserError(
            f"{stop_file} already exists and would stop training at once; remove it first"
        )

    # What this call shares with its stages.
    model, start = targets.model, targets.start
    assert bool(model.start) == (start is not None), (
        "a model with a start is never trained from random weights"
    )
    config = config or targets.plan.study.config
    config = replace(config, seed=config.seed + model.seed)

    # In seconds, and twice the minutes of the watchdog, which says more and should end the job first.
    ranks = Ranks.here(timeout=120 * config.machine.timeout_minutes)
    if ranks.rank:
        # Only the first process logs progress; the others only warn.
        logging.getLogger("pretraining").setLevel(logging.WARNING)

    context = TrainingContext(
        targets=targets,
        config=config,
        source=data,
        out=out,
        ranks=ranks,
        stop_file=stop_file,
    )

    # Refused before any update: a model that could not be exported after the last one.
    model_folder = out / "models" / model.name
    last, last_step = targets.stages[-1]
    ends_causal = OBJECTIVES[last.objective].is_causal

    # `is_model`: a whole model is trained, not only one stage, which is not exported.
    # Of a start of another class only encoders are exported, and after CLM a model is none.
    if targets.is_model and ends_causal and not is_eurobert(start):
        raise UserError(
            f"{model.name} ends in {last.objective}, but its start is exported as an encoder; end with MLM"
        )

    if targets.is_model:
        refuse_other_folder(model_folder)
        check_tokenizer(context.data_folder, context.data.manifest)

    # A finished model is checked before it is left as it is: a damaged one is refused. Every process looks:
    # all of them have to return here, or none.
    if targets.is_model and _is_finished(context, last, last_step, model_folder):
        logger.info("%s: nothing to do; the model is complete", model_folder)
        return True

    # The stages, and then the model's folder.
    for stage, target in targets.stages:
        if not _train_stage(context, stage, target):
            return False

    if targets.is_model and ranks.rank == 0:
        _export(context, model_folder)
    # The other processes wait here until the first one has written the model.
    ranks.barrier()
    return True


def _is_finished(
    context: TrainingContext, last: PlannedStage, step: int, model_folder: Path
) -> bool:
    """Return whether the model's folder is complete and undamaged, and made from what this call would make it from.

    Args:
        context: study, settings and data of this call.
        last: the model's last stage.
        step: the model's last step.
        model_folder: where the model is, or will be.

    Raises:
        UserError: the folder is damaged, or the model was made from something else.
    """
    remedy = "remove its folder and run the same command to write it again from its last checkpoint"
    manifest = check_model(model_folder, remedy)
    if manifest is None:
        # A manifest that `check_model` takes for another tool's, since it has no seal.
        if (model_folder / MANIFEST).is_file():
            raise UserError(
                f"{model_folder / MANIFEST} has no seal, so an earlier version wrote it; {remedy}"
            )
        return False

    context.check(manifest, last, step, str(model_folder))
    refuse_other_embedding(context.start, manifest, str(model_folder))
    if not (model_folder / LOG).is_file():
        return False  # without its log it is not complete; `_export` writes only that

    # The manifest's `records` hold the hashes of files that are not needed to load the model, such as the log.
    if sha256_file(model_folder / LOG) != manifest.get("records", {}).get(LOG):
        raise UserError(
            f"{model_folder / LOG} is damaged (SHA-256); remove it and run the same command to write it again"
        )

    return True


def export_checkpoint(
    checkpoint: Path, data: Path | str, out: Path, *, start: Start | None = None
) -> None:
    """Write any checkpoint of a stage as a Hugging Face folder.

    Args:
        checkpoint: a `step-...` folder of a stage.
        data: the shards that it was trained on, for their tokenizer.
        out: folder to make.
        start: the start that it was trained from; None for random weights.

    Raises:
        UserError: it is not a checkpoint, or was trained with another tokenizer than the data's, or from another start.
    """
    saved = _checkpoint_in(checkpoint)
    # For shards at an address, `folder` is a temporary copy of their small files, which is removed with `_remote`.
    folder, _remote = find_shards(data)
    state = checkpoints.load_state(saved)
    shards = load_manifest(folder)

    # Tokenizer and start must be those of the checkpoint's training. Of the start's hashes only those of the
    # weights have to agree.
    check_tokenizer(folder, shards)
    if state["tokenizer"] != shards["tokenizer"]["sha256"]:
        raise UserError(
            f"{checkpoint} was trained with a different tokenizer from the one in {data}; use its original --data"
        )

    # A checkpoint of training from random weights records no start.
    given_start = {} if start is None else start.identity
    recorded_start = state.get("start") or {}
    if given_start.get("weights") != recorded_start.get("weights"):
        what = "was trained from another model"
        if start is not None:
            what = f"was not trained from {start.text}"
        raise UserError(
            f"{checkpoint} {what}: give that to `clm-or-mlm pretraining export {checkpoint} --start MODEL` (its hashes "
            "are in state.json)"
        )

    # The weights are the same, so the hash of the tokenizer's files differs, as after a repair of them. Export with the
    # files as they are now.
    if start is not None and given_start != recorded_start:
        # Called for its check: it refuses a tokenizer that gives texts other ids than the shards have.
        data_config(start, shards["tokenizer"], str(data))
        logger.warning(
            "%s has the weights that %s was trained from, but its tokenizer's files have changed since; the export "
            "gets what they say now",
            start.text,
            checkpoint,
        )

    # What the export says of itself.
    shape = read_settings(Shape, state["shape"], str(checkpoint))
    manifest = {
        "model": f"{state['stage']} at step {state['step']}",
        "tokens_seen": state["tokens"],
        **_shift(state["objective"]),
    }
    for key, value in state.items():
        # These two describe the checkpoint's own files.
        if key not in ("files", "format"):
            manifest[key] = value

    # The folder.
    is_causal = OBJECTIVES[state["objective"]].is_causal
    config = export_config(start, shape, shards["tokenizer"], is_causal=is_causal)
    weights = checkpoints.load_weights(saved)
    tokenizer = folder / "tokenizer"
    export_trained(
        start, weights, manifest, out, config=config, tokenizer_dir=tokenizer
    )
    logger.info("%s: written", out)


def _checkpoint_in(folder: Path) -> checkpoints.Checkpoint:
    """Return the checkpoint that a `step-...` folder holds.

    Raises:
        UserError: it holds none, or an incomplete one.
    """
    for checkpoint in checkpoints.checkpoint_steps(folder.parent):
        if checkpoint.path.name == folder.name:
            return checkpoint
    raise UserError(
        f"{folder}: no checkpoint here; give a step-... folder of <out>/stages/<name>"
    )


def checkpoint_as_model(text: str, data: Path | str, out: Path) -> Path:
    """Write a stage's checkpoint as a model into `out/starts`, where other models may start from it.

    Args:
        text: path of a `step-...` folder of a stage.
        data: shards that were written with the checkpoint's tokenizer.
        out: the folder for checkpoints, logs and models, as in `train`.

    Returns:
        The model's folder.

    Raises:
        UserError: as in `export_checkpoint`.
    """
    checkpoint = Path(text).expanduser().absolute()
    folder = out / "starts" / f"{checkpoint.parent.name}-{checkpoint.name}"
    with wait_for_lease(
        out / "starts" / ".lock", f"another process is writing {folder}"
    ):
        export_checkpoint(checkpoint, data, folder)
    return folder


def _train_stage(context: TrainingContext, stage: PlannedStage, target: int) -> bool:
    """Train a stage up to a step unless that is done; return False when training was asked to stop before."""
    # First without the lock: jobs whose models share a finished trunk may all look at it at the same moment.
    if context.is_done(stage, target):
        return True
    with _only_process(context.folder(stage.name), stage.name, context.ranks):
        # Again with the lock: another job may have finished the stage in between.
        if context.is_done(stage, target):
            return True
        # Refuses a folder that is named as a checkpoint but holds other files.
        checkpoints.check_free(context.folder(stage.name))
        try:
            return StageTraining(context, stage, target).run()
        finally:
            is_cuda = context.ranks.device.type == "cuda"
            if is_cuda or context.shape.encoder_parameters > _SMALL:
                # Composer's trainer has reference cycles, which only a collection frees, and the next stage or the
                # export needs its memory.
                gc.collect()
            if is_cuda:
                torch.cuda.empty_cache()


def _export(context: TrainingContext, model_folder: Path) -> None:
    """Write the finished model and its log. If the model is there and only its log is missing, write that log."""
    model, ranks = context.targets.model, context.ranks
    stages = [stage for stage, _ in context.targets.stages]
    last = stages[-1]
    saved = checkpoints.latest(context.folder(last.name), model.steps)
    assert saved is not None and saved.step == model.steps, "every stage is trained"
    state = checkpoints.load_state(saved)
    data = context.data.manifest
    check_tokenizer(context.data_folder, data)
    # `lacks`: a phrase for each stage whose log is not complete.
    rows, lacks = _log_rows(context, stages, model.steps)
    log = log_text(rows)

    # Only the log.
    existing = check_model(model_folder)
    if existing is not None:
        # The model is finished but its log was deleted. The stages' logs replace it if they give the same bytes, whose
        # hash the model's manifest holds.
        if sha256_bytes(log.encode()) == existing.get("records", {}).get(LOG):
            write_text(model_folder / LOG, log)
        else:
            logger.warning(
                "%s is lost, and the logs of the stages do not give it back",
                model_folder / LOG,
            )

        return

    # The whole model.
    is_causal = OBJECTIVES[last.objective].is_causal
    config = export_config(
        context.start, context.shape, data["tokenizer"], is_causal=is_causal
    )

    # The machine goes only into provenance.json, so that the other files have the same bytes wherever it is trained.
    # `full` is the environment of packages in which models are trained (`requirements/full.txt`).
    origin = provenance("full", PACKAGES)
    origin["machine"] = f"{ranks.world} x {ranks.device_name}"
    manifest = _manifest(context, last, state, rows=rows, lacks=lacks)
    export_trained(
        context.start,
        checkpoints.load_weights(saved),
        manifest,
        model_folder,
        config=config,
        tokenizer_dir=context.data_folder / "tokenizer",
        texts={LOG: log},
        origin=origin,
    )
    logger.info(
        "%s: written after %d steps and %s tokens",
        model_folder,
        model.steps,
        f"{state['tokens']:,}",
    )


def _manifest(
    context: TrainingContext,
    last: PlannedStage,
    state: dict[str, Any],
    *,
    rows: list[dict[str, Any]],
    lacks: list[str],
) -> dict[str, Any]:
    """Return the content of a finished model's `manifest.json`: how the model was made.

    Args:
        context: study, settings and data of this call.
        last: the model's last stage.
        state: what the checkpoint that the model is made of records.
        rows: the rows of the model's log.
        lacks: a phrase for each stage whose log is not complete.
    """
    manifest: dict[str, Any] = {
        "model": context.targets.model.name,
        "study": context.plan.study.name,
        "steps": context.targets.model.steps,
        "tokens_seen": state["tokens"],
        "recipe": context.config.recipe(),
        "data_source": _source_of(context.data.manifest),
    }
    # Stages with shards of their own, among all that led to the model.
    sources_of_stages = {}
    for stage in context.plan.ancestry(last):
        if stage.data:
            sources_of_stages[stage.name] = _source_of(context.data_of(stage).manifest)

    if sources_of_stages:
        manifest["data_source_of_stages"] = sources_of_stages
    for key in ("precision", EARLIER_PRECISION, "compile", "attention"):
        if key in state:
            manifest[key] = state[key]

    manifest |= context.identity(last)
    manifest["interventions"] = state["interventions"]
    if lacks:
        manifest["log_lacks"] = lacks
    if context.start is not None:
        manifest["validation"] = validation_gain(rows)
    return manifest | _shift(last.objective)


def _shift(objective: str) -> dict[str, int]:
    """Return the field of `config.json` that says how many positions before a token it is predicted.

    Only MNTP, which predicts a masked token at the position before it, has this field.
    """
    shift = OBJECTIVES[objective].shift
    return {PREDICTION_SHIFT: shift} if shift else {}


def _source_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return what the manifest of shards says of where their text is from, and the size of each split."""
    sizes = {}
    for name, split in data["splits"].items():
        sizes[name] = {"documents": split["documents"], "tokens": split["tokens"]}
    source: dict[str, Any] = data["source"]
    return source | {"splits": sizes}


def _log_rows(
    context: TrainingContext, stages: list[PlannedStage], step: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a model's log: those of its stages, one stage after the other, up to a step.

    Returns:
        The rows, and a phrase for each stage whose log is not complete.
    """
    rows: list[dict[str, Any]] = []
    lacks: list[str] = []
    # Each stage up to where the model's next one branches off: for other models it may have been trained further.
    ends = [*(stage.first_step for stage in stages[1:]), step]
    for stage, end in zip(stages, ends, strict=True):
        stage_rows, lack = _stage_rows(context, stage, end)
        rows += stage_rows
        if lack:
            lacks.append(lack)
    return rows, lacks


def _stage_rows(
    context: TrainingContext, stage: PlannedStage, end: int
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a stage's log up to the step `end`, and a phrase on what the log lacks ('' for nothing).

    A lost or damaged log does not stop an export: it is only warned of.
    """
    path = context.folder(stage.name) / LOG
    faults: list[str] = []
    rows = [row for row in read_log(path, faults) if row["step"] <= end]
    logged = {row["step"] for row in rows if row["split"] == "train"}
    every = context.config.record.log_every

    # Rows are due at multiples of `every`, and the stage's first update ends one step after `first_step`.
    first_due = every * (stage.first_step // every + 1)
    missing = [due for due in range(first_due, end + 1, every) if due not in logged]

    # If the file has several faults, the first says enough.
    sentences = faults[:1]
    lack = ""
    if missing:
        lack = (
            f"{stage.name}: {len(missing)} of the steps {missing[0]} to {missing[-1]}"
        )
        sentences.append(f"it has no rows of {lack}")
    # A checkpoint records the hash of the log as it was then, which also finds rows that were changed.
    elif checkpoints.is_log_changed(path.parent, end):
        lack = f"{stage.name}: the rows up to step {end} as they were written"
        # A fault that was named already explains the change.
        if not faults:
            sentences.append("rows of it have changed since they were written")

    if sentences:
        logger.warning(
            "%s: the model is written with the rest of this log (%s)",
            path,
            "; ".join(sentences),
        )

    return rows, lack


@contextmanager
def _only_process(folder: Path, name: str, ranks: Ranks) -> Iterator[None]:
    """Hold the lock of a stage's folder while the block runs, so that two jobs never train the same stage at once.

    Raises:
        UserError: another job holds it.
    """
    path = folder / ".lock"

    def end_process() -> None:
        # The other process continues from the last checkpoint, so this one must not write another file.
        logger.error(
            "%s: another process took over the training of %s; this one ends",
            path,
            name,
        )
        os._exit(AGAIN)

    with ExitStack() as stack:
        # Who else holds the lock: `try_lease` gives None if this job has it now.
        holder = None
        if ranks.rank == 0:
            holder = stack.enter_context(try_lease(path, end_process))

        # Only the first rank asks for the lock. If another job holds it, all ranks of this job must end: they would
        # otherwise wait for the first one for ever. The others learn of it from the sum, to which they add 0.
        # Nor do the others know who holds the lock: their message says `another process`.
        if ranks.total(holder is not None)[0]:
            raise UserError(
                f"{folder}: {holder or 'another process'} is training {name}; wait for it, then run the same command "
                "to resume"
            )

        yield
