"""A model's tokenizer: what its file says, and the special tokens of its config."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from benchmarks.finetuning.model_files import load_tokenizer
from tests.benchmarks.finetuning.test_encoders import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_is_that_of_the_file(kind: str, model_folder: Callable[..., Path]) -> None:
    folder = model_folder(kind)
    loaded = load_tokenizer(folder)
    recorded = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert loaded.get_vocab() == recorded.get_vocab()
    for text in ("a  b\tc\n", "Żelazowa Wola's 12,345 \u00ad\u200b"):
        encoded = loaded(text, return_offsets_mapping=True)
        assert encoded["input_ids"] == recorded.encode(text).ids
        assert encoded["offset_mapping"] == recorded.encode(text).offsets


def test_the_configs_special_tokens_are_copied_when_asked_for_or_needed(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 2}))
    assert load_tokenizer(folder).eos_token_id == 2
    assert load_tokenizer(folder, from_config=False).eos_token_id == 1
    content = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**content, "eos_token": None, "sep_token": None})
    )
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    assert load_tokenizer(folder, from_config=False).eos_token_id == 2  # nothing else could end a text
