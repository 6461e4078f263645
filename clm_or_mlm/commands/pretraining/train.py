"""`python -m pretraining train`: pretrain a model, or one stage of the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clm_or_mlm.commands.pretraining.options import ConfigOptions
from common.processes import AGAIN

__all__ = ["train"]


def train(
    model: Annotated[str, Parameter(metavar="MODEL")],
    /,
    *,
    data: Annotated[Path, Parameter(metavar="DIR")],
    out: Annotated[Path, Parameter(metavar="DIR")],
    stop_file: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    study: ConfigOptions = ConfigOptions(),
) -> int | None:
    """Pretrain a model of the study, or one stage of the plan.

    Start it under srun, torchrun or composer for many GPUs. It resumes from
    its last checkpoint; after SIGTERM or SIGUSR1 it saves and exits with 75.

    Args:
        model: such as 610m-clm-10k-mlm40-42k, or a trunk such as 610m-clm
        data: shards
        out: checkpoints, logs and models
        stop_file: save and exit with 75 once this file exists, as after SIGUSR1: for images and many nodes
    """
    chosen = study.load()
    config = study.config(chosen)
    # After the settings: torch takes seconds to import, a misspelt setting is reported at once.
    from pretraining.training import train as training

    done = training.train(model, data=data, out=out, study=chosen, config=config, stop_file=stop_file)
    return None if done else AGAIN
