"""Training a model of the study: the stretches of its plan in order, trunks that exist reused, the result exported.

<out>/stages/<stage>/step-<n>/   checkpoints: the newest, and those other models leave from
<out>/stages/<stage>/log.jsonl   its log; TensorBoard's files beside it
<out>/models/<model>/                       the finished model as a Hugging Face folder, and its whole log
"""

from __future__ import annotations

import fcntl
import gc
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError, nearest
from common.provenance import provenance
from pretraining.data.manifest import load_manifest
from pretraining.model.hf_export import export
from pretraining.paper_settings import Shape
from pretraining.plan.plan import PlannedStage, plan_of
from pretraining.plan.study_file import PAPER_STUDY, Study
from pretraining.training import checkpoints
from pretraining.training.composer_adapter import Ranks
from pretraining.training.context import Session, plan_stage, study_config
from pretraining.training.log import LOG, read_log, write_log
from pretraining.training.trainer import Run

__all__ = ["export_checkpoint", "train"]

logger = logging.getLogger(__name__)


def train(
    name: str,
    *,
    data: Path,
    out: Path,
    study: Study = PAPER_STUDY,
    assignments: Sequence[str] = (),
    stop_file: Path | None = None,
) -> bool:
    """Train a model, or one stage of the plan such as the trunk `610m-clm`, as far as it is not done.

    Args:
        name: a model's name, or a stage's.
        data: shards as `python -m pretraining shards` writes them.
        out: folder of checkpoints, logs and models, shared by the models of a study.
        study: names, shapes and recipe.
        assignments: `key=value` words over the study's recipe.
        stop_file: once this file exists, save and end: what a signal does, where signals do not reach.

    Returns:
        False when it was asked to end early; the same call goes on.

    Raises:
        UserError: whatever the user can mend, in one sentence.
    """
    if stop_file is not None and stop_file.exists():
        raise UserError(f"{stop_file}: is there already and asks training to stop; remove it first")
    recipe = study.recipe.with_assignments(assignments)
    known = plan_of(tuple(study.models.values()), study)
    alone = next((item for item in known.stages if item.name == name and name not in study.models), None)
    if alone is None:
        try:
            model = study.model(name)
        except UserError as error:
            near = nearest(name, [*study.models, *(item.name for item in known.stages)])
            raise UserError(str(error).split("; did you mean")[0] + near) from None
        plan = plan_of((*study.models.values(), model), study)
        todo = [(plan_stage(plan, s.name), s.end) for s in model.stages]
    else:
        model, plan, todo = study.model(alone.models[0]), known, [(alone, alone.end)]
    ranks = Ranks.here()
    if ranks.rank:
        # The first process speaks for all.
        logging.getLogger("pretraining").setLevel(logging.WARNING)
    session = Session(study, recipe, plan, data, out, model.size, ranks, stop_file)
    finished = out / "models" / model.name
    if alone is None and (finished / "manifest.json").is_file():
        session.check(json.loads((finished / "manifest.json").read_text("utf-8")), str(finished))
        if (finished / LOG).is_file():
            logger.info("%s: nothing to do, the model is complete", finished)
            return True
    for stage, target in todo:
        if not _run(session, stage, target):
            return False
    if alone is None and ranks.rank == 0:
        _export(session, model.name, [item for item, _ in todo], model.steps, finished)
    ranks.barrier()
    return True


def export_checkpoint(checkpoint: Path, data: Path, out: Path) -> None:
    """Write any checkpoint as a Hugging Face folder.

    Raises:
        UserError: it is no checkpoint, or was trained with another tokenizer than the data's.
    """
    found = [
        item for item in checkpoints.checkpoint_steps(checkpoint.parent) if item.path.name == checkpoint.name
    ]
    if not found:
        raise UserError(f"{checkpoint}: no checkpoint here; give a step-... folder of <out>/stages/<name>")
    state, shards = checkpoints.load_state(found[0]), load_manifest(data)
    if state["tokenizer"] != shards["tokenizer"]["sha256"]:
        raise UserError(
            f"{checkpoint} was trained with another tokenizer than {data} holds; give its own --data"
        )
    causal = state["objective"] == "clm"
    config = study_config(Shape(**state["shape"]), shards["tokenizer"], is_causal=causal)
    manifest = {
        "model": f"{state['stage']} at step {state['step']}",
        "tokens_seen": state["tokens"],
        **state,
    }
    export(checkpoints.load_weights(found[0]), config, data / "tokenizer", manifest, out)
    logger.info("%s: written", out)


def _run(session: Session, stage: PlannedStage, target: int) -> bool:
    """Train one stage up to a step, unless that is done; tell whether it got there."""
    # Without the lock first: models that leave from one finished trunk may start at the same moment.
    if _reached(session, stage, target, _start(session, stage, target)):
        return True
    with _only_process(session.folder(stage.name), stage.name, session.ranks):
        start = _start(session, stage, target)
        if _reached(session, stage, target, start):
            return True
        reached = Run(session, stage, target, start).go()
    # Composer's trainer is full of cycles, and the next stretch needs the memory.
    gc.collect()
    if session.ranks.device.type == "cuda":
        torch.cuda.empty_cache()
    return reached


def _export(session: Session, name: str, stages: list[PlannedStage], step: int, finished: Path) -> None:
    """Write the finished model and its log."""
    last = stages[-1]
    saved = next(c for c in checkpoints.checkpoint_steps(session.folder(last.name)) if c.step == step)
    state = checkpoints.load_state(saved)
    manifest = {
        "model": name,
        "study": session.study.name,
        "steps": step,
        "tokens_seen": state["tokens"],
        "plan": [asdict(item) for item in stages],
        "recipe": session.recipe.as_dict(),
        "data_source": session.data.manifest["source"] | {"splits": _sizes(session.data.manifest)},
        **{key: state[key] for key in ("hardware", "precision", "compile")},
        "code": provenance("full", ("torch", "mosaicml", "mosaicml-streaming", "transformers")),
        **session.identity(),
    }
    config = study_config(
        session.shape, session.data.manifest["tokenizer"], is_causal=last.objective == "clm"
    )
    # The log comes last: a folder without it is one whose writing was interrupted between the two.
    if not (finished / "manifest.json").is_file():
        export(checkpoints.load_weights(saved), config, session.data_folder / "tokenizer", manifest, finished)
    write_log(finished / LOG, _rows(session, stages, step))
    logger.info("%s: written after %d steps and %s tokens", finished, step, f"{state['tokens']:,}")


def _rows(session: Session, stages: list[PlannedStage], step: int) -> Iterator[dict[str, Any]]:
    bounds = [*(item.start for item in stages[1:]), step]
    for item, end in zip(stages, bounds, strict=True):
        for row in read_log(session.folder(item.name) / LOG):
            if row["step"] <= end:
                yield row


def _sizes(manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {k: split[k] for k in ("documents", "tokens")} for name, split in manifest["splits"].items()
    }


def _start(session: Session, stage: PlannedStage, target: int) -> checkpoints.Checkpoint | None:
    start = session.start_of(stage, target)
    if start is not None:
        session.check(checkpoints.load_state(start), str(start.path))
    return start


def _reached(
    session: Session, stage: PlannedStage, target: int, start: checkpoints.Checkpoint | None
) -> bool:
    return start is not None and start.step == target and start.path.parent == session.folder(stage.name)


@contextmanager
def _only_process(folder: Path, name: str, ranks: Ranks) -> Iterator[None]:
    """Hold the stage's folder, so that two jobs never train the same trunk at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        busy = 0.0
        if ranks.rank == 0:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = 1.0
            except OSError:
                logger.warning("%s: this file system has no locks; start no second job on %s", folder, name)
        if ranks.total(busy)[0]:
            raise UserError(
                f"{folder}: another process is training {name}; wait for it, the same command goes on then"
            )
        yield
