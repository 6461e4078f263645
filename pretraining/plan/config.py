"""Every setting of a pretraining run, with the paper's values as defaults, in four groups.

One setting changes a run from a step on: `skip=1200:50` leaves out the 50 batches that step 1200 and the steps after it
would have had, so that step 1200 trains on the batch of step 1250. Steps count from 0 at random weights. When a run is
resumed, skips may be added that begin at its checkpoint or later; the earlier skips must be those that the checkpoint
was made with.

`--set key=value` and a study file's `[settings]` change single fields by their names, whichever group they are in
(`common.settings.read_settings`). All settings are recorded in every checkpoint. This module imports no torch, so that
a misspelt setting is reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Gt, Interval

from common.errors import UserError
from common.settings import FileSettings, Group, keys_of, values_of
from pretraining.paper_settings import TRAINING

if TYPE_CHECKING:
    from pretraining.data.sampler import Cut

OPTIMIZER_BYTES = 8
"""Bytes of the optimizer's state for each parameter: AdamW's two moments in float32."""

TRAINING_VERSION = 1
"""Version of the code that decides what training gives: batches, masks, losses, updates. It is raised together with
the golden losses, and a checkpoint of another version is not resumed."""

_MOST = 2**40
"""A number above all steps and all whole numbers of settings."""
Count = Annotated[int, Interval(ge=0, lt=_MOST)]
AtLeastOne = Annotated[int, Interval(ge=1, lt=_MOST)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Interval(ge=0, lt=1)]

_MAY_CHANGE = {"may change": True}
"""Marks a setting of logging, storage or speed: a run may be resumed with another value."""
_OF_PLACE = {"may change": True, "of a place": True}
"""Marks such a setting that only concerns the machine or where files are put: a model's manifest does not name it."""


@dataclass(frozen=True, kw_only=True)
class Optimizer(Group):
    """AdamW and its rate; `pretraining.training.optimizer` reads them."""

    peak_lr: Positive = TRAINING.peak_lr
    """Learning rate of the stable phase (`lr`, `learning_rate`)."""
    beta1: Share = TRAINING.betas[0]
    """AdamW's decay rate of the first moment (the first of `betas`)."""
    beta2: Share = TRAINING.betas[1]
    """AdamW's decay rate of the second moment (the second of `betas`)."""
    eps: Positive = TRAINING.eps
    """AdamW's epsilon."""
    weight_decay: NotNegative = TRAINING.weight_decay
    """AdamW's weight decay, on all parameters, norms and embeddings included, as in the paper's trainer."""
    clip_norm: Positive = TRAINING.clip_norm
    """Gradient clipping: the largest global norm of the gradient (`max_grad_norm`, `gradient_clipping`)."""
    warmup_steps: Count = TRAINING.warmup_steps
    """Steps of linear warm-up from random weights."""
    # The paper leaves open whether the rate is warmed up again after a decayed checkpoint.
    rewarm_steps: Count = TRAINING.warmup_steps // 10
    """Steps of linear warm-up after a decayed checkpoint (CPT); the paper does not say how many. 0: no warm-up."""


@dataclass(frozen=True, kw_only=True)
class Batches(Group):
    """What an update is trained on and how its loss is weighed; `pretraining.training.dataloader` reads them."""

    global_batch: AtLeastOne = TRAINING.sequences_per_step
    """Sequences per step, over all ranks (`batch_size`, `global_train_batch_size`)."""
    loss_group: AtLeastOne = TRAINING.device_batch
    """Under `weighting=equal`, the loss is the mean of the mean losses of groups of this many consecutive sequences,
    the paper's micro-batches, however the step is split over GPUs. When it does not divide global_batch, the largest
    smaller number that does is used. A study that sets microbatch alone sets this too."""
    microbatch: Count = field(default=0, metadata=_MAY_CHANGE)
    """Size of one forward and backward pass, in sequences of max_length (`device_train_microbatch_size`). A pass takes
    more sequences when they are shorter; gradients are accumulated over the passes of a step. It changes speed and
    memory, never the gradient. 0: the largest that fits the GPU's free memory; on a CPU the paper's 12, for
    an existing model 1,024 tokens. Set half of
    what the log says when a GPU runs out of memory (OOM)."""
    min_length: AtLeastOne = TRAINING.min_length
    """Shortest sequence, in tokens."""
    max_length: AtLeastOne = TRAINING.max_length
    """Longest sequence, in tokens (`max_seq_len`, `sequence_length`)."""
    cut: Literal["random", "fixed"] = "random"
    """`random`: lengths uniform in [min_length, max_length]; `fixed`: blocks of max_length."""
    attention: Literal["sequence", "document"] = "sequence"
    """`sequence`: a sequence attends to all of itself, as in the paper; `document`: never past end-of-text."""
    shuffle_block: AtLeastOne = 2**20
    """Number of sequences shuffled together. Larger blocks mix more and keep more shards open."""
    # With blocks of neighbours, a step spanned 1.1 % of the paper's data; with these chunks it spans 97 %.
    shuffle_chunk: AtLeastOne = 2**14
    """A block is gathered from chunks of this many neighbouring sequences, about one shard each, from all of the data.
    At shuffle_block or more, a block is one stretch of the data."""
    weighting: Literal["equal", "token"] = "equal"
    """`equal`: the loss is the mean of the mean losses of groups of loss_group sequences, as in the paper's trainer;
    `token`: the mean over all predicted tokens of the step."""
    # A resume compares this setting, since with bf16 each gradient is rounded.
    gradients: Literal["fp32", "bf16"] = "fp32"
    """Type in which processes sum their gradients; `bf16` sends half the bytes, each gradient rounded."""
    skip: str = field(default="", metadata={"from a step on": True})
    """Batches to leave out, `STEP:COUNT,...`, for example after the loss became NaN; later batches move up. It took the
    place of `on_spike`."""

    def __post_init__(self) -> None:
        """Refuse a range of lengths that is empty, and a `skip` that is not written as it should be."""
        if self.min_length > self.max_length:
            raise UserError(
                f"min_length={self.min_length} is above max_length={self.max_length}"
            )
        _ = self.skips  # raises an error if `skip` cannot be read

    @property
    def group_size(self) -> int:
        """Sequences of a group: `loss_group`, or the largest number below it that divides the step's batch."""
        size = self.loss_group
        while self.global_batch % size:
            size -= 1
        return size

    @property
    def pass_tokens(self) -> int:
        """Most tokens of one pass through the model: 24,576 with the paper's settings.

        A `microbatch` of 0 counts as the paper's 12 here, in plans. Training chooses its own before it asks.
        """
        return (self.microbatch or TRAINING.device_batch) * self.max_length

    @property
    def skips(self) -> tuple[tuple[int, int], ...]:
        """The pairs of the setting `skip`: a step, and how many batches are left out from it on; steps rise.

        Raises:
            UserError: the setting is not STEP:COUNT pairs, a count is not above 0, or the steps do not rise.
        """
        skips: list[tuple[int, int]] = []
        least_step = 0
        try:
            for word in self.skip.split(","):
                if not word:
                    continue
                # This raises a ValueError where a part is not a number, and where there are not two parts.
                step, count = (int(number) for number in word.split(":"))
                if not (least_step <= step < _MOST and 0 < count < _MOST):
                    raise ValueError
                skips.append((step, count))
                least_step = step + 1
        except ValueError:
            raise UserError(
                f"skip={self.skip!r}: write STEP:COUNT, with commas between several, by rising steps from 0 on; counts "
                "are above 0, and both below 2^40"
            ) from None

        return tuple(skips)

    def number(
        self, step: int, spans: Iterable[tuple[int, int]] = ((0, _MOST),)
    ) -> int:
        """Return the number of the batch that a step trains on, counted from 0 in the order of the step's data.

        It is the number of earlier steps on these data, plus the number of batches that were left out so far.

        Args:
            step: a step of the last span.
            spans: all steps [first, end) that train on the same data as this one; by default, every step.
        """
        number = 0
        for first, end in spans:
            # Steps of the span before this one; none if the span only begins later.
            number += max(0, min(end, step) - first)
        for skip_step, count in self.skips:
            # Batches that are left out of other data do not change which batch of these data comes next.
            is_on_same_data = any(first <= skip_step < end for first, end in spans)
            if is_on_same_data and skip_step <= step:
                number += count
        return number


@dataclass(frozen=True, kw_only=True)
class MachineSettings(Group):
    """How it is computed, and how processes and disks are used."""

    precision: Literal["auto", "fp32", "bf16"] = field(
        default="auto", metadata=_MAY_CHANGE
    )
    """`bf16` is autocast over fp32 weights, `auto` is bf16 on a GPU and fp32 on a CPU."""
    backend: Literal["auto", "flash2", "flash3", "flash4", "sdpa"] = field(
        default="auto", metadata=_MAY_CHANGE
    )
    """Attention kernel; `auto` uses what docs/maintainers.md found best for this GPU, sdpa on a CPU."""
    # On the tests' model the gradient differs from float32's by 0.7 % with a bf16 stream, by 0.13 % with a float32 one.
    residual: Literal["fp32", "bf16"] = field(default="fp32", metadata=_MAY_CHANGE)
    """Type of what blocks add to, under `precision=bf16`; `bf16` moves less memory, and adapted models ignore it."""
    compile: Literal["auto", "on", "tuned", "off"] = field(
        default="auto", metadata=_MAY_CHANGE
    )
    """torch.compile: `auto` turns it on for a GPU; if it fails, the run continues without it and logs the reason.
    `tuned` lets Inductor try more variants of each kernel, for minutes (`coordinate_descent_tuning`)."""
    timeout_minutes: Positive = field(default=10.0, metadata=_OF_PLACE)
    """Minutes that the processes of a job wait for one of them before all end with exit code 75, to be started
    again."""
    shard_optimizer: bool = field(default=False, metadata=_OF_PLACE)
    """Whether each GPU keeps only its share of AdamW's state (ZeRO stage 1, `zero_stage`): 8 bytes a parameter, divided
    by the number of GPUs. The weights stay the same to the bit; it is for 1B on devices of 64 GB."""
    cache: str = field(default="", metadata=_OF_PLACE)
    """Folder for decompressed shards (`cache_dir`), with a subfolder for each user; if empty, $CLM_OR_MLM_SCRATCH,
    else $SLURM_TMPDIR, else the user's cache folder."""
    cache_gb: NotNegative = field(default=50.0, metadata=_OF_PLACE)
    """Size in GB above which the least recently opened decompressed shards are removed; 0 keeps all. A shuffled block
    of the default size opens up to 128 shards (8.6 GB), and the shards of the next block are opened in advance."""


@dataclass(frozen=True, kw_only=True)
class Record(Group):
    """When a run is validated, saved and logged, and what Composer adds to it."""

    eval_every: AtLeastOne = field(default=1_000, metadata=_MAY_CHANGE)
    """Steps between validations (`eval_interval`); there is also one before a new objective and where stages branch."""
    eval_sequences: Count = field(
        default=TRAINING.sequences_per_step, metadata=_MAY_CHANGE
    )
    """Sequences per validation, with masks that never change; 0 for no validation."""
    save_every: AtLeastOne = field(default=1_000, metadata=_MAY_CHANGE)
    """Steps between checkpoints to resume from (`save_interval`); only the newest is kept."""
    # By time as well as by steps: a crash then costs ten minutes, not a thousand steps.
    save_minutes: NotNegative = field(default=10.0, metadata=_OF_PLACE)
    """Minutes after which a checkpoint is saved, besides those of save_every: what a crash can cost. 0: by steps
    alone."""
    log_every: AtLeastOne = field(default=1, metadata=_MAY_CHANGE)
    """Steps between rows of the log."""
    callbacks: str = field(
        default="SpeedMonitor,MemoryMonitor,OptimizerMonitor,RuntimeEstimator",
        metadata=_OF_PLACE,
    )
    """Composer's callbacks by name, and your own callbacks and loggers as MODULE:CLASS; Composer's write to TensorBoard
    and W&B."""
    algorithms: str = ""
    """Composer's algorithms by name, or your own as MODULE:CLASS. They may change what is trained; checkpoints do not
    save their state."""
    tensorboard: bool = field(default=True, metadata=_OF_PLACE)
    """Whether TensorBoard files are written next to the log."""
    wandb: str = field(default="", metadata=_OF_PLACE)
    """Weights & Biases project to log to; empty: no logging there."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(FileSettings):
    """How a model is pretrained; defaults are Table 1's and section 3's where the paper says something."""

    seed: Annotated[int, Interval(ge=0, lt=2**32)] = 0
    """Random seed of the initial weights, sequence lengths, data order and masks; the paper does not state its own."""
    optimizer: Optimizer = Optimizer()
    """AdamW and its rate."""
    batches: Batches = Batches()
    """What an update is trained on."""
    machine: MachineSettings = MachineSettings()
    """How it is computed."""
    record: Record = Record()
    """What is kept of it."""

    def __post_init__(self) -> None:
        """Refuse a text that is not a short, printable line."""
        for key, value in values_of(self).items():
            if not isinstance(value, str):
                continue
            if len(value) > 1_000 or not value.isprintable():
                raise UserError(
                    f"{key} must be one line of printable text, not {value!r:.60}"
                )

    @property
    def sequences(self) -> Cut:
        """How the token stream is cut into sequences."""
        from pretraining.data.sampler import Cut  # NumPy, which no help needs

        batches = self.batches
        return Cut(
            mode=batches.cut,
            shortest=batches.min_length,
            longest=batches.max_length,
            seed=self.seed,
        )

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens of one step: 2,373,120 with the paper's settings."""
        return self.batches.global_batch * self.sequences.mean_length

    def science(self) -> dict[str, object]:
        """Return the settings, by name, that a run must keep when it is resumed.

        Left out are settings of logging, storage and speed, the setting `skip`, and empty texts.
        """
        keys = keys_of(TrainingConfig)
        science = {}
        for key, value in values_of(self).items():
            # A setting that may differ in a resumed run has metadata, such as `_MAY_CHANGE`. Of the others
            # only `algorithms` can be an empty text: training then has none.
            if value != "" and not keys[key].field.metadata:
                science[key] = value
        return science

    def recipe(self) -> dict[str, object]:
        """Return the settings, by name, that a model's manifest lists: all but those marked with `_OF_PLACE`."""
        keys = keys_of(TrainingConfig)
        recipe = {}
        for key, value in values_of(self).items():
            if keys[key].field.metadata != _OF_PLACE:
                recipe[key] = value
        return recipe

    def interventions(self, step: int) -> dict[str, object]:
        """Return the skips that begin before a step, as the checkpoint of that step records them."""
        skips = self.batches.skips
        return {"skip": [[first, count] for first, count in skips if first < step]}
