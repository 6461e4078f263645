"""Run the whole study at toy scale, from text to verdicts; to resume, rerun the command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from miniature.forms import FORMS, PREFIX, RANDOM


def run(
    *,
    form: Annotated[str, Parameter(metavar="|".join(FORMS))] = "cpu",
    divide: Annotated[int, Parameter(metavar="N", validator=Number(gte=1, lte=10_000))] = 1,
    data: Annotated[str | None, Parameter(metavar="DIR")] = None,
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("build/miniature"),
    example: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    workers: Annotated[int, Parameter(validator=Number(gte=1))] = 2,
    show: bool = False,
) -> None:
    """Run or resume a miniature: pretrain, fine-tune, analyse and draw the figures at toy scale.

    examples:
      clm-or-mlm miniature run --form quick
      clm-or-mlm miniature run --form cpu --data whole/ --workers 4
      clm-or-mlm miniature run --form gpu --data whole/ --workers 4
      clm-or-mlm miniature run --form quick --show

    Args:
        form: quick (minutes), cpu, long, curves, or gpu (a day of one H100)
        divide: divide sizes and steps, such as those of gpu by 100 to try it on a CPU
        data: folder with text and datasets (default: made-up ones)
        out: output folder, with a subfolder for each form
        example: also write runs table and loss curves here, as small files to keep
        workers: number of jobs to run at once
        show: only analyse the runs that have finished so far
    """
    from miniature.data import get_data_source

    chosen = FORMS[form].divided(divide)
    source = get_data_source(data, chosen)
    from miniature.pipeline import make_miniature
    from miniature.toy_study import Miniature

    miniature = Miniature.below(out, chosen, source)
    sys.stdout.write(make_miniature(miniature, workers=workers, example=example, train=not show))


def random(
    *,
    study: Annotated[Path, Parameter(metavar="FILE")],
    data: Annotated[Path, Parameter(metavar="DIR")],
    out: Annotated[Path, Parameter(metavar="DIR")],
) -> None:
    """Write the untrained model of the middle size, with the initial weights of the study's seed.

    example: clm-or-mlm miniature random --study study.toml --data shards/ --out untrained/

    Args:
        study: study file
        data: folder of the shards, for their tokenizer
        out: output folder for the model
    """
    from pretraining.data.shard_manifest import load_manifest
    from pretraining.model.configuration import config_of
    from pretraining.model.model_folder import export
    from pretraining.model.modeling import EuroBertForMaskedLM, initialise
    from pretraining.plan.study_plan import load_study

    plan, tokenizer = load_study(study), load_manifest(data)["tokenizer"]
    model = EuroBertForMaskedLM(config_of(plan.shapes[f"{PREFIX}m"], tokenizer))
    initialise(model, plan.config.seed)
    manifest = {
        "model": RANDOM, "steps": 0, "tokens_seen": 0, "tokenizer": tokenizer["sha256"], "size": f"{PREFIX}m",
    }  # fmt: skip
    export(model.state_dict(), model.config, data / "tokenizer", manifest, out)


def sample(
    *,
    form: Annotated[str, Parameter(metavar="|".join(FORMS))],
    data: Annotated[Path, Parameter(metavar="DIR")],
    out: Annotated[Path, Parameter(metavar="DIR")],
    divide: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
) -> None:
    """Sample from each dataset as many rows as a miniature needs.

    example: clm-or-mlm miniature sample --form quick --data data/ --out samples/

    Args:
        form: the miniature's form
        data: folder of the complete datasets
        out: output folder for the samples
        divide: as the miniature divides sizes and steps
    """
    from miniature.data import write_samples

    write_samples(FORMS[form].divided(divide), data, out)
