"""The miniature's page, written from its results."""

from __future__ import annotations

import json

import pandas as pd

from benchmarks.protocol import DATASETS
from miniature.checks import Check, final_losses, mean_scores
from miniature.data_source import Origin
from miniature.job import Folders
from miniature.local import FILES
from miniature.recipe import FAMILIES, FORMS, RANDOM, SIZES, Form
from pretraining.paper_settings import SHAPES, TRAINING

__all__ = ["page", "read_timings", "stand_in_note"]

STAGES = {
    "tokenizer": "data", "shards": "data", "fetch": "data", "dataset": "data", "draw": "pretraining",
    "train": "pretraining", "export": "pretraining", "tune": "fine-tuning", "ingest": "analysis",
    "reproduce": "analysis", "report": "analysis",
}  # fmt: skip


_FORMS_NOTE = (
    "`cpu` on real data took 4,029 CPU seconds to the last fine-tuning: 57 minutes by the clock on two cores that much",
    "other work shared, 34 if they had been its own. It was stopped once on the way and went on.",
    "`quick` on made-up data took 167 CPU seconds on a shared two-core machine. Words alone decide the made-up SC and",
    "IR, where the untrained network is as good; pretraining shows in TC alone, and the first check says no.",
    "`gpu` has not been run: 26 models of 53 M tokens each are 124 PFLOP, 14 minutes at 15% of an H100's peak, and its",
    "fine-tunings, four side by side (`ARGS='--workers 4'`), are estimated at 5 to 10 more.",
    "",
    "What the recipe rests on: sequences are shuffled over all of the text, for among neighbours a network follows one",
    "novel at a time (MLM loss 6.13 against 5.77 nats after 600 steps of `cpu`, one run each); the peak rate is 3e-3,",
    "for at 6e-3 the CLM loss jumped. That initial weights keep the paper's ratio to 1 / sqrt(width) was not compared.",
)


_HUB_NOTE = (
    "`DATA=hub` needs network: documents of FineWeb-Edu's sample-10BT are read until there are enough, and the five",
    "datasets are fetched whole, once for all forms, as `python -m benchmarks fetch` does (MS MARCO's corpus is the",
    "largest). Tried with the hub's own client on a hub of small stand-ins on a local port, not on the public one.",
)


_NOT_LEARNT = (
    "Where the first check does not hold, pretraining was too short to help fine-tunings this short: scores near",
    "those of the untrained network say that the chain runs, and nothing more. The losses are what has been learnt.",
    "",
)


def _share(part: float, whole: float) -> str:
    return f"1/{float(f'{whole / part:.1g}'):,.0f}"


def _measured(scores: pd.DataFrame, model: str, dataset: str) -> bool:
    return model in scores.index and bool(scores[dataset].notna()[model])


def _stopped(done: int, planned: int) -> str:
    return (
        f"**It was stopped before its end:** {done} of {planned} fine-tunings are there. Models without a score were "
        "pretrained\nand not, or not wholly, fine-tuned."
    )


def stand_in_note(form: Form, origin: Origin) -> str:
    """Return the sentence that every caption of the miniature begins with."""
    sizes = ", ".join(
        f"{SIZES[size].upper()} is a network of {shape.encoder_parameters / 1e6:.2g}M parameters"
        for size, shape in form.shapes.items()
    )
    return (
        f"not the paper's models. {sizes}; {form.scale} steps are 1 here; {origin.kind}; a family is one dataset "
        f"({', '.join(DATASETS[name].title for name in FAMILIES.values())})."
    )


def read_timings(folders: Folders) -> dict[str, float]:
    """Return the CPU seconds of every job, those of repeated calls added up."""
    found: dict[str, float] = {}
    if folders.timings.is_file():
        for line in folders.timings.read_text("utf-8").splitlines():
            row = json.loads(line)
            found[row["job"]] = found.get(row["job"], 0.0) + row["cpu_seconds"]
    return found


def page(
    form: Form, origin: Origin, folders: Folders, runs: pd.DataFrame, found: list[Check]
) -> str:  # fmt: skip
    """Return `docs/miniature.md` for a finished miniature."""
    scores, losses = mean_scores(runs), final_losses(form, folders)
    stages: dict[str, float] = {}
    for job, seconds in read_timings(folders).items():
        stage = STAGES[job.split()[0]]
        stages[stage] = stages.get(stage, 0.0) + seconds
    recipe = form.settings
    shape, paper = form.shapes["m"], SHAPES[SIZES["m"]].encoder_parameters
    planned = len(form.tuned) * len(FAMILIES) * len(form.rates) * len(form.seeds)
    tokens = float(str(recipe["global_batch"])) * (12 + float(str(recipe["max_length"]))) / 2
    lines = [
        "# Does the whole chain work, and what does a study in miniature look like?",
        "",
        "    make miniature                       # made-up text and tasks: always works",
        "    make miniature DATA=folder           # real text and tasks from local files",
        "    make miniature DATA=hub              # FineWeb-Edu and the paper's datasets, with network",
        "    make miniature FORM=quick            # minutes; FORM=gpu for one large GPU",
        "",
        "It pretrains from scratch, exports, fine-tunes, ingests, draws, tests the claims and writes the report with",
        "the commands of the real study; only the plan (`miniature/recipe.py`) is small. Killed at any moment, the",
        "same command goes on. It ends with what was made, how long it took and the checks below. The example that",
        "comes with the package is `SOURCE=miniature`: `make reproduce SOURCE=miniature OUT=build/example`, offline.",
        "",
        f"**This page was written by a run of the form `{form.name}`.** Source: {origin.about}.",
        "",
        "## What was run",
        "",
        f"{len(form.models)} pretrained models and the untrained network; {len(runs)} fine-tunings; about "
        f"{tokens:,.0f} tokens a step; {form.scale} steps of the paper for 1.",
        "Families are one dataset each, so a family's average is that dataset's score.",
        *origin.sampled,
        *(() if len(runs) == planned else (_stopped(len(runs), planned),)),
        "",
        "| stage | CPU seconds |",
        "|---|---:|",
        *(f"| {stage} | {seconds:,.0f} |" for stage, seconds in stages.items()),
        "",
        "Of commands that ended; processes work side by side (`--workers`), each on one thread.",
        "",
        "## What came out",
        "",
        f"Test scores in percent, means over {runs['seed'].nunique()} seeds. Loss: of validation at the last step,",
        "in nats a predicted token of the last objective; the masking ratio and CLM change what is predicted.",
        "",
        f"| model | stands for | {' | '.join(FAMILIES)} | loss |",
        f"|---|---|{'---:|' * (len(FAMILIES) + 1)}",
    ]
    for name in (RANDOM, *form.models):
        cells = [
            f"{scores[dataset][name]:.2f}" if _measured(scores, name, dataset) else "-"
            for dataset in FAMILIES.values()
        ]
        loss = f"{losses[name]:.3f}" if name in losses else "-"
        lines.append(
            f"| `{name}` | {form.stand_ins.get(name, 'no pretraining')} | {' | '.join(cells)} | {loss} |"
        )
    lines += [
        "",
        "| check | holds | seen |",
        "|---|---|---|",
        *(f"| {check.what} | {'yes' if check.holds else '**no**'} | {check.seen} |" for check in found),
        "",
        *(() if found[0].holds else _NOT_LEARNT),
        "## What cannot be concluded",
        "",
        f"Nothing about the paper's question. The networks have {_share(shape.encoder_parameters, paper)} of the "
        "parameters of those they stand for,",
        f"and see {_share(tokens * 42_000 / form.scale, 42_000 * TRAINING.tokens_per_step)} of the tokens; one or two "
        "learning rates and two seeds stand where the paper has thirty",
        "runs a cell. Most claims come out inconclusive or not decidable, as they should; a verdict that does come out",
        "speaks of these networks alone.",
        "",
        "## Forms",
        "",
        "| form | for | parameters (embedding and body) | models | fine-tunings |",
        "|---|---|---|---:|---:|",
    ]
    for item in FORMS.values():
        sizes = ", ".join(f"{shape.encoder_parameters / 1e6:.2f} M" for shape in item.shapes.values())
        tunings = len(item.tuned) * len(FAMILIES) * len(item.rates) * len(item.seeds)
        lines.append(f"| `{item.name}` | {item.about} | {sizes} | {len(item.models)} | {tunings} |")
    lines += [
        "",
        *_FORMS_NOTE,
        "",
        *_HUB_NOTE,
        "",
        "## The files in DATA",
        "",
        "Each plain, `.zst` or `.gz`; some rows of each are taken.",
        "",
        *(f"- {name}: {', '.join(f'`{path}`' for path in paths)}" for name, paths in FILES.items()),
    ]
    return "\n".join(lines) + "\n"
