"""The formats of pretraining: how a file of each is made, and the reader that commands use."""

import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from common.errors import UserError
from pretraining.data.build_shards import build
from pretraining.data.corpus import Document
from pretraining.data.shard_manifest import (
    RECORD,
    ShardSettings,
    check_split,
    load_manifest,
)
from pretraining.data.shard_writer import ShardWriter
from pretraining.data.token_stream import TokenStream
from pretraining.data.tokenizer import load_tokenizer, train_tokenizer
from pretraining.model.configuration import EncoderConfig
from pretraining.model.encoder_folder import check_model, write_folder
from pretraining.model.model_folder import encoder_config, eurobert_files
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.plan.config import TrainingConfig
from pretraining.plan.study_plan import load_study, plan_of
from pretraining.starts import start_of
from pretraining.training import checkpoints
from pretraining.training.log import LOG, LogWriter, read_log
from tests.fuzz.mutations import FileFormat
from tests.pretraining.documents import make_documents, write_jsonl
from tests.pretraining.families import save_start
from tests.pretraining.sizes import TINY, config_for
from tests.pretraining.small_study import STUDY

DOCUMENTS = make_documents(80)
REQUEST = {"source": "here"}


def shards(folder: Path) -> Path:
    train_tokenizer(DOCUMENTS, 280).save(folder / "tokenizer")
    source = write_jsonl(folder / "documents.jsonl", DOCUMENTS)
    settings = ShardSettings(shard_records=1, validation_share=0.2)
    build(
        [str(source)], str(folder / "tokenizer"), folder / "data", settings, workers=0
    )
    return folder / "data"


def tokens_of(data: Path) -> list[int]:
    with tempfile.TemporaryDirectory() as cache:
        stream = TokenStream(data / "train", Path(cache))
        check_split(data, "train", load_manifest(data), stream.shards)
        return [int(token) for token in stream.read(0, stream.tokens)]


def tiny() -> tuple[EuroBertForMaskedLM, torch.optim.Optimizer]:
    config = config_for(
        "tiny", vocab_size=31, hidden_size=8, intermediate_size=8, num_hidden_layers=1
    )
    (
        config.bos_token_id,
        config.eos_token_id,
        config.pad_token_id,
        config.mask_token_id,
    ) = 0, 1, 1, 2
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    optimizer = torch.optim.AdamW(model.parameters())
    model.lm_head.weight.sum().backward()
    optimizer.step()
    return model, optimizer


def checkpoint(folder: Path) -> Path:
    stage = {
        "name": "a",
        "objective": "clm",
        "ratio": None,
        "start": 0,
        "end": None,
        "phase": "stable",
    }
    state = {
        "stage": "a",
        "objective": "clm",
        "ratio": None,
        "tokens": 5,
        "precision": "fp32",
        "compile": "off",
        "attention": "sdpa",
        "results": 1,
        "shape": asdict(TINY),
        "science": TrainingConfig().science(),
        "data": "0" * 64,
        "tokenizer": "1" * 64,
        "stages": [stage],
        "interventions": TrainingConfig().interventions(3),
    }
    return checkpoints.write_checkpoint(
        folder, 3, checkpoints.tensors_of(*tiny()), state
    ).path


def restored(path: Path) -> Any:
    saved, (model, optimizer) = checkpoints.Checkpoint(path=path.parent, step=3), tiny()
    checkpoints.restore(saved, model, optimizer)
    moments = [
        value.tolist() for item in optimizer.state.values() for value in item.values()
    ]
    return (
        checkpoints.load_state(saved),
        [value.tolist() for value in model.state_dict().values()],
        moments,
    )


def model(folder: Path) -> Path:
    network, _ = tiny()
    return write_folder(
        folder / "model",
        eurobert_files(network.state_dict(), network.config, None),
        {"model": "a"},
    )


def config_fields(path: Path) -> dict[str, Any]:
    config: EncoderConfig = encoder_config(path.parent)
    return dict(config.to_dict())


def log(folder: Path) -> Path:
    writer = LogWriter(folder / LOG)
    for step in range(1, 6):
        row = {
            "step": step,
            "split": "train",
            "objective": "mlm",
            "ratio": 40,
            "stage": "a",
            "loss": 1 / step,
            "lr": 1e-3,
            "tokens": step,
            "batch": "0f",
            "mfu": 0.4,
            "memory_gb": 1.5,
            "device": "cpu",
        }
        writer.write(row)
    writer.close()
    return folder / LOG


def study(folder: Path) -> Path:
    (folder / "s.toml").write_text(STUDY)
    return folder / "s.toml"


def read_study(path: Path) -> Any:
    read = load_study(path)
    plan = plan_of(tuple(read.models.values()), read)
    assert all(
        Path("out", item.name).resolve().parent == Path("out").resolve()
        for item in plan.stages
    )
    return read, plan.costs()


def tokenizer(folder: Path) -> Path:
    train_tokenizer(DOCUMENTS, 262).save(folder)
    return folder / "tokenizer.json"


def opened(path: Path) -> Any:
    start = start_of(str(path.parent))
    return start.mask, start.tokenizer.rows, start.tokenizer.special, start.shape


def unfinished(folder: Path) -> Path:
    writer = ShardWriter(folder / "out", REQUEST)
    for number, text in enumerate(DOCUMENTS[:5]):
        ids = torch.arange(RECORD // 2, dtype=torch.int32).numpy()
        document = Document(
            text=text, characters=len(text), file=0, row=number, read_bytes=number
        )
        assert writer.unseen([number.to_bytes(16, "little")]).all()
        writer.add(document, ids, "train")
    writer.splits["train"].write(RECORD)
    writer.save()
    return folder / "out" / ".state" / "record"


def resumed(path: Path) -> Any:
    with tempfile.TemporaryDirectory() as copy:
        out = Path(copy, "out")
        # Pipes and links as they are
        subprocess.run(["cp", "-a", path.parent.parent, out], check=True)
        writer = ShardWriter(out, REQUEST)
        joined = {name: bytes(split.pending) for name, split in writer.splits.items()}
        entries = {
            name: (split.shards, split.tokens, split.documents)
            for name, split in writer.splits.items()
        }
        if not writer.tokens:
            raise UserError(
                "the only line was not finished, so that the shards are begun again"
            )
        new = writer.unseen([number.to_bytes(16, "little") for number in range(6)])
        return writer.position, joined, entries, new


def tokens_beside(path: Path) -> list[int]:
    return tokens_of(path.parent.parent)


VERIFY = "check {at}/data"
FORMATS = [
    FileFormat("index", lambda at: shards(at) / "train/index.json", tokens_beside, VERIFY, share=0.25),
    FileFormat("shard", lambda at: shards(at) / "train/shard.00000.mds.zstd", tokens_beside, VERIFY, share=0.25),
    FileFormat("manifest", lambda at: shards(at) / "manifest.json", lambda path: load_manifest(path.parent), VERIFY),
    FileFormat("state", lambda at: checkpoint(at) / "state.json", restored),
    FileFormat("weights", lambda at: checkpoint(at) / "model.safetensors", restored, share=0.25),
    FileFormat("moments", lambda at: checkpoint(at) / "optimizer.safetensors", restored, share=0.25),
    FileFormat("model", lambda at: model(at) / "model.safetensors", lambda path: check_model(path.parent)),
    FileFormat(
        "model's manifest", lambda at: model(at) / "manifest.json", lambda path: check_model(path.parent) or 0,
        sealed=False,
    ),
    FileFormat("config", lambda at: model(at) / "config.json", config_fields, sealed=False),
    FileFormat("log", log, read_log, sealed=False),
    FileFormat("study", study, read_study, "plan --study {file}", sealed=False),
    FileFormat(
        "tokenizer", tokenizer, lambda path: load_tokenizer(str(path)).encode_batch(["a b"]),
        "tokenizer --convert {file} --out {new}/made", sealed=False, share=0.25,
    ),
    *(
        FileFormat(
            f"start's {file}", lambda at, file=file: save_start(at / "start", "qwen2") / file, opened,
            "plan --start {at}/start --tokens 1e9", sealed=False, share=0.5,
        )
        for file in ("tokenizer.json", "tokenizer_config.json")
    ),
    FileFormat("unfinished shards", unfinished, resumed, share=0.25),
]  # fmt: skip
