"""What a budget pays for, as a document, and the file of the study that was chosen."""

from __future__ import annotations

from dataclasses import asdict

from analysis.claims.pretraining_spread import MeasuredSpread
from benchmarks.protocol import DATASETS, format_lr
from clm_or_mlm.budget_plan import START, Budget, Choice
from common.plain_text import counted
from common.tables import Grid, Heading, TableDocument
from pretraining.models import arm_of
from pretraining.plan.study_text import divided_study, study_text
from workflow.study_checks import sample_of

__all__ = ["budget_document", "chosen_study"]


def budget_document(budget: Budget, choices: list[Choice | str], price: float | None) -> TableDocument:
    """Return what cannot be seen, then the studies, then their hours.

    Args:
        budget: what there is.
        choices: of `choices_of`.
        price: of an hour; None: no money is counted.
    """
    found = [(number, one) for number, one in enumerate(choices, 1) if isinstance(one, Choice)]
    device, datasets = budget.speed.device, found[0][1].datasets
    blind = [["", *(DATASETS[name].title for name in datasets), "between pretrainings"]]
    studies = [["", "for", "parameters", "tokens a model", "arms", "pretrainings", "fine-tunings", "memory"]]
    steps = list(found[0][1].hours)
    hours = [["", *steps, "in all", *["money"] * (price is not None)]]
    for number, one in found:
        finds = one.finds()
        blind.append([f"{number}", *(f"{finds[name]:.1f}" for name in datasets), f"{one.spread.sd:g}"])
        studies.append([
            f"{number}", one.title, f"{one.shape.encoder_parameters / 1e6:,.0f} M", _short(one.tokens),
            f"{len(one.arms)}", f"{len(one.arms)} x {one.pretrainings}",
            f"{len(one.datasets)} datasets x {len(one.rates)} rates x {counted(len(one.seeds), 'seed')}",
            f"{one.memory_gb:.0f} GB",
        ])  # fmt: skip
        money = [f"{price * one.total:,.2f}"] if price is not None else []
        hours.append(
            [f"{number}", *(f"{one.hours[step]:,.1f}" for step in steps), f"{one.total:,.1f}", *money]
        )
    limit = "" if budget.hours is None else f" for {budget.hours:g} hours"
    spreads = dict.fromkeys(one.spread for _, one in found)
    body: list[str | Grid | Heading] = [
        f"What one {device.name}{limit} cannot see: differences between two arms below these points",
        "(80 % power, one test at 0.05 by `compare --replicates`, the paper's spread of fine-tunings).",
        "",
        Grid(blind, range(1, 6)),
        "",
        *(f"Spread between pretrainings of {one.sd:g} points: {_where(one)}" for one in spreads),
        *["An adapted model's pretrainings share a start, so theirs should be smaller; nobody measured it."] * any(
            one.start for _, one in found
        ),
        "",
        "What it can train: choose a row; `--choose N --out study.toml` writes it.",
        "",
        Grid(studies, (2, 3, 4)),
        *(f"{number}: {one}" for number, one in enumerate(choices, 1) if isinstance(one, str)),
        "",
        f"Hours of each step{_known(budget)}.",
        "",
        Grid(hours, range(1, 9)),
    ]  # fmt: skip
    data = [
        {
            **{key: value for key, value in asdict(one).items() if key not in ("content", "shape", "spread")},
            "parameters": one.shape.encoder_parameters, "pretraining_sd": one.spread.sd, "finds": one.finds(),
            "total_hours": one.total, **({} if price is None else {"money": price * one.total}),
        }
        if isinstance(one, Choice) else {"problem": one}
        for one in choices
    ]  # fmt: skip
    return TableDocument(body=body, data={"device": device.name, "hours": budget.hours, "choices": data})


def _where(spread: MeasuredSpread) -> str:
    if not spread.network:
        return spread.where
    return (
        f"{spread.network}, {spread.score}, {spread.pretrainings} pretrainings,\n"
        f"the largest at the nearest scale ({spread.where})."
    )


def _known(budget: Budget) -> str:
    speed = budget.speed
    if speed.mfu is not None:
        return f", pretraining at {speed.mfu:.0%} of the peak rate"
    if speed.device.name in ("H100", "MI250X"):
        return ", from speeds measured on this device (docs/performance.md)"
    return "; counted, not measured: give the MFU that `train` logs there after 20 steps as --mfu"


def _short(tokens: float) -> str:
    return f"{tokens / 1e9:,.1f} B" if tokens >= 1e9 else f"{tokens / 1e6:,.0f} M"


def chosen_study(choice: Choice, divide: int) -> str:
    """Return the text of a choice's study file, with the commands that run it.

    Args:
        choice: the study.
        divide: sizes and steps are divided by this, to try the commands on a CPU.
    """
    content = divided_study(choice.content, divide)
    models = list(content["models"])
    if choice.start:
        again = [f"-s{seed}" for seed in range(1, choice.pretrainings)]
        models = [f"{name}{end}" for name in models for end in ("", *again)]
    start, text = choice.start or START, sample_of(choice.tokens)
    text = text if text.startswith("sample") else "default"
    tuned = " ".join(choice.datasets)
    rates, seeds = " ".join(map(format_lr, choice.rates)), " ".join(map(str, choice.seeds))
    arms = " ".join(f"--replicates {arm}" for arm in dict.fromkeys(arm_of(name)[0] for name in models))
    lines = [
        f"{choice.title}: {counted(len(choice.arms), 'arm')} of {choice.pretrainings} pretrainings, about "
        f"{choice.total:.1f} hours",
        f"clm-or-mlm shards --source hf:HuggingFaceFW/fineweb-edu:{text} --tokenizer {start} --out shards",
        f"clm-or-mlm fetch {tuned} msmarco --out data",
        f"for model in {' '.join(models)}; do",
        "clm-or-mlm train $model --study study.toml --data shards --out pretrained",
        f"clm-or-mlm benchmarks run --model pretrained/models/$model --name $model --dataset {tuned} \\",
        f"    --lr {rates} --seed {seeds} --data data --out results --workers 4",
        "done",
        *[f"# the same run of what is adapted: --model {start} --name start"] * bool(choice.start),
        f"clm-or-mlm compare --source results --study study.toml {arms}",
    ]
    return "".join(f"# {line}\n" for line in lines) + study_text(content)
