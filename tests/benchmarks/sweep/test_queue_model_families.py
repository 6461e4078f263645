"""Encoders of many families, untrained and tiny, on samples of real data of all four tasks.

The eight of `MODELS`' first rows, and what else a researcher brings: the encoder of a T5, models with few positions,
decoders saved as LLM2Vec saves them, and sentence-transformers folders. Retrieval evaluates two datasets, so that its
fine-tuned weights are saved, tied ones too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    LlamaConfig,
    ModernBertConfig,
    RobertaConfig,
    T5Config,
)

from benchmarks.datasets.local_dataset import Content, load, write
from benchmarks.protocol import get_dataset
from tests.benchmarks.command import command
from tests.benchmarks.datasets.test_import_files import CASES, REAL
from tests.benchmarks.finetuning.tokenizer_kinds import train
from tests.benchmarks.sweep.stores import run, validate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_data,
    pytest.mark.skipif(
        not REAL.is_dir(), reason="REAL_DATA names no folder with original distribution files"
    ),
]

NAMES = ("sst2", "uner_en", "squad_v2", "msmarco")
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SMALL = {**SHAPE, "max_position_embeddings": 256}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 256}
MODELS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "modernbert": ("roberta", ModernBertConfig, {**SMALL, "local_attention": 8}),
    "bert": ("bert", BertConfig, SMALL),
    "llama": ("llama3", LlamaConfig, {**SMALL, "num_key_value_heads": 2}),
    "roberta": ("roberta", RobertaConfig, SMALL),
    "gpt2": ("llama3", GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}),
    "distilbert": ("bert", DistilBertConfig, DISTILBERT),
    "deberta-v2": (
        "roberta", DebertaV2Config, {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
    ),
    "electra": ("bert", ElectraConfig, {**SMALL, "embedding_size": 32}),
    "t5": ("roberta", T5Config, {**T5, "decoder_start_token_id": 0}),
    "roberta-with-few-positions": ("roberta", RobertaConfig, {**SHAPE, "max_position_embeddings": 130}),
    "llm2vec": ("llama3", LlamaConfig, {**SMALL, "num_key_value_heads": 4}),
    "sentence-transformers": ("bert", BertConfig, SMALL),
}  # fmt: skip


def as_llm2vec(folder: Path) -> None:
    """Name code of the folder's own, which is not run: the class of transformers is read, its mask lifted."""
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["LlamaEncoderModel"],
        "auto_map": {"AutoModel": "modeling_llama_encoder.LlamaEncoderModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_llama_encoder.py").write_text("raise SystemExit('the code of the folder ran')\n")


def as_sentence_transformers(folder: Path) -> None:
    """Put the model into a part of the folder, as sentence-transformers saves it, with a pooling next to it."""
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(inner / path.name)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(
        '{"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true}'
    )
    modules = [
        {"idx": number, "path": f"{number}_{kind}"} for number, kind in enumerate(("Transformer", "Pooling"))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))


LAYOUTS = {"llm2vec": as_llm2vec, "sentence-transformers": as_sentence_transformers}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first rows of each split of real data; judged passages are few as it is."""
    whole, folder = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("sample")
    for name in NAMES:
        files, _ = CASES[name]
        arguments = [name, "--out", str(whole)]
        for role, paths in files.items():
            arguments += [f"--{role}", *(str(REAL / path) for path in paths)]
        command("import")([*arguments, *(["--skip-bad-lines"] if name == "msmarco" else [])])
        found = load(whole, name)
        tables = found.tables
        if found.dataset.task != "IR":
            tables = {split: tables[split].slice(0, 200 if split == "train" else 40) for split in tables}
        content = Content(tables=tables, splits="the first rows")
        write(
            folder,
            get_dataset(name),
            content,
            source={"kind": "import", "files": []},
        )
    return folder


@pytest.mark.parametrize("family", MODELS)
def test_a_family_of_encoders_runs_all_four_tasks(
    family: str, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, config, shape = MODELS[family]
    texts = (
        load(sample, "sst2").train["first"].to_pylist()
        + load(sample, "squad_v2").train["context"].to_pylist()
    )
    tokenizer = train(kind, texts, 1_000)
    torch.manual_seed(0)
    folder = tmp_path / family
    ids = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    for name in ("bos", "eos", "cls", "sep"):
        if (number := getattr(tokenizer, f"{name}_token_id")) is not None:
            ids[f"{name}_token_id"] = number
    AutoModel.from_config(config(**shape, **ids)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    LAYOUTS.get(family, lambda folder: None)(folder)
    arguments = ["--model", str(folder), "--data", str(sample), "--out", str(tmp_path), "--device", "cpu"]
    arguments += ["--dataset", *NAMES, "--lr", "1e-3", "--seed", "0", "--steps", "2", "--workers", "1"]
    assert validate([*arguments, "--tflops", "1"]) == 0
    assert run(arguments) == 0
    assert "4 of 4 runs done, 0 failed" in capsys.readouterr().out
    for name in NAMES:
        (found,) = (tmp_path / "results" / family).glob(f"*/{name}/*/details.json")
        assert all(0 < loss < 20 for loss in json.loads(found.read_text())["losses"])
