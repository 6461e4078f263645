import pytest

from pretraining.paper_settings import SPECIAL_TOKENS, effective_length


def test_effective_length_is_the_mean_over_uniform_lengths() -> None:
    lengths = range(12, 2049)
    assert effective_length(12, 2048) == pytest.approx(
        sum(n * n for n in lengths) / sum(lengths), rel=1e-12
    )
    assert effective_length(7, 7) == 7


def test_special_tokens_are_written_once() -> None:
    """Tokenizer, model and masks take them from here."""
    from pretraining.data.tokenizer import llama3_special_tokens
    from pretraining.model.configuration import EncoderConfig
    from pretraining.model.masking import MaskRule

    tokens, config, rule = SPECIAL_TOKENS, EncoderConfig(), MaskRule(ratio=0.4, seed=0)
    names = llama3_special_tokens()
    ids = {
        tokens.begin: tokens.begin_id,
        tokens.end: tokens.end_id,
        tokens.mask: tokens.mask_id,
    }
    assert {name: tokens.begin_id + names.index(name) for name in ids} == ids
    assert (
        config.bos_token_id,
        config.eos_token_id,
        config.pad_token_id,
        config.mask_token_id,
    ) == (
        tokens.begin_id,
        tokens.end_id,
        tokens.end_id,
        tokens.mask_id,
    )
    assert (config.mask_token, rule.mask_token_id) == (tokens.mask, tokens.mask_id)
    assert rule.special_ids == tuple(ids.values())
