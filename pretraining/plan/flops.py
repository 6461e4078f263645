"""Costs of training: FLOPs per token by two conventions. Standard library only.

- `hoffmann`: Appendix F of Hoffmann et al. (2022, arXiv 2203.15556), the convention of the paper's Figure 10. It
  counts the embedding look-up as a matrix product and a full square of attention scores, and takes the backward
  pass as twice the forward pass. Two terms are ours, since that appendix describes another block: keys and
  values have fewer heads (GQA), and the feed-forward layer has three matrices (SwiGLU).
- `model`: what MFU is measured against (Chowdhery et al. 2022, Appendix B): 6 per parameter of a matrix product,
  the head only at the positions that pass it, plus the full square of attention scores.
"""

from __future__ import annotations

from pretraining.paper_settings import Shape, effective_length


def hoffmann_flops_per_token(shape: Shape, *, length: float | None = None) -> float:
    """Return training FLOPs per token (forward and backward) by Hoffmann et al., Appendix F.

    By this convention logits are computed at every position, so that MLM costs as much as CLM.

    Args:
        shape: the model's shape.
        length: tokens of a sequence; `effective_length()` when left out.
    """
    length = effective_length() if length is None else length
    width = shape.heads * shape.head_dim
    kv_width = shape.kv_heads * shape.head_dim

    # A token's product with a matrix takes 2 FLOPs (multiply and add) for each of the matrix's entries.
    embedding = 2 * shape.vocab * shape.hidden
    queries_keys_values = 2 * shape.hidden * (width + 2 * kv_width)
    output = 2 * width * shape.hidden

    # Each token attends to `length` tokens.
    scores = 2 * length * width
    # By that appendix a softmax takes 3 FLOPs for each score.
    softmax = 3 * shape.heads * length
    weighted_values = 2 * length * width
    feed_forward = 2 * 3 * shape.hidden * shape.mlp
    attention = scores + softmax + weighted_values
    layer = queries_keys_values + output + attention + feed_forward
    logits = 2 * shape.hidden * shape.vocab
    forward = embedding + shape.layers * layer + logits
    return 3 * forward  # the backward pass takes twice the forward pass


def model_flops_per_token(
    shape: Shape, *, length: float | None = None, predicted: float = 1.0
) -> float:
    """Return the training FLOPs per token that MFU counts: no look-up, no softmax, no recomputation.

    Args:
        shape: the model's shape.
        length: tokens of a sequence; `effective_length()` when left out.
        predicted: share of positions that pass the head: 1 for CLM, the masking ratio for MLM.
    """
    length = effective_length() if length is None else length
    # 6 FLOPs for each parameter: 2 forward and 4 backward. Attention has two products (scores, and weighted values), so
    # 12 for each channel and each token that is attended to. The head has as many parameters as the embedding.
    matrices = shape.body_parameters + predicted * shape.embedding_parameters
    width = shape.heads * shape.head_dim
    return 6 * matrices + 12 * shape.layers * width * length
