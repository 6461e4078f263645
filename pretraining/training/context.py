"""What the stages of one call share: study, settings, data, place; and what a checkpoint must agree with.

The second file of the loop (`train` lists them): `train` makes one of it for a call, every stage reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from common.description import first_difference
from common.errors import UserError
from pretraining.data.remote_shards import find_shards
from pretraining.data.shard_manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.model.start_weights import as_loaded, data_config
from pretraining.paper_settings import TRAINING
from pretraining.plan.config import TRAINING_VERSION, TrainingConfig
from pretraining.plan.devices import largest_microbatch, sequences_that_fit
from pretraining.plan.study_plan import PlannedStage, Targets
from pretraining.training import checkpoints
from pretraining.training.dataloader import Data
from pretraining.training.log import LOG, read_log
from pretraining.training.pass_memory import measured_gb
from pretraining.training.ranks import Ranks

_CPU_PASS_TOKENS = 1024
"""Of a pass of a start on a CPU: ten seconds of a core with 135M parameters. More make nothing faster there, and what
is asked for meanwhile waits for a pass."""


@dataclass(kw_only=True)
class TrainingContext:
    """What one call trains, with its settings, data and place among the processes."""

    targets: Targets
    config: TrainingConfig
    source: Path | str
    """A folder of shards, or their address."""
    out: Path
    ranks: Ranks
    stop_file: Path | None = None

    def __post_init__(self) -> None:
        """Open the data, of which the model's configuration follows, and settle precision and microbatch.

        Raises:
            UserError: the data does not fit the model or the settings, or the batch the number of processes.
        """
        config = self.config
        is_gpu = self.ranks.device.type == "cuda"
        precision = config.machine.precision
        if precision == "bf16" and not is_gpu:
            raise UserError(
                "precision=bf16 needs a GPU, but there is none here; set precision=auto or fp32"
            )
        self.start = self.targets.start
        self.bf16 = precision == "bf16" or (precision == "auto" and is_gpu)
        self.plan = self.targets.plan
        self.shape = self.plan.study.shapes[self.targets.model.size]
        self.data_folder, remote = find_shards(self.source)
        tokenizer = load_manifest(self.data_folder)["tokenizer"]
        if self.start is None:
            # As the paper's training code writes tiktoken's shards: nothing before a document.
            if tokenizer.get("first"):
                raise UserError(
                    f"{self.source} begins each document as texts do for an existing model, and a new model's begin "
                    "with their first word; write shards with `--tokenizer FILE`, the tokenizer.json alone"
                )
            self.model_config = config_of(self.shape, tokenizer)
        else:
            # Hashed before the first step, whatever becomes of its files meanwhile
            self.start = as_loaded(self.start)
            _ = self.start.identity
            self.model_config = data_config(self.start, tokenizer, str(self.source))
        if not config.batches.microbatch:
            batches = replace(config.batches, microbatch=self._microbatch())
            self.config = config = replace(config, batches=batches)
        self.data = Data(self.data_folder, config, self.model_config, remote)
        ancestries = [self.plan.ancestry(stage) for stage, _ in self.targets.stages]
        locations = dict.fromkeys(
            stage.data for stages in ancestries for stage in stages if stage.data
        )
        self._data_at = {location: self._stage_data(location) for location in locations}
        if config.batches.global_batch < self.ranks.world:
            raise UserError(
                f"global_batch={config.batches.global_batch} leaves some of {self.ranks.world} processes without a "
                "sequence; start fewer processes"
            )

    def _microbatch(self) -> int:
        """Return the most sequences of a pass that fit all ranks' free memory, where that is known."""
        ranks, config, start = self.ranks, self.config, self.start
        length, several = config.batches.max_length, ranks.world > 1
        if start is not None and ranks.device.type == "cpu":
            return max(1, _CPU_PASS_TOKENS // length)
        # Memory was counted and measured for bf16 alone, and for own models with compiled blocks.
        if not self.bf16 or (config.machine.compile == "off" and start is None):
            return TRAINING.device_batch
        free = torch.cuda.mem_get_info(ranks.device)[0] / 1e9
        if start is None or (start.is_our_class and config.machine.compile != "off"):
            fits = largest_microbatch(self.shape, free, length, several=several)
        else:
            fixed_gb, each_gb = measured_gb(
                start, self.model_config, config, ranks.device, several=several
            )
            fits = sequences_that_fit(free, length, fixed_gb=fixed_gb, each_gb=each_gb)
        return max(1, int(min(ranks.each(fits))))

    def _stage_data(self, location: str) -> Data:
        """Open the shards that a stage's `data` in the study file names; their tokenizer must be that of the others."""
        folder, remote = find_shards(location)
        data = Data(folder, self.config, self.model_config, remote)
        if (
            data.manifest["tokenizer"]["sha256"]
            != self.data.manifest["tokenizer"]["sha256"]
        ):
            raise UserError(
                f"{location} was written with another tokenizer than {self.source}; write its shards with the same one"
            )
        return data

    def data_of(self, stage: PlannedStage) -> Data:
        """Return the data that a stage is trained on: those of the command, or its own."""
        return self._data_at[stage.data] if stage.data else self.data

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage's checkpoints and log."""
        return self.out / "stages" / stage

    def identity(self, stage: PlannedStage) -> dict[str, Any]:
        """Return what a stage's checkpoint must agree with to resume from it."""
        return {
            "results": TRAINING_VERSION,
            "tokenizer": self.data.manifest["tokenizer"]["sha256"],
            "data": self.data.manifest["sha256"],
            "shape": asdict(self.shape),
            "science": self.config.science(),
            "stages": [
                # The shards' hash counts, not where they are.
                item
                | (
                    {"data": self._data_at[str(item["data"])].manifest["sha256"]}
                    if "data" in item
                    else {}
                )
                for item in self.plan.lineage(stage)
            ],
            **({} if self.start is None else {"start": self.start.identity}),
        }

    def check(
        self, state: Mapping[str, Any], stage: PlannedStage, step: int, where: str
    ) -> None:
        """Refuse to resume from, or to reuse, what was trained otherwise.

        Args:
            state: what was recorded.
            stage: the stage whose end or checkpoint it should be.
            step: updates that it has had.
            where: its path, for messages.
        """
        # Of a start there is nothing in what began from random weights.
        mine = {
            "start": None,
            **self.identity(stage),
            "interventions": self.config.interventions(step),
        }
        theirs = {part: state.get(part) for part in mine}
        # Before there was a choice
        theirs["science"] = {"gradients": "fp32"} | (theirs["science"] or {})
        if (earlier := theirs["interventions"]) and not earlier.get("peak_lr_from"):
            # Of version 1, which could change the peak rate from a step on; here it was not.
            theirs["interventions"] = {"skip": earlier.get("skip")}
        differs = first_difference(theirs, mine)
        if differs is None:
            return
        field, *values = differs
        part, _, key = field.partition(".")
        recorded, ours = map(_stages_text, values) if part == "stages" else values
        raise UserError(
            f"{where} was trained with {key or part}={recorded!r:.200}, not {ours!r:.200}; "
            f"{_REMEDIES.get(field) or _REMEDIES.get(part, 'restore that value')} or choose another --out"
        )

    def resume_point(
        self, stage: PlannedStage, target: int
    ) -> checkpoints.Checkpoint | None:
        """Return the checkpoint to resume a stage from; None for the start, or for random weights.

        Raises:
            UserError: the stage's parent has no checkpoint at the step where it branches off, or the checkpoint is
                of what was trained otherwise.
        """
        checkpoint = checkpoints.latest(self.folder(stage.name), target)
        saved_in = stage
        if checkpoint is None and stage.parent is not None:
            saved_in = self.plan.stage(stage.parent)
            checkpoint = checkpoints.latest(self.folder(stage.parent), stage.first_step)
            if checkpoint is None or checkpoint.step != stage.first_step:
                raise UserError(
                    f"{stage.name} branches off {stage.parent} at step {stage.first_step}, but "
                    f"{self.folder(stage.parent)} has no checkpoint at that step; train the whole model, or "
                    f"first run `train {stage.parent}`"
                )
        if checkpoint is not None:
            self.check(
                checkpoints.load_state(checkpoint),
                saved_in,
                checkpoint.step,
                str(checkpoint.path),
            )
        return checkpoint

    def is_done(self, stage: PlannedStage, target: int) -> bool:
        """Return whether a stage has been trained and validated up to a step, and its checkpoint is what was written.

        Raises:
            UserError: as `resume_point`, or the checkpoint is damaged.
        """
        checkpoint = self.resume_point(stage, target)
        if (
            checkpoint is None
            or checkpoint.step != target
            or checkpoint.path.parent != self.folder(stage.name)
        ):
            return False
        checkpoints.check_checkpoint(checkpoint)
        return not self._ends_without_validation(stage, target)

    def _ends_without_validation(self, stage: PlannedStage, target: int) -> bool:
        """Return whether a stage was stopped in the validation of its last step, whose row the log then ends with."""
        if not self.config.record.eval_sequences:
            return False
        path = self.folder(stage.name) / LOG
        rows = read_log(path, []) if path.is_file() else []
        return bool(rows) and (rows[-1]["step"], rows[-1]["split"]) == (target, "train")


def _stages_text(stages: list[dict[str, Any]] | None) -> str:
    """Return what a description has of the stages, for a sentence."""
    return ", then ".join(
        f"{item.get('name')} from step {item.get('start')}"
        + ("" if item.get("end") is None else f" to {item.get('end')}")
        + (f" on data {item['data']:.12}" if item.get("data") else "")
        for item in stages or []
    )


_REMEDIES = {
    "results": "continue with the version of this package that made it",
    "tokenizer": "use its original --data",
    "data": "use its original --data",
    "start": "give its original start",
    "stages": "use its original --study and the data that it names",
    "interventions": "change only later steps",
    "science.on_spike": "remove it and leave batches out with --set skip=STEP:COUNT, which took its place,",
}
"""What else can be done, by what differs of the description, or the part that it is in."""
