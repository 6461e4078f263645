"""`python -m benchmarks`: datasets, fine-tuning and evaluation of encoders."""

from __future__ import annotations

from clm_or_mlm.rooms import Room

__all__ = ["ROOM"]

_HERE = "clm_or_mlm.commands.benchmarks"

ROOM = Room(
    name="benchmarks",
    description="Measure encoders on the paper's twelve datasets.",
    commands={
        "fetch": (f"{_HERE}.fetch:fetch", "download datasets from their hubs into data/ (needs network)"),
        "import": (
            f"{_HERE}.import_files:import_files",
            "make a dataset from original distribution files (no network)",
        ),
        "synthetic": (f"{_HERE}.synthetic:synthetic", "write small made-up datasets for smoke tests"),
        "datasets": (f"{_HERE}.datasets:DATASETS", "list, show or verify the datasets in data/"),
        "run": (f"{_HERE}.run:run", "fine-tune and evaluate a model; resumes where it stopped"),
        "status": (f"{_HERE}.status:status", "what is done, missing or failed, and the time left"),
        "validate": (
            f"{_HERE}.validate:validate",
            "check model, data and settings; estimate time and memory",
        ),
    },
)
