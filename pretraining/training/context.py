"""What all stages of one call of `train` share: study, settings, data, ranks; and what a checkpoint must agree with.

The second file of the loop (`train` lists them). `train` makes one `TrainingContext` for a call, and every stage reads
it. A rank is one process of the job. A pass is one forward and backward pass of the model over a micro-batch, and
`microbatch` is the number of sequences of full length that fill one. A start is an existing model from which a new
pretraining takes its weights (`pretraining.starts`); without one, weights are random.
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
"""Tokens of a pass on a CPU, where training begins from a start: with 135M parameters they take a core ten seconds.
Longer passes are not faster there, and a request to stop waits for the end of a pass."""


@dataclass(kw_only=True)
class TrainingContext:
    """What is to be trained in one call, and with which settings, data and processes."""

    targets: Targets
    """The model, and its stages with the step up to which each is trained."""
    config: TrainingConfig
    """The settings."""
    source: Path | str
    """A folder of shards, or their address."""
    out: Path
    """Folder of checkpoints, logs and models."""
    ranks: Ranks
    """This process among those of the job."""
    stop_file: Path | None = None
    """A file that asks training to save and stop, once it exists."""

    def __post_init__(self) -> None:
        """Open the data, derive the model's configuration from it, and choose precision and microbatch.

        Raises:
            UserError: the data does not fit the model or the settings, or there are more processes than sequences in
                a batch.
        """
        # The type of matrix products.
        config = self.config
        is_gpu = self.ranks.device.type == "cuda"
        precision = config.machine.precision
        if precision == "bf16" and not is_gpu:
            raise UserError(
                "precision=bf16 needs a GPU, but there is none here; set precision=auto or fp32"
            )

        self.bf16 = precision == "bf16" or (precision == "auto" and is_gpu)

        # The model's configuration, from its size, its start and the shards' tokenizer.
        self.start = self.targets.start
        self.plan = self.targets.plan
        self.shape = self.plan.study.shapes[self.targets.model.size]
        # `remote` downloads the shards of an address; None for a folder.
        self.data_folder, remote = find_shards(self.source)
        tokenizer = load_manifest(self.data_folder)["tokenizer"]
        if self.start is None:
            # The paper's training code puts nothing before a document, so shards of a new model must not either.
            if tokenizer.get("first"):
                raise UserError(
                    f"{self.source} begins each document as texts do for an existing model, and a new model's begin "
                    "with their first word; write shards with `--tokenizer FILE`, the tokenizer.json alone"
                )
            self.model_config = config_of(self.shape, tokenizer)
        else:
            # Corrects the configuration only, by embedding and head. The weights to train are loaded later, when a
            # stage builds its model (`build_model`).
            self.start = as_loaded(self.start)
            # Reading `identity` hashes the start's files. That must be before those weights are loaded: the files
            # may change later.
            _ = self.start.identity
            self.model_config = data_config(self.start, tokenizer, str(self.source))

        # The data, which are laid out in passes by the microbatch. 0 in the settings: it is to be chosen
        # here.
        if not config.batches.microbatch:
            batches = replace(config.batches, microbatch=self._microbatch())
            self.config = config = replace(config, batches=batches)

        self.data = Data(self.data_folder, config, self.model_config, remote)
        self._data_at: dict[str, Data] = {}
        """Data of the stages that have their own, by the folder or address that the study file gives."""
        # `ancestry` also has the stages before: where a single stage is trained, `targets.stages` has only
        # that one. The second part of each pair there is the step up to which the stage is trained.
        for last, _ in self.targets.stages:
            for stage in self.plan.ancestry(last):
                if stage.data and stage.data not in self._data_at:
                    self._data_at[stage.data] = self._stage_data(stage.data)

        if config.batches.global_batch < self.ranks.world:
            raise UserError(
                f"global_batch={config.batches.global_batch} leaves some of {self.ranks.world} processes without a "
                "sequence; start fewer processes"
            )

    def _microbatch(self) -> int:
        """Return how many sequences of full length a pass takes: as many as fit into the memory of every rank's GPU.

        Where the memory of a pass is not known, it is a fixed number: on a CPU with a start that of
        `_CPU_PASS_TOKENS`, otherwise the paper's.
        """
        ranks, config, start = self.ranks, self.config, self.start
        length = config.batches.max_length
        is_shared = ranks.world > 1
        is_compiled = config.machine.compile != "off"
        if start is not None and ranks.device.type == "cpu":
            return max(1, _CPU_PASS_TOKENS // length)

        # The memory of a pass is known only in bf16: it was counted and measured only there. Without a start
        # it is known only for compiled blocks.
        if not self.bf16 or (start is None and not is_compiled):
            return TRAINING.device_batch

        # Of this moment, in which the model is not on the GPU yet: weights and optimizer have to fit as well.
        free_bytes, _ = torch.cuda.mem_get_info(ranks.device)
        free_gb = free_bytes / 1e9
        # `is_our_class`: this package's own class computes the start, and its memory is computed from the shape.
        if start is None or (start.is_our_class and is_compiled):
            fits = largest_microbatch(self.shape, free_gb, length, several=is_shared)
        else:
            # For transformers' classes, and without compiled blocks, memory cannot be computed: try a few passes.
            memory = measured_gb(
                start, self.model_config, config, ranks.device, several=is_shared
            )
            fits = sequences_that_fit(
                free_gb, length, fixed_gb=memory.fixed, each_gb=memory.each
            )

        # Each rank computes the passes of all ranks, so all must use one size: the smallest.
        return max(1, int(min(ranks.each(fits))))

    def _stage_data(self, location: str) -> Data:
        """Return the data at a place that a stage's `data` in the study file names.

        Raises:
            UserError: there are no shards, or their tokenizer is another than that of the command's shards.
        """
        folder, remote = find_shards(location)
        data = Data(folder, self.config, self.model_config, remote)
        tokenizer = data.manifest["tokenizer"]
        if tokenizer["sha256"] != self.data.manifest["tokenizer"]["sha256"]:
            raise UserError(
                f"{location} was written with another tokenizer than {self.source}; write its shards with the same one"
            )
        return data

    def data_of(self, stage: PlannedStage) -> Data:
        """Return the data that a stage is trained on: its own where the study file names some, else the command's."""
        return self._data_at[stage.data] if stage.data else self.data

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage's checkpoints and log."""
        return self.out / "stages" / stage

    def identity(self, stage: PlannedStage) -> dict[str, Any]:
        """Return what a stage's checkpoint must agree with before training may resume from it.

        It is JSON: the version of the training code, hashes of tokenizer and data, the model's shape, the settings that
        change results (`science`), the stages that led here, and the hashes of the start if there is one.
        """
        stages = []
        # `lineage` gives a table of fields for each stage that led here, and last for this one.
        for item in self.plan.lineage(stage):
            if "data" in item:
                # The same shards in another place are the same data, so their hash replaces the path.
                data = self._data_at[str(item["data"])]
                item = item | {"data": data.manifest["sha256"]}
            stages.append(item)

        identity = {
            "results": TRAINING_VERSION,
            "tokenizer": self.data.manifest["tokenizer"]["sha256"],
            "data": self.data.manifest["sha256"],
            "shape": asdict(self.shape),
            "science": self.config.science(),
            "stages": stages,
        }
        if self.start is not None:
            identity["start"] = self.start.identity
        return identity

    def check(
        self, state: Mapping[str, Any], stage: PlannedStage, step: int, where: str
    ) -> None:
        """Refuse a checkpoint, or a finished model, that was trained in another way than this call would train it.

        Args:
            state: what the checkpoint or the model's manifest records of its training.
            stage: the stage that it should come from.
            step: the step that it should be at.
            where: path of the checkpoint or model, for messages.

        Raises:
            UserError: the sentence names the first difference and what to do about it.
        """
        # `identity` is what all weights of the stage follow from. `interventions` are batches that were left
        # out by hand so far (the setting `skip`): later ones may still change.
        #
        # Training from random weights records no `start`. It must then be missing, for which `get` below returns None.
        wanted = {
            "start": None,
            **self.identity(stage),
            "interventions": self.config.interventions(step),
        }
        recorded = {part: state.get(part) for part in wanted}

        # Older checkpoints do not record the setting `gradients`: they were summed in float32. `or`: no settings are
        # recorded at all.
        recorded["science"] = {"gradients": "fp32"} | (recorded["science"] or {})
        interventions = recorded["interventions"]
        if interventions and not interventions.get("peak_lr_from"):
            # Earlier versions could also change the peak rate, and always recorded that field. Where it is
            # empty, nothing was changed, and only `skip` is left to compare.
            recorded["interventions"] = {"skip": interventions.get("skip")}

        differs = first_difference(recorded, wanted)
        if differs is None:
            return
        field, before, now = differs

        # The field of a nested table is written with dots: `science.peak_lr` is the key `peak_lr` of `science`.
        part, _, key = field.partition(".")
        if part == "stages":
            before, now = _stages_text(before), _stages_text(now)
        remedy = _REMEDIES.get(field) or _REMEDIES.get(part, "restore that value")
        raise UserError(
            f"{where} was trained with {key or part}={before!r:.200}, not {now!r:.200}; {remedy} or choose another "
            "--out"
        )

    def resume_point(
        self, stage: PlannedStage, target: int
    ) -> checkpoints.Checkpoint | None:
        """Return the checkpoint from which a stage goes on: its own newest one up to `target`, else its parent's.

        Returns:
            None where there is no checkpoint to go on from: training begins with the weights of the start, or random
            ones.

        Raises:
            UserError: the stage's parent has no checkpoint at the step where the stage branches off, or the checkpoint
                was trained in another way (`check`).
        """
        checkpoint = checkpoints.latest(self.folder(stage.name), target)
        saved_in = stage
        if checkpoint is None and stage.parent is not None:
            # The stage has not begun: it goes on from the step of its parent at which it branches off.
            saved_in = self.plan.stage(stage.parent)
            checkpoint = checkpoints.latest(self.folder(stage.parent), stage.first_step)
            if checkpoint is None or checkpoint.step != stage.first_step:
                raise UserError(
                    f"{stage.name} branches off {stage.parent} at step {stage.first_step}, but "
                    f"{self.folder(stage.parent)} has no checkpoint at that step; train the whole model, or "
                    f"first run `train {stage.parent}`"
                )

        if checkpoint is not None:
            state = checkpoints.load_state(checkpoint)
            self.check(state, saved_in, checkpoint.step, str(checkpoint.path))

        return checkpoint

    def is_done(self, stage: PlannedStage, target: int) -> bool:
        """Return whether a stage has been trained up to a step and validated there, with an undamaged checkpoint.

        Raises:
            UserError: as in `resume_point`, or the checkpoint is damaged.
        """
        checkpoint = self.resume_point(stage, target)
        if checkpoint is None or checkpoint.step != target:
            return False
        # The checkpoint may be the parent's: this stage then has no step of its own yet.
        if checkpoint.path.parent != self.folder(stage.name):
            return False
        checkpoints.check_checkpoint(checkpoint)
        return not self._ends_without_validation(stage, target)

    def _ends_without_validation(self, stage: PlannedStage, target: int) -> bool:
        """Return whether training was stopped in the validation at a step, so that the log lacks that validation."""
        # With 0 sequences to validate on there are no validations.
        if not self.config.record.eval_sequences:
            return False
        path = self.folder(stage.name) / LOG
        # `[]`: a list for faults, which is dropped. Without it a faulty line would raise an error.
        rows = read_log(path, []) if path.is_file() else []
        # Without its log nothing is known of the validation: the stage counts as finished.
        if not rows:
            return False
        # A step's validation row comes after its training row: if a training row is last, the validation is missing.
        last_row = rows[-1]
        return (last_row["step"], last_row["split"]) == (target, "train")


def _stages_text(stages: list[dict[str, Any]] | None) -> str:
    """Return the `stages` of an identity in words: `a from step 0, then b from step 100 to 200`.

    They are None where a checkpoint or manifest records none.
    """
    texts = []
    for item in stages or []:
        text = f"{item.get('name')} from step {item.get('start')}"
        if item.get("end") is not None:
            text += f" to {item.get('end')}"
        if item.get("data"):
            text += f" on data {item['data']:.12}"
        texts.append(text)
    return ", then ".join(texts)


_REMEDIES = {
    "results": "continue with the version of this package that made it",
    "tokenizer": "use its original --data",
    "data": "use its original --data",
    "start": "give its original start",
    "stages": "use its original --study and the data that it names",
    "interventions": "change only later steps",
    "science.on_spike": "remove it and leave batches out with --set skip=STEP:COUNT, which took its place,",
}
"""What the user can do, by the field of `identity` that differs or by the part that the field is in."""
