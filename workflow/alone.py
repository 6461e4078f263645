"""A study that plain `snakemake` starts, as workflow catalogues do: its jobs are planned where the Snakefile is read.

    snakemake --cores all --config target=figure3 settings=mine.toml image=full.sif dir=/scratch/me/study

Without `target` it is the tiny study. `clm-or-mlm workflow` does more: it waits for live jobs and asks Slurm first.
"""

from __future__ import annotations

from pathlib import Path

from workflow.jobs import save
from workflow.rehearsal import rehearsed
from workflow.settings import check_requirements, load_settings
from workflow.study import place_stand_ins, workflow_of
from workflow.tiny import write_tiny_study

__all__ = ["plan_alone"]


def plan_alone(target: str = "", settings: str = "", image: str = "", dir: str = "build/study-tiny") -> Path:
    """Write `workflow.json` into a study's folder and return the folder.

    Args:
        target: as `workflow_of` takes it; the tiny study when empty.
        settings: file of settings; the defaults when empty.
        image: image file that jobs run in; this Python when empty.
        dir: the study's folder.

    Raises:
        UserError: something is wrong or missing; nothing is written for another target than the tiny study.
    """
    folder, whole = Path(dir).resolve(), target or "all"
    path = Path(settings) if settings else None
    values = load_settings(path if target else write_tiny_study(folder))
    file = str(Path(image).resolve()) if image else ""
    made = workflow_of(whole, values, file)
    check_requirements(values, file, "local")
    made = rehearsed(made, folder)
    place_stand_ins(folder, whole)
    save(made, folder)
    return folder
