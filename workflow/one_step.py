"""A few steps of a study's largest model on the nodes that its jobs will have: how fast and by what network.

They are jobs like the study's own: the same image, site, launcher and settings, on made-up text.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from common.errors import UserError
from common.files import write_text
from pretraining.plan.config import TrainingConfig
from workflow.engine import run_workflow
from workflow.jobs import Workflow
from workflow.rehearsal import rehearsed
from workflow.settings import Settings
from workflow.slurm import refuse_what_slurm_refuses
from workflow.study import study_of, workflow_of
from workflow.tiny import make_text

__all__ = ["network_of", "prepared", "try_steps"]

_STEPS, _DECAY, _DOCUMENTS = 6, 2, 20_000
_MODEL = f"rehearsal-largest-mlm40-{_STEPS}"
_NETWORK = re.compile(r"NCCL INFO (?:Using network (.+)|.*\b(NET/\w+))")


def prepared(settings: Settings, folder: Path, image: str = "") -> Workflow:
    """Write the text and the study of a rehearsal into a folder, and return its jobs."""
    study = study_of(settings)
    size = max(study.shapes, key=lambda name: study.shapes[name].trained_parameters)
    changed = {
        key: value for key, value in asdict(study.config).items() if value != getattr(TrainingConfig(), key)
    }
    changed |= {"log_every": 1, "eval_sequences": 0, "warmup_steps": 1, "rewarm_steps": 0}
    tables = {"sizes.largest": asdict(study.shapes[size]), "settings": changed}
    lines = ['prefix = "rehearsal-"', f"decay_steps = {_DECAY}", f"models = [{_MODEL!r}]"]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    write_text(folder / "study.toml", "\n".join(lines) + "\n")
    write_text(folder / "text.jsonl", "".join(f'{{"text": "{one}"}}\n' for one in make_text(_DOCUMENTS)))
    own = replace(
        settings,
        study=str(folder / "study.toml"),
        text=(str(folder / "text.jsonl"),),
        tokenizer="",
        train_tokenizer=384,
        shard_options=(),
    )
    whole = workflow_of(_MODEL, own, image)
    jobs = {marker: job for marker, job in whole.jobs.items() if job.kind.part in ("data", "pretraining")}
    return replace(whole, jobs=jobs, environ=whole.environ | {"NCCL_DEBUG": "INFO"})


def try_steps(
    settings: Settings, folder: Path, *, profile: str, image: str = ""
) -> Iterator[tuple[str, str]]:
    """Run the steps and yield what was seen, as name and text.

    Raises:
        UserError: they did not run; the jobs' logs are below the folder.
    """
    workflow = rehearsed(prepared(settings, folder, image), folder, key=settings.image_key)
    if profile == "slurm":
        refuse_what_slurm_refuses(workflow)
    if not run_workflow(workflow, folder, profile=profile):
        raise UserError(f"the rehearsal did not finish; its logs are in {folder / 'logs'}")
    stages = sorted((folder / "pretraining/stages").glob("*/timings.jsonl"))
    rows = [json.loads(line) for path in stages for line in path.read_text("utf-8").splitlines()]
    best = max((row for row in rows if "tokens_per_second" in row), key=lambda row: row["tokens_per_second"])
    share = f", MFU {best['mfu']:.1%}" if "mfu" in best else ""
    yield (
        "speed",
        f"{best['tokens_per_second']:,.0f} tokens/s on {best['processes']} x {best['device']}{share}",
    )
    yield (
        "memory",
        f"{max(row['memory_gb'] for row in rows if 'memory_gb' in row):.1f} GB at most per process",
    )
    logs = "".join(path.read_text("utf-8", errors="replace") for path in (folder / "logs").glob("*/*.log"))
    yield "network", network_of(logs, best["processes"], best["device"])
    # Checkpoints of the largest model take gigabytes.
    for name in ("pretraining", "shards"):
        shutil.rmtree(folder / name)


def network_of(logs: str, processes: int, device: str) -> str:
    """Return what processes talked by, from the lines that NCCL and RCCL print with NCCL_DEBUG=INFO."""
    if processes == 1:
        return "one process, so no communication"
    if device == "cpu":
        return "gloo, as always on CPUs"
    found = dict.fromkeys(first or second for first, second in _NETWORK.findall(logs))
    return ", ".join(found) if found else "NCCL names none: the GPUs of one node communicate directly"
