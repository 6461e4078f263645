"""The network of a stage on its device: built or loaded, with its attention, and compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from pretraining.model.adapted import AdaptedModel
from pretraining.model.attention import resolve_backend
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.start_folder import try_export
from pretraining.model.start_weights import (
    Trained,
    load_corrected,
    network_of,
)
from pretraining.training.context import TrainingContext
from pretraining.training.objectives import ObjectiveBatch, loss_sum

logger = logging.getLogger(__name__)


def build_model(context: TrainingContext, *, is_seeded: bool) -> tuple[Trained, str]:
    """Return a model on the context's device as the settings want it, and its attention backend.

    Args:
        context: settings and device.
        is_seeded: give it the start's weights, or the seed's; others are going to be loaded.
    """
    config, device = context.config, context.ranks.device
    model: Trained
    if context.start is not None:
        start, shape = context.start, context.model_config
        if is_seeded:
            model = load_corrected(start, config.seed)
            # Checkpoints record the hashes of the start, so the weights that were read must still be those.
            start.check_unchanged()
            try_export(start, model, context.data_folder / "tokenizer")
        else:
            model = network_of(start, shape)
        model.train()
    else:
        model = EuroBertForMaskedLM(context.model_config)
        if is_seeded:
            initialise(model, config.seed)
    model.to(device)
    dtype = torch.bfloat16 if context.bf16 else torch.float32
    if isinstance(model, EuroBertForMaskedLM):
        # On a GPU queries, keys and values are one product, not three; in checkpoints the parameters keep their names.
        model.fuse_projections(device.type == "cuda")
        model.body.residual_is_narrow = config.machine.residual == "bf16"
        head_dim = model.config.head_dim
    else:
        head_dim = model.head_dim
    attention = resolve_backend(config.machine.backend, device, dtype, head_dim).name
    model.set_attention_backend(attention)
    return model, attention


def compile_model(
    model: Trained, batch: Callable[[], ObjectiveBatch], context: TrainingContext
) -> str:
    """Compile the blocks where that is wanted and works; return `on`, `off` or why it is off.

    Args:
        model: on its device.
        batch: gives one pass to try; gradients are zero afterwards.
        context: settings and device.

    Raises:
        torch.OutOfMemoryError: the pass does not fit.
    """
    wanted, device = context.config.machine.compile, context.ranks.device
    if wanted == "off":
        return "off"
    # Models of transformers' classes were never measured compiled on a GPU.
    is_measured = device.type == "cuda" and not isinstance(model, AdaptedModel)
    if wanted == "auto" and not is_measured:
        return "off"
    tuned = {"coordinate_descent_tuning": True} if wanted == "tuned" else None
    model.compile_blocks(options=tuned)
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=context.bf16):
            loss_sum(model, batch().to(device)).mean.backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        raise  # no fault of the compiler, and less would fit without it
    except RuntimeError as error:
        # Errors of Dynamo, Inductor and Triton are RuntimeErrors: train without compiled blocks.
        model.uncompile_blocks()
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0][:200]
        logger.warning(
            "torch.compile failed (%s); training continues without it", reason
        )
        return f"off: {reason}"
    finally:
        model.zero_grad(set_to_none=True)
    return "on"
