"""The batch of any step, for any rank: read, cut, ordered, masked, laid out in passes and fingerprinted.

The fourth file of the loop (`train` lists them): `stage` asks `StageBatches` for each step's batch, in a thread that is
a few steps ahead. Words that are used here:

    rank         one process of the job; each computes its share of a step's batch
    sample       a sequence of the data, by its number in the order of the token stream
    sequence     tokens that attend to each other: a sample, or one of its documents with `attention=document`
    place        position of a sample in the step's batch, from 0
    pass         a forward and backward pass of the model over one micro-batch of packed sequences
    group        consecutive places of the batch, the paper's micro-batch, from which the weights of tokens in the loss
                 follow (`objectives.group_weights`)
    fingerprint  a hash of a batch, for the log: equal fingerprints mean equal sequences and masks

Everything follows from the settings, the data and the step, so that nothing has to be stored to resume after a
kill, and two models of the study see the same sequences at the same step.

The gradient of a step does not depend on which sequences a rank computes, nor on which of them share a pass through the
model. Both only serve speed: ranks wait for the one with most tokens, and full passes are faster than the same tokens
in more passes.
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
"""How many batches are made before they are needed."""
_STRIDE = 2**20
"""Where shards are opened ahead, one token in so many is read: fewer than a shard has, so that none is left out."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One rank's share of a step's batch."""

    step: int
    """The update that is trained on it, counted from 0."""
    microbatches: list[ObjectiveBatch]
    """The share: one micro-batch for each pass, of at most `Batches.pass_tokens` tokens."""
    counts: Tensor
    """How many tokens of this share are predicted, for each of the step's G groups: (G,), float64."""
    passes: int
    """Number of passes of all ranks together."""
    common_passes: int = 1
    """Number of passes that every rank has: that of the rank with the fewest."""
    tokens: int
    """Number of tokens in this share."""
    fingerprint: int
    """Sum, modulo 2^64, of one hash for each sequence: of its id, its tokens and its tokens with masks. So the sum over
    ranks does not depend on how the batch is shared."""

    def weighed(self, weights: Tensor) -> StepBatch:
        """Return the share with these weights: a predicted token's weight in the loss, by its group, (G,)."""
        parts = [replace(part, weights=weights) for part in self.microbatches]
        return replace(self, microbatches=parts)


class Data:
    """A set of shards, whose token stream is cut into samples, ordered and made into batches as the settings say."""

    def __init__(
        self,
        folder: Path,
        config: TrainingConfig,
        model_config: EncoderConfig,
        remote: RemoteShards | None = None,
    ) -> None:
        """Open the shards.

        Args:
            folder: the folder of the shards; for remote ones, a folder with copies of their small files.
            config: the settings.
            model_config: configuration of the model.
            remote: where the shards are, if they are not in `folder`.

        Raises:
            UserError: no or damaged shards, too few sequences, or ids beyond the rows of the model's embedding.
        """
        self.manifest = load_manifest(folder)
        self._config, self._model_config = config, model_config
        batches, tokenizer = config.batches, self.manifest["tokenizer"]

        # The model's embedding must have a row for each id.
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
        """Folder of decompressed shards."""
        streams = {}
        # Each set of shards has a folder in the cache, by its hash. `limit_bytes` limits the whole cache.
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

        # How both splits are cut into samples, and the order of the training samples.
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
        """The order in which samples are trained on, epoch after epoch."""
        self._opened: set[tuple[int, int]] = set()
        """Epoch and number of the block of samples after which shards were last opened ahead; empty before that."""

    def step(
        self,
        step: int,
        objective: str,
        ratio: float | None = None,
        *,
        rank: int = 0,
        world: int = 1,
    ) -> StepBatch:
        """Return one rank's share of a batch.

        Args:
            step: number of the batch in the order. It is the number of the update if all updates so far were trained on
                these data.
            objective: a name in `pretraining.models.OBJECTIVES`.
            ratio: masking ratio in percent; None for objectives without one.
            rank: number of the rank.
            world: number of ranks.
        """
        batches = self._config.batches
        epoch, samples = self.order.batch_of(step)
        # Where each sample begins and ends in the token stream.
        begins, ends = self._cut.spans(samples)

        # For every rank, the places in the batch of the samples of each of its passes.
        shares = lay_out(ends - begins, world, batches.pass_tokens)
        # Groups go by place in the batch, not by rank or pass: so the loss does not depend on how the batch is shared.
        groups = np.arange(len(samples)) // batches.group_size
        # Groups are numbered from 0, so there is one more than the last number.
        counts = torch.zeros(int(groups[-1]) + 1, dtype=torch.float64)
        microbatches, tokens, fingerprint = [], 0, 0
        for places in shares[rank]:
            packed, sample_of = self._pack(self._train, samples[places], epoch)
            # A sample may be several sequences: each is in its sample's group.
            group_of = torch.from_numpy(groups[places][sample_of])
            ungrouped = self._prepare(packed, objective, ratio, MLM_STREAM)
            microbatch = ungrouped.grouped(group_of)
            microbatches.append(microbatch)
            # How many tokens this pass predicts, by group; the step has `len(counts)` groups.
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
        """Begin to open the shards that will be needed next, in a thread.

        Samples are shuffled in blocks (`Order`). A shard is decompressed when it is first read, so the first step of a
        block would have to wait for all shards of the block. They are opened here while the block before it is read.
        A block consists of stretches: samples that are next to each other in the data, and so in few shards.

        Args:
            step: number of a batch; the shards of the block after its own are opened.
            part: number of this process among those that share the work, from 0.
            parts: number of processes that share the work, which must see the same cache.

        Returns:
            The thread; None where there is no next block in the epoch, or its shards were opened before.
        """
        epoch, block = self.order.block_of(step)
        firsts, ends = self.order.stretches(epoch, block + 1)
        if (epoch, block) in self._opened or not len(firsts):
            return None

        # Only the last block is remembered, since steps rise.
        self._opened = {(epoch, block)}
        # Every `parts`-th stretch of samples, so that together the processes open all.
        work = firsts[part::parts], ends[part::parts]

        # A daemon thread: a command that ends must not wait for shards that nobody will read.
        thread = Thread(target=self._open, args=work, name="shards", daemon=True)
        thread.start()
        return thread

    def _open(self, firsts: Sequence[int], ends: Sequence[int]) -> None:
        """Open the shards of the samples [first, end) of each stretch, by reading some of their tokens.

        Reading one token opens its whole shard.
        """
        for first, end in zip(firsts, ends, strict=True):
            # Of the first and of the last sample, the first token and the one after the last. In both arrays
            # [0] is the first sample and [1] the last one.
            token_begins, token_ends = self._cut.spans([first, end - 1])
            for token in range(int(token_begins[0]), int(token_ends[1]), _STRIDE):
                try:
                    self._train.read(token, token + 1)
                # Only warn here: the step that needs the shard will raise the error.
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
        """Yield one rank's share of the validation's micro-batches, whose masks are the same in every validation.

        Args:
            objective: as in `step`.
            ratio: as in `step`.
            rank: number of the rank.
            world: number of ranks, which take the micro-batches in turns.
        """
        for samples in self._validation_samples()[rank::world]:
            packed, _ = self._pack(self._validation, np.array(samples), epoch=0)
            yield self._prepare(packed, objective, ratio, VALIDATION_STREAM)

    @property
    def validation_passes(self) -> int:
        """Number of micro-batches of a validation, of all ranks together."""
        return len(self._validation_samples())

    def _validation_samples(self) -> list[range]:
        """Return the samples of each micro-batch of a validation: the split's first `eval_sequences`, in order."""
        batches = self._config.batches
        whole = self._cut.count(self._validation.tokens)
        count = min(whole, self._config.record.eval_sequences)
        # Even samples of full length must fit into a pass.
        size = batches.pass_tokens // batches.max_length
        firsts = range(0, count, size)
        return [range(first, min(first + size, count)) for first in firsts]

    def _pack(
        self, stream: TokenStream, samples: Int64s, epoch: int
    ) -> tuple[PackedBatch, Int64s]:
        """Read samples and pack them into a batch of sequences.

        A sequence's id, from which its mask is drawn, is the position of its first token in the stream.

        Args:
            stream: the split to read from.
            samples: numbers of the samples.
            epoch: the epoch, from which masks are drawn as well.

        Returns:
            The batch, and for each of its sequences the index in `samples` of the sample that it is from.
        """
        batches = self._config.batches
        eos_id = self.manifest["tokenizer"]["eos_id"]
        # Where each sample begins and ends in the token stream.
        begins, ends = self._cut.spans(samples)
        ids: list[int] = []
        sequences: list[Tokens] = []
        sample_of: list[int] = []
        spans = zip(begins.tolist(), ends.tolist(), strict=True)
        for index, (begin, end) in enumerate(spans):
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
                sample_of.append(index)

        packed = PackedBatch.of(
            sequences, ids, epoch=epoch, max_length=batches.max_length
        )
        return packed, np.array(sample_of, np.int64)

    def _prepare(
        self, packed: PackedBatch, objective: str, ratio: float | None, stream: int
    ) -> ObjectiveBatch:
        """Return a batch with inputs and labels for an objective.

        Args:
            packed: the sequences.
            objective: a name in `pretraining.models.OBJECTIVES`.
            ratio: masking ratio in percent; None for objectives without one.
            stream: `MLM_STREAM` or `VALIDATION_STREAM`, so that masks of training and validation are drawn apart.
        """
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
    """This rank's shares of the batches of one stage."""

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
            data: the data that it is trained on.
            stage: the stage.
            config: the settings.
            ranks: this process among those of the job.
            spans: the steps [first, end) of this and earlier stages that are trained on the same data; they decide
                which batch of the data a step gets.
        """
        self._data, self._stage, self._ranks = data, stage, ranks
        self._config, self._spans = config.batches, spans
        # Processes with the same cache of shards divide the work of opening them: all processes if all machines see the
        # folder, as on a shared disk, else those of one machine. The pair is this process's number, and how many share.
        self._opener = ranks.local_rank, ranks.local_world
        if ranks.share(data.cache):
            self._opener = ranks.rank, ranks.world

    def of_step(self, step: int) -> StepBatch:
        """Return this rank's share of the batch of an update.

        Args:
            step: number of the update, counted from 0 at the start of pretraining.
        """
        data, stage, ranks = self._data, self._stage, self._ranks
        # Which batch of these data: stages on other data and skipped batches make it differ from the step.
        number = self._config.number(step, self._spans)
        data.open_ahead(number, *self._opener)
        ratio = stage.ratio_at(step)
        batch = data.step(
            number, stage.objective, ratio, rank=ranks.rank, world=ranks.world
        )
        # `Data.step` has recorded the batch's number in its data as the step.
        return replace(batch, step=step)

    def validation(self) -> Iterator[ObjectiveBatch]:
        """Yield this rank's micro-batches of a validation, whose masks are the same in every validation."""
        stage, ranks = self._stage, self._ranks
        return self._data.validation(
            stage.objective, stage.lasting_ratio, rank=ranks.rank, world=ranks.world
        )

    @property
    def validation_passes(self) -> int:
        """Number of passes of a validation that every rank has; some ranks may have one more."""
        return self._data.validation_passes // self._ranks.world

    def announce_epochs(self, first: int, end: int) -> None:
        """Warn if the data are read more than once in the steps [first, end): when that begins, and the last epoch.

        Epochs are counted from 1.
        """
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
    """Yield `load(step)` for the steps [first, end) in turn; a thread calls it a few steps ahead."""
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        ahead = range(first, min(first + _AHEAD, end))
        ready = deque(pool.submit(load, step) for step in ahead)
        try:
            for step in range(first, end):
                batch = ready.popleft().result()
                # For the batch that is taken, another one is begun.
                if step + _AHEAD < end:
                    ready.append(pool.submit(load, step + _AHEAD))
                yield batch
        finally:
            # When the caller stops early: do not make the batches that have not begun.
            pool.shutdown(cancel_futures=True)


def _fingerprint(packed: PackedBatch, prepared: ObjectiveBatch) -> int:
    """Return the sum of one hash for each sequence of a pass (`StepBatch.fingerprint`), not yet modulo 2^64.

    Args:
        packed: the sequences.
        prepared: the same, made ready for the objective: its inputs are the tokens with masks.
    """
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
