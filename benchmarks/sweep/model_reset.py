"""One loaded model that gets its original weights back before every run: what the runs of a cell share."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.finetuning.class_heads import HEADS, HeadKind
from benchmarks.finetuning.device import Device
from benchmarks.finetuning.encoders import LoadedModel
from benchmarks.finetuning.heads import Pooling
from benchmarks.protocol import PAPER, Dataset
from benchmarks.tasks.base import TaskModel
from benchmarks.tasks.families import family_of
from pretraining.model.modeling import EuroBertModel

__all__ = ["ResettableModel"]


@dataclass(kw_only=True)
class ResettableModel:
    """A model on its device and a copy of its weights.

    A run that starts here does not depend on what ran before: weights and buffers are copied back, the head is
    new and initialised from the run's seed.
    """

    loaded: LoadedModel
    """The model; it is moved to the device."""
    device: Device
    """Where it is."""
    pooling: Pooling
    """How a sequence becomes a vector."""
    head: HeadKind = HEADS[PAPER]
    """Whose heads are put on the encoder."""
    _pristine: dict[str, Tensor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        encoder = self.loaded.encoder
        encoder.packs = self.device.packs and isinstance(encoder.base, EuroBertModel)
        self.device.place(encoder)
        self._pristine = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        self._buffers = {name: tensor.clone() for name, tensor in encoder.named_buffers()}

    @property
    def run_bytes(self) -> int:
        """About what one more run on the same CPU needs: weights, gradients, AdamW's moments, activations."""
        config = self.loaded.encoder.base.config
        layers = int(getattr(config, "num_hidden_layers", 12))
        parameters = sum(parameter.numel() for parameter in self.loaded.encoder.parameters())
        activations = 40 * layers * self.loaded.encoder.hidden_size * self.device.train_positions
        return 4 * (4 * parameters + activations) + 2**28

    @torch.no_grad()
    def reset(self, dataset: Dataset, seed: int) -> TaskModel:
        """Return the model as loaded, with a new head for the dataset."""
        encoder = self.loaded.encoder
        for parameter in encoder.parameters():
            parameter.grad = None
        for name, tensor in encoder.state_dict().items():
            tensor.copy_(self._pristine[name])
        for name, tensor in encoder.named_buffers():
            tensor.copy_(self._buffers[name])
        head = family_of(dataset).head(dataset, encoder, self.pooling, self.head)
        model = TaskModel(encoder, head)
        if model.head is not None:
            model.head.draw(encoder.init_std, seed)
            self.device.place(model.head)
        return model
