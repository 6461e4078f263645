"""The batch of any step, for any rank: read, cut, ordered, masked, laid out in passes and fingerprinted.

The fourth file of the loop (`train` lists them): `stage` asks `StageBatches` for each step's batch, in a thread that is
a few steps ahead.

Everything follows from the settings, the data and the step, so that nothing has to be stored to resume after a
kill, and two models of the study see the same sequences at the same step.

The gradient of a step does not depend on which sequences a rank computes, nor on which of them share a pass through the
model (`pretraining.training.objectives.group_weights`). Both only serve speed: ranks wait for the one with most
tokens, and a pass is the faster the fuller it is.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import numpy as np
import torch
from torch import Tensor

from common.errors import UserError
from pretraining.data.remote_shards import RemoteShards
from pretraining.data.sampler import Int64s, Order, lay_out, split_documents
from pretraining.data.shard_manifest import SHARD_SPLITS, check_split, load_manifest
from pretraining.data.token_stream import Tokens, TokenStream, make_shard_cache_folder
from pretraining.model.configuration import EncoderConfig
from pretraining.model.masking import MLM_STREAM, VALIDATION_STREAM, MaskRule
from pretraining.model.packed_batch import PackedBatch
from pretraining.plan.config import TrainingConfig
from pretraining.plan.study_plan import PlannedStage
from pretraining.training.objectives import ObjectiveBatch, prepare
from pretraining.training.ranks import Ranks

logger = logging.getLogger(__name__)
_AHEAD = 4
"""Batches that are made before they are needed."""
_STRIDE = 2**20
"""Tokens from one look into the stream to the next where shards are opened ahead: less than a shard's."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One rank's share of a step."""

    step: int
    """The update it is for, counted from 0."""
    microbatches: list[ObjectiveBatch]
    """The share, in passes of at most `pass_tokens` tokens."""
    counts: Tensor
    """Tokens that the share predicts of each of the step's G groups, (G,), float64."""
    passes: int
    """Passes of all ranks together."""
    common_passes: int = 1
    """Passes that every rank has."""
    tokens: int
    """Tokens of the share."""
    fingerprint: int
    """Sum modulo 2^64 of one hash per sequence over its id, its tokens and what the model reads of them; the
    ranks' sum does not depend on how the batch is shared."""

    def weighed(self, weights: Tensor) -> StepBatch:
        """Return the share with the weight of a predicted token of each group, (G,)."""
        parts = [replace(part, weights=weights) for part in self.microbatches]
        return replace(self, microbatches=parts)


class Data:
    """Shards, cut and ordered as the settings say."""

    def __init__(
        self,
        folder: Path,
        config: TrainingConfig,
        model_config: EncoderConfig,
        remote: RemoteShards | None = None,
    ) -> None:
        """Open the shards in `folder`, or at `remote`, of which `folder` is the copy of what is small.

        Raises:
            UserError: no or damaged shards, too few sequences, a vocabulary that the model has no rows for.
        """
        self.manifest = load_manifest(folder)
        self._config, self._model_config = config, model_config
        batches, tokenizer = config.batches, self.manifest["tokenizer"]

        # The model must have a row for each id, and know which ids are never masked.
        if tokenizer["vocab_size"] > model_config.vocab_size:
            raise UserError(
                f"{folder}: its tokenizer has {tokenizer['vocab_size']} ids, but the model has rows "
                f"for only {model_config.vocab_size}; write shards with the model's tokenizer "
                f"or choose a model with a larger vocabulary"
            )
        if batches.max_length > model_config.max_position_embeddings:
            raise UserError(
                f"max_length={batches.max_length} is above the model's limit of "
                f"{model_config.max_position_embeddings} tokens"
            )
        self._vocab_size = tokenizer["vocab_size"]
        # Never masked: tokens that begin every text, and the unknown token, which may stand for any text.
        self._never_masked = [*tokenizer.get("first", ())]
        if "unknown_id" in tokenizer:
            self._never_masked.append(tokenizer["unknown_id"])

        # The two splits.
        self.cache = make_shard_cache_folder(config.machine.cache)
        """Where decompressed shards are."""
        streams = {}
        for name in SHARD_SPLITS:
            streams[name] = TokenStream(
                folder / name,
                self.cache / self.manifest["sha256"][:16] / name,
                root=self.cache,
                limit_bytes=config.machine.cache_gb * 1e9,
                fetch=None if remote is None else remote.fetcher(name),
            )
        for name, stream in streams.items():
            check_split(folder, name, self.manifest, stream.shards)
        self._train, self._validation = (streams[name] for name in SHARD_SPLITS)

        # Their sequences, and the order of those that are trained on.
        self._cut = config.sequences
        can_validate = self._cut.count(self._validation.tokens) > 0
        if config.record.eval_sequences and not can_validate:
            raise UserError(
                f"{folder}: its validation split of {self._validation.tokens} tokens has no whole sequence; write "
                f"shards with a larger --validation-share or set eval_sequences=0"
            )
        samples = self._cut.count(self._train.tokens)
        self.order = Order(
            samples=samples,
            batch=batches.global_batch,
            seed=config.seed,
            block=batches.shuffle_block,
            chunk=batches.shuffle_chunk,
        )
        """The order of the training sequences."""
        self._opened: set[tuple[int, int]] = set()

    def step(
        self,
        step: int,
        objective: str,
        ratio: float | None = None,
        *,
        rank: int = 0,
        world: int = 1,
    ) -> StepBatch:
        """Return one rank's share of a step.

        Args:
            step: the batch's number in the order: that of the update, where all were trained on these data.
            objective: a name in `pretraining.models.OBJECTIVES`.
            ratio: masking ratio in percent; None for objectives without one.
            rank: number of the rank.
            world: number of ranks.
        """
        batches = self._config.batches
        epoch, samples = self.order.batch_of(step)
        begins, ends = self._cut.spans(samples)
        shares = lay_out(ends - begins, world, batches.pass_tokens)
        # Groups go by place in the step, not by rank or pass: so the loss does not depend on how passes are shared.
        groups = np.arange(len(samples)) // batches.group_size
        counts = torch.zeros(int(groups[-1]) + 1, dtype=torch.float64)
        microbatches, tokens, fingerprint = [], 0, 0
        for places in shares[rank]:
            packed, sample_of = self._pack(self._train, samples[places], epoch)
            group_of = torch.from_numpy(groups[places][sample_of])
            ungrouped = self._prepare(packed, objective, ratio, MLM_STREAM)
            microbatch = ungrouped.grouped(group_of)
            microbatches.append(microbatch)
            counts += microbatch.counts(len(counts))
            tokens += packed.num_tokens
            fingerprint += _fingerprint(packed, microbatch)
        passes = [len(share) for share in shares]
        return StepBatch(
            step=step,
            microbatches=microbatches,
            counts=counts,
            passes=sum(passes),
            common_passes=min(passes),
            tokens=tokens,
            fingerprint=fingerprint % 2**64,
        )

    def open_ahead(self, step: int, part: int = 0, parts: int = 1) -> Thread | None:
        """Open the shards of the block of sequences after a step's, in a thread; None where that was begun before.

        Shards are decompressed on first use. Without this all of a block's would be at the block's first step.

        Args:
            step: an update.
            part: which of the shards to open, from 0.
            parts: processes that share the work, those that see one cache.
        """
        epoch, block = self.order.block_of(step)
        firsts, ends = self.order.stretches(epoch, block + 1)
        if (epoch, block) in self._opened or not len(firsts):
            return None
        self._opened = {(epoch, block)}
        work = firsts[part::parts], ends[part::parts]
        # A daemon thread: a command that ends must not wait for shards that nobody will read.
        thread = Thread(target=self._open, args=work, name="shards", daemon=True)
        thread.start()
        return thread

    def _open(self, firsts: Sequence[int], ends: Sequence[int]) -> None:
        """Open the shards that hold the samples [first, end) of each stretch, by a look at some of their tokens."""
        for first, end in zip(firsts, ends, strict=True):
            token_begins, token_ends = self._cut.spans([first, end - 1])
            for place in range(int(token_begins[0]), int(token_ends[1]), _STRIDE):
                try:
                    self._train.read(place, place + 1)
                # Only warn here: the step that needs the shard will refuse it.
                except (UserError, OSError) as error:
                    logger.warning("a shard could not be prefetched: %s", error)
                    return

    def validation(
        self,
        objective: str,
        ratio: float | None = None,
        *,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[ObjectiveBatch]:
        """Yield one rank's share of the validation micro-batches, whose masks never change."""
        for samples in self._validation_samples()[rank::world]:
            packed, _ = self._pack(self._validation, np.array(samples), epoch=0)
            yield self._prepare(packed, objective, ratio, VALIDATION_STREAM)

    @property
    def validation_passes(self) -> int:
        """Micro-batches of a validation, on all ranks together."""
        return len(self._validation_samples())

    def _validation_samples(self) -> list[range]:
        """Return the samples of each micro-batch of a validation."""
        batches = self._config.batches
        whole = self._cut.count(self._validation.tokens)
        count = min(whole, self._config.record.eval_sequences)
        size = batches.pass_tokens // batches.max_length
        firsts = range(0, count, size)
        return [range(first, min(first + size, count)) for first in firsts]

    def _pack(
        self, stream: TokenStream, samples: Int64s, epoch: int
    ) -> tuple[PackedBatch, Int64s]:
        """Return the samples, packed, and for each sequence of the batch the place of the sample that it is from.

        A sequence's id, which keys its mask, is the place of its first token in the stream.
        """
        batches = self._config.batches
        eos_id = self.manifest["tokenizer"]["eos_id"]
        begins, ends = self._cut.spans(samples)
        ids: list[int] = []
        sequences: list[Tokens] = []
        sample_of: list[int] = []
        spans = zip(begins.tolist(), ends.tolist(), strict=True)
        for place, (begin, end) in enumerate(spans):
            tokens = stream.read(begin, end)
            if tokens.min() < 0 or tokens.max() >= self._vocab_size:
                raise UserError(
                    f"{stream.folder}: near token {begin} there is an id that the tokenizer does not have; "
                    f"write the shards again"
                )
            parts = [slice(0, len(tokens))]
            if batches.attention == "document":
                # Each document becomes a sequence, and attention does not cross sequences.
                parts = split_documents(tokens, eos_id)
            for part in parts:
                ids.append(begin + part.start)
                sequences.append(tokens[part])
                sample_of.append(place)
        packed = PackedBatch.of(
            sequences, ids, epoch=epoch, max_length=batches.max_length
        )
        return packed, np.array(sample_of, np.int64)

    def _prepare(
        self, packed: PackedBatch, objective: str, ratio: float | None, stream: int
    ) -> ObjectiveBatch:
        """Return the batch for an objective; `stream` is a key of the masks' generator: training or validation."""
        rule = None
        if ratio is not None:
            rule = MaskRule.of(
                self._model_config,
                ratio=ratio / 100,
                seed=self._config.seed,
                stream=stream,
                others=self._never_masked,
            )
        return prepare(packed, objective, rule)


class StageBatches:
    """The batches of one stage for this rank."""

    def __init__(
        self,
        data: Data,
        stage: PlannedStage,
        config: TrainingConfig,
        ranks: Ranks,
        *,
        spans: Sequence[tuple[int, int]],
    ) -> None:
        """Take a stage's batches from its data.

        Args:
            data: what it is trained on.
            stage: the stage.
            config: its settings.
            ranks: this process's place.
            spans: the steps [first, end) up to its end that are trained on the same data.
        """
        self._data, self._stage, self._ranks = data, stage, ranks
        self._config, self._spans = config.batches, spans
        # Processes that share a cache divide the opening of shards: all of them if all machines see the folder (such
        # as a job's scratch), else those of each machine.
        self._opener = ranks.local_rank, ranks.local_world
        if ranks.share(data.cache):
            self._opener = ranks.rank, ranks.world

    def of_step(self, step: int) -> StepBatch:
        """Return this rank's share of the update that `step` (counted from 0) makes."""
        data, stage, ranks = self._data, self._stage, self._ranks
        number = self._config.number(step, self._spans)
        data.open_ahead(number, *self._opener)
        ratio = stage.ratio_at(step)
        batch = data.step(
            number, stage.objective, ratio, rank=ranks.rank, world=ranks.world
        )
        return replace(batch, step=step)

    def validation(self) -> Iterator[ObjectiveBatch]:
        """Yield this rank's share of the validation passes, whose masks never change."""
        stage, ranks = self._stage, self._ranks
        return self._data.validation(
            stage.objective, stage.lasting_ratio, rank=ranks.rank, world=ranks.world
        )

    @property
    def validation_passes(self) -> int:
        """Passes of a validation that every rank has."""
        return self._data.validation_passes // self._ranks.world

    def announce_epochs(self, first: int, end: int) -> None:
        """Log at which of the steps [first, end) the next epoch begins, and in which epoch the steps end."""
        length = self._data.order.steps_per_epoch
        epochs = []
        for step in range(first, end):
            number = self._config.number(step, self._spans)
            epochs.append(number // length + 1)
        for step, epoch in enumerate(epochs, first):
            if epoch > epochs[0]:
                logger.warning(
                    "%s: the shards last for %s steps; at step %d epoch %d begins, and the stage ends in epoch %d",
                    self._stage.name,
                    f"{length:,}",
                    step,
                    epoch,
                    epochs[-1],
                )
                return


def prefetched(
    load: Callable[[int], StepBatch], first: int, end: int
) -> Generator[StepBatch, None, None]:
    """Yield `load(step)` for the steps [first, end), made a few steps ahead by a thread."""
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        ahead = range(first, min(first + _AHEAD, end))
        ready = deque(pool.submit(load, step) for step in ahead)
        try:
            for step in range(first, end):
                batch = ready.popleft().result()
                if step + _AHEAD < end:
                    ready.append(pool.submit(load, step + _AHEAD))
                yield batch
        finally:
            pool.shutdown(cancel_futures=True)


def _fingerprint(packed: PackedBatch, prepared: ObjectiveBatch) -> int:
    """Return the sum of one hash per sequence (`StepBatch.fingerprint`), not yet modulo 2^64."""
    # Little-endian integers of fixed width, so that a fingerprint is the same on every machine.
    tokens = packed.tokens.numpy().astype("<i4")
    inputs = prepared.inputs.tokens.numpy().astype("<i4")
    bounds = packed.cu_seqlens.tolist()
    total = 0
    for number, sample in enumerate(packed.sample_ids.tolist()):
        part = slice(bounds[number], bounds[number + 1])
        key = np.array([sample, packed.epoch], "<i8")
        digest = hashlib.blake2b(key.tobytes(), digest_size=8)
        digest.update(tokens[part].tobytes())
        digest.update(inputs[part].tobytes())
        total += int.from_bytes(digest.digest(), "little")
    return total
