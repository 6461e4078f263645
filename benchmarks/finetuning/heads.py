"""Heads on an encoder's hidden states, and how a sequence becomes one vector.

A head is one of the study's, or the head of the model's own class in transformers, with which the paper's code
fine-tunes BERT and its kind (D19).

Shape suffixes: B examples, L padded length, H hidden size.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling

from benchmarks.finetuning.encoders import Encoder
from benchmarks.protocol import HeadName
from common.errors import UserError, first_line
from common.registry import Registry
from pretraining.models import PREDICTION_SHIFT
from pretraining.paper_settings import is_own_type

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """A way to make one vector of a sequence."""

    name: str
    """As `--pooling` and `run.json` name it."""
    pool: Callable[[Tensor, Tensor], Tensor]
    """Returns (B, H) for hidden states (B, L, H) and the numbers of real tokens (B,), which come first in a row."""
    of_logits: bool = False
    """Whether a sequence head is put on every token, and its logits are pooled instead of the hidden states."""
    mode: str = ""
    """What sentence-transformers calls it; empty: `--keep` keeps no encoder with it."""
    eurobert: str = ""
    """What EuroBERT's classifier calls it; empty: EuroBERT's classifier does not have it."""
    code: str = ""
    """The pooling as a line of Python on a kept encoder's card, where `hidden` is (B, L, H), `mask` (B, L, 1) and
    `batch` the tokenizer's output."""


def _is_real(hidden: Tensor, lengths: Tensor) -> Tensor:
    """Return (B, L) which tokens are no padding."""
    places = torch.arange(hidden.shape[1], device=hidden.device)
    return places < lengths[:, None]


def _mean(hidden: Tensor, lengths: Tensor) -> Tensor:
    # As in sentence-transformers, the mask is summed in the states' type: in bfloat16 both sums are rounded.
    mask = _is_real(hidden, lengths).to(hidden.dtype)[..., None]
    return (hidden * mask).sum(1) / mask.sum(1)


def _first(hidden: Tensor, lengths: Tensor) -> Tensor:
    return hidden[:, 0]


def _last(hidden: Tensor, lengths: Tensor) -> Tensor:
    rows = torch.arange(len(hidden), device=hidden.device)
    return hidden[rows, lengths - 1]


MEAN = Pooling(
    name="mean",
    pool=_mean,
    mode="mean",
    eurobert="mean",
    code="(hidden * mask).sum(1) / mask.sum(1)",
)

POOLINGS: Registry[Pooling] = Registry(
    "pooling",
    [
        MEAN,
        Pooling(
            name="first", pool=_first, mode="cls", eurobert="bos", code="hidden[:, 0]"
        ),
        Pooling(
            name="last",
            pool=_last,
            mode="lasttoken",
            code='hidden[torch.arange(len(hidden)), batch["attention_mask"].sum(1) - 1]',
        ),
        Pooling(
            name="late",
            pool=_mean,
            of_logits=True,
            mode="mean",
            eurobert="late",
            code="hidden  # the mean is taken of the logits",
        ),
    ],
)
"""Mean over the tokens (the paper's), first token, last token, or mean of the tokens' logits."""


class Head(nn.Module):
    """What turns hidden states (B, L, H) and the numbers of real tokens (B,) into logits."""

    @torch.no_grad()
    def draw(self, std: float, seed: int) -> None:
        """Draw the weights from normal(0, std) with the run's seed alone, module by module; biases are zero.

        The numbers are those that the global generator gives after `torch.manual_seed(seed)`, in float32 on the CPU, so
        they do not depend on the device.
        """
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                weight = torch.empty(module.weight.shape)
                weight.normal_(0.0, std, generator=generator)
                module.weight.copy_(weight)
                module.bias.zero_()


class TokenHead(Head):
    """One linear layer with bias on every token (TC, QA), or on the token before it.

    The token before is read after masked next-token prediction (MNTP), which predicted each token from there.
    """

    def __init__(self, hidden: int, labels: int, shift: int = 0) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, labels)
        self.shift = shift

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, L, labels)."""
        if self.shift:
            # The first tokens have no token before them and read themselves.
            first, before = hidden[:, : self.shift], hidden[:, : -self.shift]
            hidden = torch.cat([first, before], dim=1)
        logits: Tensor = self.out(hidden)
        return logits


class SequenceHead(Head):
    """Linear, GELU and linear on the pooled sequence (SC), or on every token before pooling."""

    def __init__(self, hidden: int, labels: int, pooling: Pooling = MEAN) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, labels)
        self.pooling = pooling

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, labels)."""
        pool, of_logits = self.pooling.pool, self.pooling.of_logits
        vectors = hidden if of_logits else pool(hidden, lengths)
        dense = nn.functional.gelu(self.dense(vectors))
        logits: Tensor = self.out(dense)
        return pool(logits, lengths) if of_logits else logits


class _States(nn.Module):
    """Takes the place of a class's base model, and returns hidden states that were computed before."""

    def __init__(self, pooler: nn.Module | None) -> None:
        super().__init__()
        self.pooler = pooler

    def forward(
        self, *args: Any, inputs_embeds: Tensor, **others: Any
    ) -> BaseModelOutputWithPooling:
        pooled = None if self.pooler is None else self.pooler(inputs_embeds)
        return BaseModelOutputWithPooling(
            last_hidden_state=inputs_embeds, pooler_output=pooled
        )


class ClassHead(Head):
    """The whole head of a class of transformers, with that class's code and initial weights."""

    def __init__(self, encoder: Encoder, kind: Any, labels: int) -> None:
        """Make the head of the class `kind` for a number of labels; `draw` gives it its weights."""
        super().__init__()
        config: Any = copy.deepcopy(encoder.base.config)
        config.num_labels = labels

        # The whole model is made without memory. Memory is only for what is left once its base model is taken out.
        # Whatever the class draws while it is made, `fork_rng` puts the global generator back.
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            model = kind(config)
        # First something without weights, so that `to_empty` makes memory for the head only. `_States` comes
        # after it: `to_empty` would also replace the weights of the encoder's pooler.
        setattr(model, model.base_model_prefix, nn.Identity())
        model.to_empty(device="cpu")
        setattr(model, model.base_model_prefix, _States(encoder.pooler))
        self.model = model

        # Modules with weights of the checkpoint, which `draw` leaves alone.
        pooler = None if encoder.fresh_pooler else encoder.pooler
        self._kept = () if pooler is None else tuple(pooler.modules())

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits, (B, labels) of sequences or (B, L, labels) of tokens."""
        mask = _is_real(hidden, lengths).long()
        # `_States` stands for the base model: it returns these inputs as the hidden states.
        outputs = self.model(inputs_embeds=hidden, attention_mask=mask)
        logits: Tensor = outputs.logits
        return logits

    @torch.no_grad()
    def draw(self, std: float, seed: int) -> None:
        """Draw the weights as the class does when it is loaded after `set_seed(seed)`; a loaded pooler is kept.

        `std` has no effect: the class draws by its configuration.
        """

        def draw(module: nn.Module) -> None:
            if module not in self._kept:
                self.model._init_weights(module)

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model.apply(draw)


def _class_head(
    encoder: Encoder, auto: Any, labels: int, shape: tuple[int, ...], head: HeadName
) -> ClassHead | None:
    """Return the head that transformers has for a base model; None where the study's head is used instead.

    The study's head is used where it is asked for, and in four cases:

    - the paper's own class, whose head is not public (U3);
    - decoders, whose heads read the last token before the padding;
    - encoders of encoder-decoders;
    - classes whose head needs more than hidden states, which is logged.

    Args:
        encoder: the encoder that the head is put on.
        auto: transformers' auto class that finds the class with such a head for a configuration.
        labels: number of labels.
        shape: the shape of the logits for two rows of six tokens.
        head: whose head is asked for.
    """
    config: Any = encoder.base.config
    if head == "ours" or encoder.is_decoder or is_own_type(config.model_type):
        return None
    # The class that has such a head; None where this type of model has none.
    kind = auto._model_mapping.get(type(config), None)

    # A head of an encoder-decoder's class needs the whole model, not only the encoder: the base must be what
    # `AutoModel` makes of this configuration.
    base_class = AutoModel._model_mapping.get(type(config), None)
    is_whole = base_class is not None and isinstance(encoder.base, base_class)
    if kind is None or not is_whole:
        return None

    # Tried once for each class; `encoder.heads` remembers the outcome: why the encoder cannot have this head,
    # or nothing if it can.
    if kind not in encoder.heads:
        fault = _fault(encoder, kind, labels, shape)
        encoder.heads[kind] = fault
        if fault:
            name = kind.__name__
            log.info("using our head, because the head of %s %s", name, fault)

    return None if encoder.heads[kind] else ClassHead(encoder, kind, labels)


@torch.no_grad()
def _fault(encoder: Encoder, kind: Any, labels: int, shape: tuple[int, ...]) -> str:
    """Return why the head of a class cannot be put on hidden states, as a pass on the CPU shows; empty if it can."""
    try:
        # Its weights are whatever was in memory: only the shape of the logits counts.
        head = ClassHead(encoder, kind, labels).eval()
        # A copy of the pooler for this pass: the encoder's own may be on a GPU, and in bfloat16.
        if encoder.pooler is not None:
            # The `_States` that `ClassHead` put in place of the base model.
            stand_in = getattr(head.model, head.model.base_model_prefix)
            stand_in.pooler = copy.deepcopy(encoder.pooler).to("cpu", torch.float32)
        states = torch.zeros(2, 6, encoder.hidden_size)
        # Two rows of six tokens; of the second row, two are padding.
        logits = head(states, torch.tensor([6, 4]))
    except Exception as error:  # whatever the code of a class may raise
        return f"needs more than hidden states ({type(error).__name__}: {first_line(error)})"

    actual = tuple(logits.shape)
    if actual == shape:
        return ""
    return f"produces logits of shape {actual} for two rows of six tokens"


def sequence_head(
    encoder: Encoder, labels: int, pooling: Pooling, head: HeadName
) -> Head:
    """Return the head of a sequence for a number of labels."""
    # (2, labels): the shape of the logits for two rows, with which `_class_head` tries the head.
    class_head = _class_head(
        encoder, AutoModelForSequenceClassification, labels, (2, labels), head
    )
    if class_head is None:
        return SequenceHead(encoder.hidden_size, labels, pooling)
    if pooling is not MEAN:
        raise UserError(
            f"--pooling {pooling.name} has no effect on the head of {type(class_head.model).__name__}, which pools "
            "in its own way; add --head ours"
        )
    return class_head


def token_head(encoder: Encoder, labels: int, head: HeadName) -> Head:
    """Return the head that is put on each token, for a number of labels."""
    # The configuration of a model trained by MNTP says how far before a token its prediction was. No class of
    # transformers reads a token from there, so such a model gets the study's head whatever `head` says.
    shift = int(getattr(encoder.base.config, PREDICTION_SHIFT, 0))
    if shift:
        return TokenHead(encoder.hidden_size, labels, shift)
    # The shape of the logits for two rows of six tokens, with which `_class_head` tries the head.
    auto, shape = AutoModelForTokenClassification, (2, 6, labels)
    class_head = _class_head(encoder, auto, labels, shape, head)
    return class_head or TokenHead(encoder.hidden_size, labels)
