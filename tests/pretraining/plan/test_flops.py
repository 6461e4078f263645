import pytest

from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.flops import hoffmann_flops_per_token, model_flops_per_token


def hoffmann_as_printed(
    d: int, layers: int, heads: int, key: int, ffw: int, vocab: int, length: int
) -> float:
    """Appendix F of Hoffmann et al., line by line, for a whole sequence and its block (two matrices, no GQA)."""
    embeddings = 2 * length * vocab * d
    projections = 2 * 3 * length * d * (key * heads)
    logits = 2 * length * length * (key * heads)
    softmax = 3 * heads * length * length
    reduction = 2 * length * length * (key * heads)
    final_linear = 2 * length * (key * heads) * d
    dense = 2 * length * (d * ffw + d * ffw)
    final_logits = 2 * length * d * vocab
    forward = embeddings + layers * (
        projections + logits + softmax + reduction + final_linear + dense
    )
    return 3 * (forward + final_logits)


def test_hoffmann_equals_the_appendix_on_the_same_block() -> None:
    # The appendix's 73M model: 640 wide, 10 layers, 10 heads of 64, feed-forward 2560, vocabulary 32,000. Three
    # SwiGLU matrices of 2/3 the width cost what its two do.
    ours = Shape(hidden=640, layers=10, heads=10, kv_heads=10, mlp=2560, vocab=32_000)
    printed = hoffmann_as_printed(640, 10, 10, 64, 2560 * 3 // 2, 32_000, 2048)
    assert hoffmann_flops_per_token(ours, length=2048) * 2048 == pytest.approx(
        printed, rel=1e-12
    )


@pytest.mark.parametrize(
    ("size", "expected"), [("210m", 1.50e9), ("610m", 4.38e9), ("1b", 8.32e9)]
)
def test_model_flops_at_2048_tokens(size: str, expected: float) -> None:
    assert model_flops_per_token(SHAPES[size], length=2048) == pytest.approx(
        expected, rel=2e-3
    )


def test_the_masked_head_saves_its_share() -> None:
    shape = SHAPES["210m"]
    saved = model_flops_per_token(shape) - model_flops_per_token(shape, predicted=0.4)
    assert saved == pytest.approx(6 * 0.6 * shape.embedding_parameters)
