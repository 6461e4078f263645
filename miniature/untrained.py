"""The network before training, as a model folder: what pretraining has to beat."""

from __future__ import annotations

from pathlib import Path

from miniature.forms import PREFIX, RANDOM
from pretraining.data.manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.hf_export import export
from pretraining.model.modeling import initialise
from pretraining.plan.study_file import load_study

__all__ = ["write_random"]


def write_random(study: Path, shards: Path, out: Path) -> None:
    """Write the middle size with the initial weights that all its models start from.

    Args:
        study: the study file.
        shards: the text's shards, for the tokenizer.
        out: model folder to make.
    """
    plan = load_study(study)
    tokenizer = load_manifest(shards)["tokenizer"]
    config = config_of(plan.shapes[f"{PREFIX}m"], tokenizer)
    model = EuroBertForMaskedLM(config)
    initialise(model, plan.config.seed)
    manifest = {
        "model": RANDOM,
        "steps": 0,
        "tokens_seen": 0,
        "tokenizer": tokenizer["sha256"],
        "size": f"{PREFIX}m",
    }
    export(model.state_dict(), config, shards / "tokenizer", manifest, out)
