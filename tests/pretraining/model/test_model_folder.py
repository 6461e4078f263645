"""Model folders that are written: whole, checked when they are read, and loaded by the native class."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    EuroBertConfig,
    PreTrainedTokenizerFast,
)
from transformers.models.eurobert import modeling_eurobert as native

from common.errors import UserError
from common.files import sha256_bytes
from common.manifest import read_manifest, write_manifest
from pretraining.model.encoder_folder import check_model, write_folder
from pretraining.model.model_folder import eurobert_files, load_encoder
from pretraining.model.modeling import (
    EuroBertForMaskedLM,
    EuroBertModel,
    initialise,
)
from tests.flips import flips

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
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="a")
    )
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
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(
            file.read_bytes()
        ).hexdigest()
        for file in files
    }


def test_a_folder_is_whole_and_loads(
    tmp_path: Path, tokenizer_dir: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    out = write_folder(
        tmp_path / "a" / "out",
        eurobert_files(tiny_model.state_dict(), tiny_model.config, tokenizer_dir),
        MANIFEST,
    )
    names = {
        "1_Pooling/config.json",
        "README.md",
        "config.json",
        "manifest.json",
        "model.safetensors",
        "modules.json",
        "provenance.json",
        "self_test.json",
    }
    of_tokenizer = {file.name for file in tokenizer_dir.iterdir()}
    assert {"tokenizer.json", "tokenizer_config.json"} <= of_tokenizer
    assert names | of_tokenizer == set(digest(out))
    manifest = json.loads((out / "manifest.json").read_text())
    assert {key: manifest[key] for key in MANIFEST} == MANIFEST
    assert set(manifest) - set(MANIFEST) == {"files", "records", "seal"}
    assert set(manifest["files"]) == set(digest(out)) - {
        "README.md",
        "manifest.json",
        "provenance.json",
    }
    tokens = torch.arange(9)[None]
    loaded = AutoModelForMaskedLM.from_pretrained(out)
    with torch.no_grad():
        assert torch.equal(loaded(tokens).logits, tiny_model(tokens).logits)
        assert torch.equal(
            load_encoder(out, EuroBertModel)(tokens).last_hidden_state,
            tiny_model.model(tokens).last_hidden_state,
        )
    assert list((tmp_path / "a").iterdir()) == [out]


def test_the_card_shows_the_manifest(
    tmp_path: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    tiny_model.config.is_causal = True
    out = write_folder(
        tmp_path / "out",
        eurobert_files(tiny_model.state_dict(), tiny_model.config, None),
        MANIFEST,
    )
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    for part in (
        "# tiny-clm-2k-mlm40-6k",
        "| tokens | 123 |",
        r"| data.source | a \| b |",
        "is_causal",
    ):
        assert part in card
    assert json.loads((out / "config.json").read_text())["is_causal"] is True


def test_the_same_export_twice(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    first = write_folder(
        tmp_path / "one", eurobert_files(state, config, None), MANIFEST
    )
    second = write_folder(
        tmp_path / "two", eurobert_files(state, config, None), MANIFEST
    )
    assert digest(first) == digest(second)
    before = (first / "model.safetensors").stat().st_mtime_ns
    write_folder(first, eurobert_files(state, config, None), MANIFEST)
    assert (first / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="remove it or choose another"):
        write_folder(
            first, eurobert_files(state, config, None), {**MANIFEST, "tokens": 124}
        )


def test_what_does_not_fit_leaves_nothing(
    tmp_path: Path, tiny_model: EuroBertForMaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        write_folder(
            tmp_path / "out", eurobert_files(state, config, tmp_path), MANIFEST
        )

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pretraining.model.model_folder.save_file", full)
    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path / "out", eurobert_files(state, config, None), MANIFEST)
    assert not list(tmp_path.iterdir())


def test_a_base_model_is_exported_without_a_head(
    tmp_path: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    state = {
        name: t
        for name, t in tiny_model.state_dict().items()
        if name != "lm_head.weight"
    }
    out = write_folder(
        tmp_path / "out", eurobert_files(state, tiny_model.config, None), {}
    )
    assert json.loads((out / "config.json").read_text())["architectures"] == [
        "EuroBertModel"
    ]
    assert load_encoder(out, EuroBertModel).num_parameters() == sum(
        t.numel() for t in state.values()
    )


KINDS = {
    "base": (EuroBertModel, native.EuroBertModel),
    "masked LM": (EuroBertForMaskedLM, native.EuroBertForMaskedLM),
}


@pytest.fixture
def exported(
    tmp_path: Path, tokenizer_dir: Path, tiny_model: EuroBertForMaskedLM
) -> Path:
    # Larger weights than at the start of training make differences visible.
    tiny_model.config.initializer_range = 0.1
    initialise(tiny_model, 1)
    return write_folder(
        tmp_path / "exported",
        eurobert_files(tiny_model.state_dict(), tiny_model.config, tokenizer_dir),
        MANIFEST,
    )


@pytest.mark.parametrize("side", ["right", "left", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_native_eurobert_gives_the_same_numbers(
    kind: str, side: str, exported: Path
) -> None:
    """Every hidden state and the logits, padding included, to the last bit: the native class of the locked version."""
    ours, theirs = KINDS[kind]
    model = load_encoder(exported, ours)
    other, report = theirs.from_pretrained(
        exported, output_loading_info=True, dtype=torch.float32
    )
    assert type(other.config) is EuroBertConfig
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert set(report["unexpected_keys"]) == (
        {"lm_head.weight"} if kind == "base" else set()
    )
    input_ids = torch.randint(
        2, 311, (3, 60), generator=torch.Generator().manual_seed(0)
    )
    attention_mask = torch.ones_like(input_ids)
    if side != "none":
        for row, count in ((1, 20), (2, 45)):
            attention_mask[
                row, slice(60 - count, 60) if side == "right" else slice(0, count)
            ] = 0
        input_ids[attention_mask == 0] = model.config.pad_token_id
    with torch.no_grad():
        a, b = (
            each(input_ids, attention_mask=attention_mask, output_hidden_states=True)
            for each in (model.eval(), other.eval())
        )
    assert (
        len(a.hidden_states)
        == len(b.hidden_states)
        == model.config.num_hidden_layers + 1
    )
    assert (
        a.hidden_states[-1].abs().max() > 0.1 and a.hidden_states[-1].isfinite().all()
    )
    for mine, native_one in zip(a.hidden_states, b.hidden_states, strict=True):
        assert torch.equal(mine, native_one)
    assert torch.equal(a[0], b[0])
    # The row of the end of text, which the native class takes for padding, survives.
    assert (
        other.get_input_embeddings().weight[model.config.pad_token_id].abs().sum() > 0
    )


def test_the_package_leaves_the_librarys_eurobert_as_it_was(exported: Path) -> None:
    native_class = type(AutoModel.from_pretrained(exported))
    assert native_class is native.EuroBertModel
    assert type(AutoConfig.from_pretrained(exported)) is EuroBertConfig
    head = AutoModelForMaskedLM.from_pretrained(exported)
    assert type(head) is native.EuroBertForMaskedLM
    labelled = AutoModelForSequenceClassification.from_pretrained(exported)
    assert type(labelled) is native.EuroBertForSequenceClassification
    assert AutoTokenizer.from_pretrained(exported).mask_token == "<|mask|>"


def test_our_class_looks_back_padded_or_not(exported: Path) -> None:
    model = load_encoder(exported, EuroBertModel, is_causal=True)
    ids = torch.arange(12).expand(2, 12)
    later, padding = ids.clone(), torch.ones_like(ids)
    later[:, 8], padding[1, 9:] = 200, 0
    with torch.no_grad():
        for mask in (torch.ones_like(ids), padding):
            first, changed = (
                model(tokens, attention_mask=mask)[0][:, 0] for tokens in (ids, later)
            )
            assert torch.equal(first, changed)


# --- checked ---


@pytest.fixture
def folder(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> Path:
    return write_folder(
        tmp_path / "a",
        eurobert_files(tiny_model.state_dict(), tiny_model.config, None),
        {"model": "a"},
        texts={"log.jsonl": "x\n"},
    )


def test_a_whole_folder_is_taken(folder: Path) -> None:
    manifest = check_model(folder)
    assert manifest is not None and set(manifest["files"]) == {
        "config.json",
        "model.safetensors",
    }
    assert manifest["records"] == {"log.jsonl": sha256_bytes(b"x\n")}
    # What is not loaded may be changed or left out when a model is handed on.
    (folder / "README.md").write_text("another card")
    for name in ("log.jsonl", "provenance.json"):
        (folder / name).unlink()
    assert check_model(folder) == manifest
    assert load_encoder(folder, EuroBertModel).num_parameters() > 0


def test_folders_of_others_are_not_judged(folder: Path, tmp_path: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({"model": "theirs"}))
    assert check_model(folder) is None
    path.unlink()
    assert check_model(folder) is None


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "manifest.json"])
def test_no_flipped_bit_of_a_model_passes(folder: Path, file: str, count: int) -> None:
    check_model(folder)
    assert flips(folder / file, count, lambda: check_model(folder)) == 0


def test_a_model_with_a_file_of_another_is_refused(
    folder: Path, tmp_path: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    state = {name: tensor + 1 for name, tensor in tiny_model.state_dict().items()}
    other = write_folder(
        tmp_path / "b", eurobert_files(state, tiny_model.config, None), {"model": "b"}
    )
    shutil.copy(other / "model.safetensors", folder / "model.safetensors")
    with pytest.raises(
        UserError, match=r"/a is damaged: model\.safetensors: its content has changed"
    ):
        load_encoder(folder, EuroBertModel)
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        UserError, match=r"model\.safetensors is missing; fetch or export"
    ):
        load_encoder(folder, EuroBertModel)


@pytest.mark.parametrize(
    "files", [None, {}, [], {"../victim": "0" * 64}, {"/etc/passwd": "0" * 64}]
)
def test_a_hostile_manifest_is_refused(folder: Path, files: object) -> None:
    """Sealed again: it names no file outside its folder."""
    path = folder / "manifest.json"
    write_manifest(path, read_manifest(path, "") | {"files": files})
    with pytest.raises(
        UserError, match=r"valid path inside its folder|fetch or export the model again"
    ):
        check_model(folder)
