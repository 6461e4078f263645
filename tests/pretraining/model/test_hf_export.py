import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from common.errors import UserError
from common.provenance import ROOT
from pretraining.model.heads import (
    EuroBertForMaskedLM,
    EuroBertForSequenceClassification,
    EuroBertForTokenClassification,
)
from pretraining.model.hf_export import export, native_config
from pretraining.model.modeling import EuroBertModel, initialise
from pretraining.model.state_dict_adapter import load_encoder

MANIFEST = {
    "model": "tiny-clm-2k-mlm40-6k",
    "tokens": 123,
    "data": {"source": "a | b", "sha256": "ab" * 32},
    "stages": [{"objective": "clm", "end": 2}],
}


@pytest.fixture
def tokenizer_dir(tmp_path: Path) -> Path:
    """A word-level tokenizer of a few words, in the files of a fast one."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<|begin_of_text|>", "<|end_of_text|>", "<|mask|>", "a", "cat", "sat"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path / "tokenizer"
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=words[0],
        eos_token=words[1],
        pad_token=words[1],
        mask_token=words[2],
    )
    fast.save_pretrained(folder)
    return folder


def digest(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_a_folder_is_whole_and_loads(
    tmp_path: Path, tokenizer_dir: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    out = export(tiny_model.state_dict(), tiny_model.config, tokenizer_dir, MANIFEST, tmp_path / "a" / "out")
    names = {"README.md", "config.json", "manifest.json", "model.safetensors"}
    assert names | {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"} == set(digest(out))
    assert json.loads((out / "manifest.json").read_text()) == MANIFEST
    tokens = torch.arange(9)[None]
    loaded = AutoModelForMaskedLM.from_pretrained(out)
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, tiny_model(tokens).logits)
        assert torch.equal(
            load_encoder(out, EuroBertModel)(tokens).last_hidden_state,
            tiny_model.model(tokens).last_hidden_state,
        )
    assert list((tmp_path / "a").iterdir()) == [out]


def test_the_card_shows_the_manifest(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    tiny_model.config.is_causal = True
    out = export(tiny_model.state_dict(), tiny_model.config, None, MANIFEST, tmp_path / "out")
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    for part in ("# tiny-clm-2k-mlm40-6k", "| tokens | 123 |", r"| data.source | a \| b |", "is_causal"):
        assert part in card
    assert json.loads((out / "config.json").read_text())["is_causal"] is True


def test_the_same_export_twice(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    first = export(state, config, None, MANIFEST, tmp_path / "one")
    second = export(state, config, None, MANIFEST, tmp_path / "two")
    assert digest(first) == digest(second)
    before = (first / "model.safetensors").stat().st_mtime_ns
    export(state, config, None, MANIFEST, first)
    assert (first / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="remove it or choose another"):
        export(state, config, None, {**MANIFEST, "tokens": 124}, first)


def test_what_does_not_fit_leaves_nothing(
    tmp_path: Path, tiny_model: EuroBertForMaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    broken = {name: tensor for name, tensor in state.items() if "norm" not in name}
    with pytest.raises(UserError, match="lacks"):
        export(broken, config, None, MANIFEST, tmp_path / "out")
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        export(state, config, tmp_path, MANIFEST, tmp_path / "out")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pretraining.model.hf_export.save_file", full)
    with pytest.raises(OSError, match="No space"):
        export(state, config, None, MANIFEST, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_base_model_is_exported_without_a_head(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    state = {name: t for name, t in tiny_model.state_dict().items() if name != "lm_head.weight"}
    out = export(state, tiny_model.config, None, {}, tmp_path / "out")
    assert json.loads((out / "config.json").read_text())["architectures"] == ["EuroBertModel"]
    assert load_encoder(out, EuroBertModel).num_parameters() == sum(t.numel() for t in state.values())


@pytest.fixture(scope="session")
def newer_transformers() -> Path:
    """A folder with transformers >= 5.3 and what it needs, torch apart, made once for a lock file."""
    lock = ROOT / "requirements" / "eurobert-check.txt"
    name = f"eurobert-check-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    target = ROOT / "build" / name
    if target.is_dir():
        return target
    making = target.with_name(f".{name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes"]
    done = subprocess.run(
        [*command, "--target", str(making), "-r", str(lock)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(making, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"transformers >= 5.3 cannot be installed here: {reason}")
    try:
        making.rename(target)
    except OSError:  # another worker was faster
        shutil.rmtree(making)
    return target


NATIVE = """
import sys
import torch, transformers
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification
from transformers import AutoModelForTokenClassification, AutoTokenizer

assert "pretraining" not in sys.modules
kinds = {"base": AutoModel, "lm": AutoModelForMaskedLM, "sequence": AutoModelForSequenceClassification,
         "token": AutoModelForTokenClassification}
known = load_file("expected.safetensors")
worst = 0.0
for name, kind in kinds.items():
    folder = "lm" if name == "base" else name
    model, info = kind.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    assert type(model).__module__ == "transformers.models.eurobert.modeling_eurobert", type(model)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    assert name == "base" or not info["unexpected_keys"], info
    with torch.no_grad():
        out = model(known["input_ids"], attention_mask=known["attention_mask"])[0]
    if out.dim() == 3:
        real = known["attention_mask"].bool()
        out, expected = out[real], known[name][real]
    else:
        expected = known[name]
    assert out.isfinite().all() and expected.abs().max() > 0.1
    worst = max(worst, (out - expected).abs().max().item())
row = model.get_input_embeddings().weight[1]
assert row.abs().sum() > 0, "the row of the end of text was lost"
assert AutoTokenizer.from_pretrained("lm").mask_token == "<|mask|>"
print(transformers.__version__, worst)
"""


@pytest.mark.slow
def test_native_eurobert_gives_the_same_numbers(
    tmp_path: Path, tokenizer_dir: Path, tiny_model: EuroBertForMaskedLM, newer_transformers: Path
) -> None:
    generator = torch.Generator().manual_seed(0)
    input_ids = torch.randint(0, 311, (3, 60), generator=generator)
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 40:] = 0
    attention_mask[2, :15] = 0
    # Larger weights than at the start of training make differences visible.
    tiny_model.config.initializer_range = 0.1
    initialise(tiny_model, 1)
    export(tiny_model.state_dict(), tiny_model.config, tokenizer_dir, MANIFEST, tmp_path / "lm")
    expected = {"input_ids": input_ids, "attention_mask": attention_mask}
    heads = {"sequence": EuroBertForSequenceClassification, "token": EuroBertForTokenClassification}
    with torch.no_grad():
        expected["base"] = tiny_model.model(input_ids, attention_mask).last_hidden_state
        expected["lm"] = tiny_model(input_ids, attention_mask).logits
        for name, kind in heads.items():
            head = load_encoder(tmp_path / "lm", kind, num_labels=4)
            head.save_pretrained(tmp_path / name)
            expected[name] = head(input_ids, attention_mask).logits
    save_file(expected, tmp_path / "expected.safetensors")
    environment = {**os.environ, "PYTHONPATH": str(newer_transformers), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", NATIVE],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    version, worst = done.stdout.split()
    assert tuple(map(int, version.split(".")[:2])) >= (5, 3)
    assert float(worst) < 1e-5


def test_native_configuration_has_the_released_fields(tiny_model: EuroBertForMaskedLM) -> None:
    fields = native_config(tiny_model.config, dtype="float32")
    assert fields["rope_parameters"]["rope_theta"] == fields["rope_theta"] == 10_000
    assert fields["model_type"] == "eurobert" and "auto_map" not in fields
