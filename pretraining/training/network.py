"""The model that a stage trains: built on its device, with an attention backend, and compiled.

A start is an existing model from which a pretraining takes its weights (`pretraining.starts`); without one, the model
is this package's encoder with random weights.
"""

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
    """Return a model on the context's device, and the name of the attention backend that it uses.

    Args:
        context: settings and device.
        is_seeded: whether the model gets its first weights: those of the start, or random ones from the seed. False
            when the caller loads a checkpoint into it afterwards.
    """
    config, device = context.config, context.ranks.device
    model: Trained
    if context.start is not None:
        start = context.start
        if is_seeded:
            model = load_corrected(start, config.seed)
            # Checkpoints record the start's hashes, which were computed earlier: the files must still be the same.
            start.check_unchanged()
            # Now rather than after the last step: refuse a start whose trained weights could not be exported.
            try_export(start, model, context.data_folder / "tokenizer")
        else:
            model = network_of(start, context.model_config)

        # transformers hands over a loaded model in evaluation mode.
        model.train()
    else:
        model = EuroBertForMaskedLM(context.model_config)
        if is_seeded:
            initialise(model, config.seed)

    model.to(device)
    dtype = torch.bfloat16 if context.bf16 else torch.float32
    if isinstance(model, EuroBertForMaskedLM):
        # On a GPU one matrix product for queries, keys and values is faster than three. The parameters stay apart, so
        # checkpoints do not change.
        model.fuse_projections(device.type == "cuda")
        # The type in which blocks add: bf16, that of matrix products, or that of the weights.
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
    """Compile the model's blocks if the settings want it, and try them on one pass.

    Args:
        model: the model, on its device.
        batch: returns the micro-batch to try; called only if there is something to compile.
        context: settings and device.

    Returns:
        `on`; `off`; or, if compiling failed, `off: ` with the reason. The model then runs without.

    Raises:
        torch.OutOfMemoryError: the pass does not fit into the GPU's memory.
    """
    wanted, device = context.config.machine.compile, context.ranks.device
    if wanted == "off":
        return "off"

    # `auto` compiles on a GPU only, and no models of transformers' classes: those were never measured compiled there.
    is_measured = device.type == "cuda" and not isinstance(model, AdaptedModel)
    if wanted == "auto" and not is_measured:
        return "off"
    # The option lets Inductor, torch's compiler, try more variants of each kernel.
    tuned = {"coordinate_descent_tuning": True} if wanted == "tuned" else None
    model.compile_blocks(options=tuned)

    # Backward as well: that pass has a compiled graph of its own.
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
        # The tried pass has left gradients, which the first update must not add to its own.
        model.zero_grad(set_to_none=True)

    return "on"
