import pytest

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig, config_of, shape_of
from pretraining.paper_settings import SHAPES
from tests.pretraining.sizes import TINY


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"attention_dropout": 0.1}, "attention_dropout"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"num_attention_heads": 7}, "not a multiple"),
        ({"num_key_value_heads": 5}, "not a multiple"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "rotary"),
    ],
)
def test_other_architectures_are_refused(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        EncoderConfig(**fields)


def test_rope_parameters_of_newer_versions_are_read() -> None:
    config = EncoderConfig(
        rope_parameters={"rope_type": "default", "rope_theta": 250_000}
    )
    for read in (config, EncoderConfig.from_dict(config.to_dict())):
        assert read.rope_theta == read.rope_parameters["rope_theta"] == 250_000


def test_a_shape_comes_back_from_its_configuration() -> None:
    tokenizer = {"bos_id": None, "eos_id": 7, "mask_id": 9}
    for shape in (*SHAPES.values(), TINY):
        config = config_of(shape, tokenizer, is_causal=True)
        assert shape_of(config) == shape
        assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (
            7,
            7,
            7,
        )
        assert (config.mask_token_id, config.is_causal) == (9, True)
