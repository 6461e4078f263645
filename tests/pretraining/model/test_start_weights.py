"""Starts: loaded, given a mask, exported in their own class, and read by plain transformers."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
import transformers as hf
from safetensors.torch import load_file, save_file

from common.errors import UserError
from pretraining.data.tokenizer import load_tokenizer, train_tokenizer
from pretraining.model import start_folder
from pretraining.model.adapted import AdaptedModel
from pretraining.model.encoder_folder import checked_encoder, write_folder
from pretraining.model.model_folder import eurobert_files
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.model.start_folder import export_llama, export_trained
from pretraining.model.start_weights import LM_HEAD, data_config, load_start, network_of
from pretraining.starts import start_of
from tests.pretraining.documents import make_documents
from tests.pretraining.families import DECODERS, FAMILIES, save_start
from tests.pretraining.sizes import config_for


@pytest.mark.parametrize("family", FAMILIES)
def test_a_start_comes_back_as_its_own_class_and_sees_both_sides(
    family: str, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / family, family)))
    model = load_start(start, seed=0)
    out = export_trained(start, model.state_dict(), {"model": "tiny"}, tmp_path / "out")
    fields = json.loads((out / "config.json").read_text())
    assert fields["model_type"] == start.config["model_type"]
    assert fields.get("is_causal") is (None if family == "gemma3" else False)
    if family in ("llama", "mistral", "qwen2", "qwen3", "gemma3"):
        assert fields["use_bidirectional_attention"] is True
    assert (start.licence, start.mask.origin) == ("apache-2.0", "was <file_sep>")
    assert len(checked_encoder(out)) == 3
    # Names fit the class: a decoder's is that of AutoModel, and its untied head lies beside it.
    named = getattr(hf, fields["architectures"][0])
    for kind in {hf.AutoModel, named}:
        read, said = kind.from_pretrained(out, output_loading_info=True)
        if family in DECODERS or kind is named:
            assert not said["missing_keys"] | said["unexpected_keys"]
        else:  # AutoModel has a pooler that no masked model has, and no head
            assert all(name.startswith("pooler.") for name in said["missing_keys"])
    before, after = (
        load_file(start.folder / "model.safetensors"),
        load_file(out / "model.safetensors"),
    )
    if family in DECODERS:
        prefix = named.base_model_prefix
        after = {f"{prefix}.{name}": tensor for name, tensor in after.items()}
        untied = (out / LM_HEAD).is_file()
        assert untied is (not read.config.tie_word_embeddings)
        after |= load_file(out / LM_HEAD) if untied else {}
    assert after.keys() == before.keys()
    assert all(torch.equal(before[name], after[name]) for name in after)
    rope = fields.get("rope_parameters") or {}
    local = rope.get("sliding_attention", {}).get("rope_theta")
    older = {
        "gemma3": {"rope_local_base_freq": local, "rope_theta": 1e6},
        "modernbert": {"local_rope_theta": local, "global_rope_theta": 160_000.0},
    }
    others = {"rope_theta": rope["rope_theta"]} if "rope_theta" in rope else {}
    assert {
        name: fields[name]
        for name in fields
        if "rope_" in name and name != "rope_parameters"
    } == older.get(family, others)
    tokenizer = hf.AutoTokenizer.from_pretrained(out)
    assert tokenizer.mask_token_id == 299
    assert tokenizer.pad_token is not None
    # The export is a start again.
    again = load_start(start_of(str(out)), seed=0)
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


_SCALED = {
    "rope_type": "yarn",
    "factor": 4.0,
    "rope_theta": 1e6,
    "original_max_position_embeddings": 24,
}
_LAYERS = {
    "full_attention": _SCALED,
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}


@pytest.mark.parametrize(
    ("family", "rope", "scaling"),
    [
        ("qwen2", _SCALED, _SCALED),
        ("gemma3", _LAYERS, _SCALED),
        ("modernbert", _LAYERS, None),
    ],
)
def test_older_fields_of_scaled_positions_change_nothing(
    family: str, rope: dict[str, Any], scaling: dict[str, Any] | None, tmp_path: Path
) -> None:
    folder = save_start(tmp_path / family, family)
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(fields | {"rope_parameters": rope}))
    start = start_of(str(folder))
    out = export_trained(
        start, load_start(start, 0).state_dict(), {"model": "tiny"}, tmp_path / "out"
    )
    assert json.loads((out / "config.json").read_text()).get("rope_scaling") == scaling
    assert hf.AutoConfig.from_pretrained(out).rope_parameters == rope


def test_untied_head_is_read_beside_or_among_the_weights(
    tmp_path: Path,
) -> None:
    start = start_of(str(save_start(tmp_path / "qwen2", "qwen2")))
    model = load_start(start, seed=0)
    out = export_trained(start, model.state_dict(), {"model": "tiny"}, tmp_path / "out")
    (out / LM_HEAD).write_bytes((out / LM_HEAD).read_bytes()[:-9])
    with pytest.raises(
        UserError, match=r"lm_head\.safetensors is no safetensors file, or not whole"
    ):
        load_start(start_of(str(out)), seed=0)
    (out / LM_HEAD).unlink()
    (out / "model.safetensors").write_bytes(
        (start.folder / "model.safetensors").read_bytes()
    )
    again = load_start(start_of(str(out)), seed=1)
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_a_llama_runs_in_our_own_class_without_any_difference(tmp_path: Path) -> None:
    start = start_of(str(save_start(tmp_path / "llama", "llama")))
    model = load_start(start, seed=0)
    assert isinstance(model, EuroBertForMaskedLM)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    plain = AdaptedModel(
        hf.LlamaForCausalLM.from_pretrained(start.folder, attn_implementation="sdpa")
    )
    ids = torch.randint(3, 297, (1, 30), generator=torch.Generator().manual_seed(0))
    batch = PackedBatch.of([ids[0].numpy()])
    with torch.no_grad():
        for causal in (False, True):
            ours = model.lm_head(model.model.encode(batch, is_causal=causal))
            theirs = plain.plain(ids, is_causal=causal, attention="sdpa")[0]
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


SCALED = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
LLAMAS: dict[str, tuple[dict[str, object], bool]] = {
    "as it is": ({}, True),
    "width of heads": ({"head_dim": 8}, True),
    "another width of heads": ({"head_dim": 16}, False),
    "biases of attention": ({"attention_bias": True}, False),
    "biases of the MLP": ({"mlp_bias": True}, False),
    "scaled positions": ({"rope_parameters": SCALED}, False),
    "another activation": ({"hidden_act": "gelu"}, False),
}


@pytest.mark.parametrize("name", LLAMAS)
def test_llamas_that_our_class_lacks_keep_transformers(
    name: str, tmp_path: Path
) -> None:
    changes, is_ours = LLAMAS[name]
    start = start_of(str(save_start(tmp_path / "llama", "llama")))
    start = replace(start, config={**start.config, **changes})
    model = network_of(start, config_for("tiny"))
    assert isinstance(model, EuroBertForMaskedLM) == start.is_our_class == is_ours


@pytest.mark.parametrize("family", ["llama", "bert", "gpt2", "qwen2"])
def test_new_mask_gets_the_mean_row_and_pads_to_64(family: str, tmp_path: Path) -> None:
    folder = save_start(tmp_path / family, family, mask="new", rows=299)
    start = start_of(str(folder))
    assert (start.mask.id, start.mask.origin) == (299, "new")
    model = load_start(start, seed=0)
    inner = (
        model.model.embed_tokens
        if isinstance(model, EuroBertForMaskedLM)
        else model.inner.get_input_embeddings()
    )
    assert inner.weight.shape[0] == 320
    torch.testing.assert_close(inner.weight[299], inner.weight[:299].mean(0))
    tied = start.config.get("tie_word_embeddings", family in ("bert", "gpt2"))
    head = model.lm_head if isinstance(model, EuroBertForMaskedLM) else model.head
    assert (head.weight is inner.weight) is tied
    out = export_trained(start, model.state_dict(), {"model": "tiny"}, tmp_path / "out")
    assert (
        hf.AutoModel.from_pretrained(out).get_input_embeddings().weight.shape[0] == 320
    )
    read = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    with_space, without = (
        read.encode(f"the baker{space}<|mask|> the").ids for space in (" ", "")
    )
    assert with_space == without
    assert load_tokenizer(str(out)).sha256 == load_tokenizer(str(folder)).sha256


def test_a_new_mask_takes_a_row_that_the_tokenizer_leaves_unused(
    tmp_path: Path,
) -> None:
    start = start_of(str(save_start(tmp_path / "qwen2", "qwen2", mask="new")))
    model = load_start(start, seed=0)
    assert isinstance(model, AdaptedModel)
    rows = model.inner.get_input_embeddings().weight
    assert rows.shape[0] == 320
    torch.testing.assert_close(rows[299], rows[:299].mean(0))


@pytest.mark.parametrize(
    ("family", "mask"), [("llama", "own"), ("gpt2", "reserved"), ("llama", "new")]
)
def test_words_only_in_the_tokenizer_begin_at_the_mean(
    family: str, mask: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start = start_of(str(save_start(tmp_path / family, family, mask=mask, rows=280)))
    model = load_start(start, seed=0)
    is_ours = isinstance(model, EuroBertForMaskedLM)
    rows = (
        model.model.embed_tokens if is_ours else model.inner.get_input_embeddings()
    ).weight
    torch.testing.assert_close(rows[280:], rows[:280].mean(0).expand(40, -1))
    assert (
        f"{19 if mask == 'new' else 20} ids of its tokenizer have no row" in caplog.text
    )


def test_shards_have_the_ids_of_the_start(tmp_path: Path) -> None:
    for number, mask in enumerate(("reserved", "new", "own")):
        start = start_of(str(save_start(tmp_path / str(number), "qwen2", mask=mask)))
        assert load_tokenizer(str(start.folder)).mask_id == start.mask.id == 299


def test_a_changed_export_is_found(tmp_path: Path) -> None:
    start = start_of(str(save_start(tmp_path / "a", "qwen2")))
    model = load_start(start, seed=0)
    out = export_trained(start, model.state_dict(), {"model": "tiny"}, tmp_path / "out")
    fields = json.loads((out / "config.json").read_text()) | {"is_causal": True}
    (out / "config.json").write_text(json.dumps(fields))
    with pytest.raises(UserError, match="damaged"):
        checked_encoder(out)
    (out / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"does not see both sides.*`clm-or-mlm adapt`"):
        checked_encoder(out)
    tensors = load_file(out / "model.safetensors")
    save_file(
        {name: value * math.nan for name, value in tensors.items()},
        out / "model.safetensors",
    )
    with pytest.raises(UserError, match="outputs that are no numbers"):
        checked_encoder(out)


@pytest.mark.parametrize(
    "stored",
    [
        [],
        {},
        {"vector": None},
        {"vector": ["a"]},
        {"vector": [[0.5], [1.0, 2.0]]},
        {"vector": [1.0]},
    ],
)
def test_a_self_test_of_another_form_is_refused(stored: object, tmp_path: Path) -> None:
    start = start_of(str(save_start(tmp_path / "a", "bert")))
    out = export_trained(
        start,
        load_start(start, seed=0).state_dict(),
        {"model": "tiny"},
        tmp_path / "out",
    )
    (out / "manifest.json").unlink()
    text = json.loads((out / "self_test.json").read_text())["text"]
    content = {"text": text, **stored} if isinstance(stored, dict) else stored
    (out / "self_test.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="export the model again"):
        checked_encoder(out)


def test_the_llama_twin_of_an_own_model_gives_the_same_states(tmp_path: Path) -> None:
    model = EuroBertForMaskedLM(
        config_for(
            "tiny",
            vocab_size=320,
            bos_token_id=297,
            eos_token_id=298,
            pad_token_id=298,
            mask_token_id=299,
        )
    )
    initialise(model, 3)
    train_tokenizer(make_documents(40), 300).save(tmp_path / "tokenizer")
    own = write_folder(
        tmp_path / "own",
        eurobert_files(model.state_dict(), model.config, tmp_path / "tokenizer"),
        {"model": "own"},
    )
    twin = export_llama(own, tmp_path / "twin")
    assert export_llama(own, tmp_path / "twin") == twin
    fields = json.loads((twin / "config.json").read_text())
    assert (
        fields["architectures"],
        fields["is_causal"],
        fields["use_bidirectional_attention"],
    ) == (
        ["LlamaModel"],
        False,
        True,
    )
    ids, mask = (
        torch.randint(3, 297, (2, 12), generator=torch.Generator().manual_seed(0)),
        torch.ones(2, 12),
    )
    mask[1, 7:] = 0
    theirs = hf.AutoModel.from_pretrained(twin).eval()
    with torch.no_grad():
        for given in (None, mask.long()):
            ours = model.model(ids, given).last_hidden_state
            found = theirs(input_ids=ids, attention_mask=given).last_hidden_state
            seen = (
                torch.ones(2, 12, dtype=torch.bool) if given is None else given.bool()
            )
            torch.testing.assert_close(ours[seen], found[seen], rtol=0, atol=2e-6)
    assert len(checked_encoder(twin)) == 3
    model.config.is_causal = True
    causal = write_folder(
        tmp_path / "causal",
        eurobert_files(model.state_dict(), model.config, tmp_path / "tokenizer"),
        {"model": "c"},
    )
    with pytest.raises(UserError, match="causally"):
        export_llama(causal, tmp_path / "other")


@pytest.mark.parametrize(("family", "pairs"), [("bert", True), ("modernbert", False)])
def test_exported_tokenizer_tells_pairs_apart_and_cuts_nothing(
    family: str, pairs: bool, tmp_path: Path
) -> None:
    path = save_start(tmp_path / "start", family) / "tokenizer.json"
    inner = tokenizers.Tokenizer.from_file(str(path))
    inner.enable_truncation(2)
    inner.enable_padding(length=9)
    inner.save(str(path))
    start_folder._write_companions(tmp_path, start_of(str(path.parent)), None)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)(
        "The baker sold a map.", "The judge forgot."
    )
    assert ("token_type_ids" in read) == pairs
    assert len(read["input_ids"]) > 9


def test_shards_with_other_text_beginnings_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save_start(tmp_path / "start", "bert") / "tokenizer.json"
    template = {
        "type": "BertProcessing",
        "sep": ["<|end_of_text|>", 298],
        "cls": ["<|begin_of_text|>", 297],
    }
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"post_processor": template})
    )
    start, own = start_of(str(path.parent)), load_tokenizer(str(path.parent))
    older = {
        "sha256": own.sha256,
        "bos_id": own.bos_id,
        "eos_id": own.eos_id,
        "mask_id": own.mask_id,
    }
    data_config(start, older | {"first": [297]}, "data")
    assert not caplog.text
    data_config(start, older, "data")
    assert "do not begin with <|begin_of_text|>" in caplog.text
    assert f"shards --tokenizer {path.parent}" in caplog.text


@pytest.mark.parametrize(
    ("family", "longest"),
    [("bert", 96), ("roberta", 94), ("data2vec-text", 94), ("mpnet", 94), ("opt", 96)],
)
def test_longest_sequence_is_that_of_the_position_table(
    family: str, longest: int, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / family, family)))
    assert start.longest == longest
    model = load_start(start, seed=0)
    assert isinstance(model, AdaptedModel)
    ids = torch.arange(3, 4 + longest)
    with torch.no_grad():
        model.encode(PackedBatch.of([ids[:-1].numpy()]))
        if family != "opt":
            with pytest.raises((IndexError, RuntimeError)):
                model.encode(PackedBatch.of([ids.numpy()]))


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("llama", "reads this folder as it is"),
        ("mistral", "llama.cpp's converter does not know MistralModel"),
        ("gemma2", "llama.cpp's converter does not know Gemma2Model"),
        ("roberta", "knows this family without a head alone"),
    ],
)
def test_the_card_says_how_servers_read_the_folder(
    family: str, said: str, tmp_path: Path
) -> None:
    start = start_of(str(save_start(tmp_path / family, family)))
    state = load_start(start, 0).state_dict()
    out = export_trained(start, state, {"model": "tiny"}, tmp_path / "out")
    assert said in (out / "README.md").read_text()


def test_mistral_without_a_window_is_its_cards_llama(
    tmp_path: Path,
) -> None:
    folder = save_start(tmp_path / "mistral", "mistral")
    fields = json.loads((folder / "config.json").read_text()) | {"sliding_window": None}
    (folder / "config.json").write_text(json.dumps(fields))
    start = start_of(str(folder))
    state = load_start(start, 0).state_dict()
    out = export_trained(start, state, {"model": "tiny"}, tmp_path / "out")
    assert "a Mistral is a Llama" in (out / "README.md").read_text()
    ids = torch.arange(3, 30)[None]
    mistral = hf.AutoModel.from_pretrained(out)
    fields = json.loads((out / "config.json").read_text())
    fields |= {"model_type": "llama", "architectures": ["LlamaModel"]}
    (out / "config.json").write_text(json.dumps(fields))
    llama = hf.AutoModel.from_pretrained(out)
    assert type(llama) is hf.LlamaModel
    with torch.no_grad():
        assert torch.equal(mistral(ids)[0], llama(ids)[0])
