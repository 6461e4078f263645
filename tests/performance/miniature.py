"""Where a miniature's CPU time goes: pretraining steps and a fine-tuning under cProfile, by process time.

A second word, `pretraining` or `fine-tuning`, for one of them alone.

python -m miniature run --form quick --until runs --out build/miniature
python -m tests.performance.miniature build/miniature/quick-made-up
"""

from __future__ import annotations

import contextlib
import cProfile
import io
import pstats
import shutil
import sys
import tempfile
import time
from pathlib import Path

PARTS = {
    "pretraining": {
        "forward": "composer_adapter.py:forward",
        "  of it attention": "attention.py:attention",
        "backward": "run_backward",
        "optimizer": "adam.py:_single_tensor_adam",
        "validation": "pretraining/training/trainer.py:_validate",
        "checkpoints": "checkpoints.py:save",
        "Composer's events, its hooks and ours": "engine.py:run_event",
    },
    "fine-tuning": {
        "fine-tuning": "finetuning/trainer.py:fine_tune",
        "  of it forward": "tasks/supervised.py:forward",
        "  of it backward": "run_backward",
        "evaluation": ":evaluate",
        "reading the model": "encoders.py:load",
        "reading the dataset": "local_dataset.py:load",
    },
}


def main(folder: Path, *only: str) -> None:
    start = time.process_time()
    import torch

    from benchmarks.__main__ import main as benchmarks
    from pretraining.__main__ import main as pretraining
    from pretraining.training.train import train  # noqa: F401  (so that imports are counted apart)

    torch.set_num_threads(1)
    print(f"imports: {time.process_time() - start:.1f} CPU s")
    with tempfile.TemporaryDirectory() as name:
        place, model = Path(name), "mini-m-mlm40"
        common = [
            "--study",
            str(folder / "study.toml"),
            "--data",
            str(folder / "shards"),
            "--out",
            str(place),
        ]
        if "fine-tuning" not in only:
            report("pretraining", lambda: pretraining(["train", model, *common]))
            shutil.rmtree(place / "stages")
        if "pretraining" in only:
            return
        told = io.StringIO()
        start_from = min(folder.glob("pretrained/models/mini-m-mlm40-*"))
        words = ["--model", str(start_from), "--dataset", "sst2"]
        words += ["--lr", "1e-3", "--seed", "0", "--steps", "100", "--max-length", "128"]
        words += ["--data", str(folder / "data"), "--out", str(place)]
        words += ["--workers", "1"]
        with contextlib.redirect_stdout(told):
            profile = profiled(lambda: benchmarks(["run", *words]))
        show("fine-tuning", profile)


def report(what: str, call: object) -> None:
    show(what, profiled(call))


def profiled(call: object) -> cProfile.Profile:
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    call()  # type: ignore[operator]
    profile.disable()
    return profile


def show(what: str, profile: cProfile.Profile) -> None:
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = max(row[3] for row in stats.values())
    print(f"{what}: {total:.1f} CPU s")
    for label, pattern in PARTS[what].items():
        file, _, function = pattern.rpartition(":")
        found = [
            (row[3], row[0])
            for (path, _, name), row in stats.items()
            if path.endswith(file) and (name == function or (not file and function in name))
        ]
        seconds, calls = max(found, default=(0.0, 0))
        print(f"  {label:40} {seconds:6.1f} s  {seconds / total:4.0%}  {calls:7,} calls")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
