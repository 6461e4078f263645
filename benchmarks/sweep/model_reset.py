"""One loaded model, given back its original weights before every run: what the runs of a cell share."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.finetuning.device import Machine
from benchmarks.finetuning.encoders import Loaded
from benchmarks.finetuning.heads import SequenceHead, TokenHead, initialise_head
from benchmarks.protocol import Dataset
from benchmarks.tasks.supervised import Measured
from common.errors import UserError

__all__ = ["Workbench"]


@dataclass(kw_only=True)
class Workbench:
    """A model on its device and a copy of its weights.

    A run that starts here does not depend on what ran before: weights and buffers are copied back, the head is
    new and drawn from the run's seed.
    """

    loaded: Loaded
    """The model; it is moved to the machine."""
    machine: Machine
    """Where it lives."""
    pooling: str
    """How a sequence becomes a vector."""
    _pristine: dict[str, Tensor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        encoder = self.loaded.encoder
        self.machine.place(encoder)
        self._pristine = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        self._buffers = {name: tensor.clone() for name, tensor in encoder.named_buffers()}

    @property
    def run_bytes(self) -> int:
        """About what one more run on the same CPU needs: weights, gradients, AdamW's moments, activations."""
        config = self.loaded.encoder.base.config
        layers = int(getattr(config, "num_hidden_layers", 12))
        parameters = sum(parameter.numel() for parameter in self.loaded.encoder.parameters())
        activations = 40 * layers * self.loaded.encoder.hidden_size * self.machine.train_positions
        return 4 * (4 * parameters + activations) + 2**28

    @torch.no_grad()
    def fresh(self, dataset: Dataset, seed: int) -> Measured:
        """Return the model as loaded, with a new head for the dataset."""
        encoder = self.loaded.encoder
        for parameter in encoder.parameters():
            parameter.grad = None
        for name, tensor in encoder.state_dict().items():
            tensor.copy_(self._pristine[name])
        for name, tensor in encoder.named_buffers():
            tensor.copy_(self._buffers[name])
        model = Measured(encoder, self._head(dataset))
        if model.head is not None:
            initialise_head(model.head, encoder.init_std, seed)
            self.machine.place(model.head)
        return model

    def _head(self, dataset: Dataset) -> SequenceHead | TokenHead | None:
        if dataset.task == "IR":
            return None
        if dataset.labels is None:
            raise UserError(f"{dataset.name} has no number of labels in benchmarks/protocol.py")
        width = self.loaded.encoder.hidden_size
        if dataset.task == "SC":
            return SequenceHead(width, dataset.labels, self.pooling)
        return TokenHead(width, dataset.labels)
