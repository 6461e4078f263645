"""The starts of questions.md: folders as they are, both ways, random, and after the package's pretraining."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from common.errors import UserError
from common.files import atomic_folder, write_text
from tests.benchmarks.better.sets import natural_questions, training_meetings

MLM, CLM_MLM = "mlm", "clm-mlm"
"""Models of decoder.toml."""
_STUDY = Path(__file__).with_name("decoder.toml")
_MLM_OF_MINILM = ("global_batch=32", "max_length=128", "warmup_steps=10")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where everything is."""

    data: Path
    models: Path
    work: Path

    @property
    def minilm(self) -> Path:
        return self.models / "minilm-l6"

    @property
    def smollm2(self) -> Path:
        return self.models / "smollm2-135m"


def run(*words: object) -> str:
    """Run a command of the package and return what it prints; run again, it goes on."""
    command = [sys.executable, "-m", "clm_or_mlm", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"`clm-or-mlm {' '.join(command[3:])}` failed (exit code {done.returncode})"
        )
    return done.stdout


def shards(places: Places, name: str, texts: list[str], tokenizer: Path) -> Path:
    """Return the shards of some texts."""
    folder = places.work / f"shards-{name}"
    if not folder.exists():
        source = places.work / f"{name}.jsonl"
        write_text(source, "".join(f"{json.dumps({'text': text})}\n" for text in texts))
        run(
            "shards",
            "--source",
            source,
            "--tokenizer",
            tokenizer,
            "--out",
            folder,
            "--workers",
            1,
        )
    return folder


def adapted_minilm(places: Places, seed: int) -> Path:
    """Return MiniLM after 100 updates of MLM on QMSum's training meetings."""
    data = shards(places, "meetings", training_meetings(places.data), places.minilm)
    settings = [
        word for one in (*_MLM_OF_MINILM, f"seed={seed}") for word in ("--set", one)
    ]
    out = places.work / f"minilm-mlm-{seed}"
    return Path(
        run(
            "adapt",
            places.minilm,
            "--data",
            data,
            "--steps",
            100,
            "--out",
            out,
            *settings,
        ).split()[-1]
    )


def as_loaded(places: Places) -> Path:
    """Return SmolLM2 as it is."""
    return places.smollm2


def plain_smollm2(places: Places) -> Path:
    """Return SmolLM2 causal and by its last token, without its chat template, which wraps every text."""
    return _pooled(
        places,
        "plain",
        AutoModel.from_pretrained(places.smollm2, dtype=torch.float32),
        "lasttoken",
    )


def pretrained_smollm2(places: Places, *, arm: str, seed: int) -> Path:
    """Return SmolLM2 after the 100 updates of one of decoder.toml's models."""
    data = shards(
        places, "passages", natural_questions(places.data).documents, places.smollm2
    )
    study = places.work / "decoder.toml"
    write_text(study, _STUDY.read_text().replace("START", str(places.smollm2)))
    out = places.work / f"smollm2-{seed}"
    run(
        "train",
        arm,
        "--study",
        study,
        "--data",
        data,
        "--out",
        out,
        "--set",
        f"seed={seed}",
    )
    return out / "models" / arm


def both_ways(places: Places) -> Path:
    """Return SmolLM2's weights with `is_causal: false` and mean pooling."""
    model = AutoModel.from_pretrained(places.smollm2, dtype=torch.float32)
    model.config.is_causal = False
    return _pooled(places, "both-ways", model, "mean")


def random_smollm2(places: Places) -> Path:
    """Return random weights of SmolLM2's shape, both ways."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.from_pretrained(places.smollm2))
    model.config.is_causal = False
    return _pooled(places, "random", model, "mean")


def _pooled(places: Places, name: str, model: torch.nn.Module, pooling: str) -> Path:
    """Write a model with a pooling, whose texts are read as they are."""
    folder = places.work / f"smollm2-{name}"
    if folder.exists():
        return folder
    bare = places.work / f"bare-{name}"
    tokenizer = AutoTokenizer.from_pretrained(places.smollm2)
    tokenizer.chat_template = None
    with atomic_folder(bare) as making:
        model.save_pretrained(making)
        tokenizer.save_pretrained(making)
    transformer = Transformer(str(bare))
    layers = [transformer, Pooling(transformer.get_embedding_dimension(), pooling)]
    with atomic_folder(folder) as making:
        SentenceTransformer(modules=layers, device="cpu").save(
            str(making), create_model_card=False
        )
    return folder
