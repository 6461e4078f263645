"""docs/model-types.csv is what the commands do, and those that researchers bring run all four tasks."""

from pathlib import Path

import pytest

from tests.benchmarks.families.table import listed, tried
from tests.benchmarks.families.tiny_models import families, family

ENCODERS = [
    "bert",
    "roberta",
    "xlm-roberta",
    "distilbert",
    "electra",
    "albert",
    "deberta",
    "deberta-v2",
    "mpnet",
    "mobilebert",
    "convbert",
    "squeezebert",
    "modernbert",
    "nomic_bert",
    "gte",
    "eurobert",
    "longformer",
    "big_bird",
    "xlnet",
    "t5",
    "mt5",
    "t5gemma",
    "bart",
]
DECODERS = [
    "llama",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3_text",
    "mistral",
    "phi",
    "olmo",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "granite",
    "opt",
    "bloom",
]
HYBRIDS = [
    "lfm2",
    "qwen3_5_text",
    "qwen3_next",
    "granitemoehybrid",
    "jamba",
    "recurrent_gemma",
    "mamba",
]


def test_what_researchers_bring_runs_and_hybrids_are_refused() -> None:
    said = listed()
    assert all(said[name].startswith("runs: encoder") for name in ENCODERS)
    assert all(
        said[name] == "runs: decoder, causal mask switched off, bidirectional"
        for name in DECODERS
    )
    for name in HYBRIDS:
        assert "a token sees only one side in" in said[name]


@pytest.mark.parametrize(
    "name",
    [
        "bart",
        "lfm2",
        "opt",
        "bloom",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (*ENCODERS, *DECODERS, *HYBRIDS)
        ),
    ],
)
def test_a_model_type_does_what_the_list_says(name: str, tmp_path: Path) -> None:
    config = family(name)
    assert config is not None
    assert tried(name, config, tmp_path) == listed()[name]


@pytest.mark.slow
def test_all_of_the_list_are_among_the_text_models() -> None:
    assert listed().keys() <= families().keys()
