"""The miniature's jobs: commands of the rooms, each with the jobs it waits for."""

from __future__ import annotations

from common.files import write_text
from miniature.data_source import Origin
from miniature.job import Command, Folders, Job
from miniature.recipe import FAMILIES, RANDOM, Form
from pretraining.data.manifest import MANIFEST

__all__ = ["jobs"]


def jobs(form: Form, origin: Origin, folders: Folders) -> list[Job]:
    """Return every job up to the last fine-tuning, in an order that respects what each needs.

    The study file, samples of original files and made-up text are written first.

    Raises:
        UserError: a file of the origin is missing.
    """
    study_file = form.study_toml()
    if not folders.study.is_file() or folders.study.read_text("utf-8") != study_file:
        write_text(folders.study, study_file)
    text, datasets = origin.text(form, folders), origin.datasets(form, folders)
    vocab = next(iter(form.shapes.values())).vocab
    vocab = min(vocab, origin.most_ids or vocab)
    found = [
        Job(
            name="tokenizer",
            command=(
                "pretraining", "tokenizer", "--train", *text, "--vocab", str(vocab),
                "--documents", str(form.tokenizer_documents), "--out", str(folders.tokenizer),
            ),
            done=(folders.tokenizer / "tokenizer.json").is_file,
        ),
        Job(
            name="shards",
            command=(
                "pretraining", "shards", "--source", *text, "--tokenizer", str(folders.tokenizer),
                "--tokens", str(form.tokens), "--validation-share", "0.05", "--validation-tokens", "100000",
                "--shard-records", "64", "--workers", "1", "--out", str(folders.shards),
            ),
            needs=("tokenizer",),
            # Nothing is asked of a hub twice; other sources are compared with what the shards were made of.
            done=lambda: origin.needs_network and (folders.shards / MANIFEST).is_file(),
        ),
    ]  # fmt: skip
    found += datasets
    study = ("--study", str(folders.study), "--data", str(folders.shards), "--out", str(folders.pretrained))
    folder = folders.pretrained / "models" / RANDOM
    found.append(
        Job(
            name=f"draw {RANDOM}",
            command=("miniature", "random", *study[:4], "--out", str(folder)),
            needs=("shards",),
            done=(folder / "manifest.json").is_file,
        )
    )
    for stage, parent in _stages(form):
        found.append(
            Job(
                name=f"train {stage}",
                command=("pretraining", "train", stage, *study),
                needs=("shards",) if parent is None else (f"train {parent}",),
            )
        )
    for name, model in form.models.items():
        found.append(
            Job(
                name=f"export {name}",
                command=("pretraining", "train", name, *study),
                needs=tuple(f"train {stage.name}" for stage in model.stages),
                done=(folders.pretrained / "models" / name / "manifest.json").is_file,
            )
        )
    made = tuple(job.name for job in found if job.name.startswith("dataset"))
    for name in form.tuned:
        for dataset in FAMILIES.values():
            ready = f"draw {name}" if name == RANDOM else f"export {name}"
            found.append(
                Job(
                    name=f"tune {name} {dataset}",
                    command=_tuning(form, folders, name, dataset),
                    needs=(ready, *made),
                )
            )
    return found


def _stages(form: Form) -> list[tuple[str, str | None]]:
    """Return the stages that more than one model uses, or that are not a model's last, with their parents."""
    parents: dict[str, str | None] = {}
    for model in form.models.values():
        for stage in model.stages:
            parents.setdefault(stage.name, stage.parent)
    return list(parents.items())


def _tuning(form: Form, folders: Folders, model: str, dataset: str) -> Command:
    return (
        "benchmarks", "run", "--model", str(folders.pretrained / "models" / model), "--name", model,
        "--dataset", dataset, "--lr", *map(str, form.rates), "--seed", *map(str, form.seeds),
        "--steps", str(form.tuning_steps), "--max-length", str(form.tuning_length),
        "--data", str(folders.data), "--out", str(folders.store),
    )  # fmt: skip
