"""The model of a stage on its device: its weights, attention kernel and compiled blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from pretraining.model.attention import resolve_backend
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.training.context import TrainingContext
from pretraining.training.objectives import ObjectiveBatch, loss_sum

__all__ = ["build_model", "compile_model"]

logger = logging.getLogger(__name__)


def build_model(context: TrainingContext, *, is_seeded: bool) -> tuple[EuroBertForMaskedLM, str]:
    """Return a model on the context's device as the settings want it, and its attention backend.

    Args:
        context: settings and device.
        is_seeded: give it the seed's weights; others are going to be loaded.
    """
    config, device = context.config, context.ranks.device
    model = EuroBertForMaskedLM(context.model_config)
    if is_seeded:
        initialise(model, config.seed)
    model.to(device)
    if config.activation_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.model.bf16_residual = config.residual == "bf16"
    model.fuse_projections(device.type == "cuda")
    dtype = torch.bfloat16 if context.bf16 else torch.float32
    attention = resolve_backend(config.backend, device, dtype, context.model_config.head_dim).name
    model.set_attention_backend(attention)
    return model, attention


def compile_model(
    model: EuroBertForMaskedLM, batch: Callable[[], ObjectiveBatch], context: TrainingContext
) -> str:
    """Compile the blocks where that is wanted and works; return `on`, `off` or why it is off.

    Args:
        model: on its device.
        batch: gives one pass to try; gradients are zero afterwards.
        context: settings and device.

    Raises:
        torch.OutOfMemoryError: the pass does not fit.
    """
    wanted, device = context.config.compile, context.ranks.device
    if wanted == "off" or (wanted == "auto" and device.type != "cuda"):
        return "off"
    model.compile_blocks()
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=context.bf16):
            loss_sum(model, batch().to(device)).mean.backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        raise  # no fault of the compiler, and less would fit without it
    except RuntimeError as error:  # what Dynamo, Inductor and Triton raise is derived from it
        model.uncompile_blocks()
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0][:200]
        logger.warning("torch.compile failed (%s); training continues without it", reason)
        return f"off: {reason}"
    finally:
        model.zero_grad(set_to_none=True)
    return "on"
