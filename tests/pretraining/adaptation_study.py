"""Is a decoder better after adaptation, and better than a random start? Three models on UNER, at toy size.

    python -m tests.pretraining.adaptation_study smollm2/ --text 'texts/*.jsonl.zst' --data data/ --out study/
    python -m tests.pretraining.adaptation_study smollm2/ --out study/ --show

The three are a decoder as it is, the same decoder after some steps of MLM, and random weights of its shape after as
many steps on the same tokens. Each is fine-tuned on UNER at one learning rate with the same seeds. Every part is a
command of the package: rerun this one after a kill, and it resumes; `--show` prints what is there.

First it prints what five seeds can show. The sizes are those of docs/build-an-encoder.md.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd

from analysis.comparisons.comparison import compare
from analysis.comparisons.comparison_report import records_of
from analysis.evidence.settings import Settings
from analysis.precision.design import PlannedStudy, planned_test, seed_spreads
from analysis.sources import PUBLISHED, Source, open_source
from benchmarks.datasets.local_dataset import load
from benchmarks.protocol import PAPER, STANDARD
from common import cli
from common.cli import MANY
from common.errors import UserError
from common.files import atomic_folder
from common.tables import markdown_table
from miniature.data import spread, write_sample

DATASET, RATE, SEEDS = "uner_en", "1e-4", range(5)
TOKENS_PER_STEP = 1_536
START, ADAPTED, RANDOM = "start", "adapted", "random-adapted"
MODELS = {
    START: "the decoder as it is",
    ADAPTED: "the decoder after MLM",
    RANDOM: "random weights after the same MLM",
}
PEAKS = {ADAPTED: "1e-4", RANDOM: "5e-4"}
"""Peak rates of MLM: what `adapt` chooses for the decoder; the paper's for random weights."""


def run(*words: object) -> str:
    """Run a command of the package and return what it prints.

    Raises:
        UserError: it failed; its own message is above.
    """
    command = [sys.executable, "-m", "clm_or_mlm", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"`clm-or-mlm {' '.join(command[3:])}` failed (exit code {done.returncode})"
        )
    return done.stdout


def random_start(start: Path, out: Path) -> None:
    """Write random weights of a decoder's class and shape, with its tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    if out.exists():
        return
    torch.manual_seed(0)
    with atomic_folder(out) as making:
        AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(start)
        ).save_pretrained(making)
        AutoTokenizer.from_pretrained(start).save_pretrained(making)


def sample(data: Path, out: Path, *, validation: int, test: int) -> None:
    """Write UNER with fewer sentences to evaluate on, at even distances: with one rate, validation chooses nothing."""
    found = load(data, DATASET)
    sizes = {"validation": validation, "test": test}
    tables = {
        split: rows.take(spread(range(rows.num_rows), sizes.get(split, rows.num_rows)))
        for split, rows in found.tables.items()
    }
    write_sample(found, tables, f"{validation} and {test} rows", out)


def make(
    start: Path, text: Sequence[str], data: Path, out: Path, *, steps: int, tuning: int
) -> None:
    """Train and fine-tune what is not done."""
    shards, small = out / "shards", out / "data"
    if not shards.exists():
        run(
            "shards",
            *(word for one in text for word in ("--source", one)),
            "--tokenizer",
            start,
            "--out",
            shards,
            "--workers",
            1,
        )
    if not small.exists():
        sample(data, small, validation=100, test=1_000)
    random_start(start, out / RANDOM / "random")
    fine_tune(START, start, out, tuning)
    print(
        what_seeds_show("with the decoder's own spread", opened(out, PAPER)), flush=True
    )
    for name, begin in ((ADAPTED, start), (RANDOM, out / RANDOM / "random")):
        settings = {
            "peak_lr": PEAKS[name],
            "max_length": 256,
            "global_batch": TOKENS_PER_STEP // 256,
            "save_every": max(1, steps // 4),
            "eval_every": max(1, steps // 2),
            "eval_sequences": 24,
        }
        changes = (
            word
            for key, value in settings.items()
            for word in ("--set", f"{key}={value}")
        )
        made = run(
            "adapt",
            begin,
            "--data",
            shards,
            "--steps",
            steps,
            "--out",
            out / name,
            *changes,
        )
        fine_tune(name, Path(made.split()[-1]), out, tuning)


def fine_tune(name: str, folder: Path, out: Path, steps: int) -> None:
    """Fine-tune a model with every seed."""
    run(
        "benchmarks",
        "run",
        "--model",
        folder,
        "--name",
        name,
        "--dataset",
        DATASET,
        "--data",
        out / "data",
        "--lr",
        RATE,
        "--seed",
        *SEEDS,
        "--steps",
        steps,
        "--precision",
        "mixed",
        "--workers",
        1,
        "--positions",
        512,
        "--out",
        out / "store",
    )


def what_seeds_show(title: str, source: Source) -> str:
    """Return the difference on UNER that five seeds can show, with a source's spread between seeds."""
    spread = dict(seed_spreads(source))["TC", DATASET]
    test = planned_test(PlannedStudy(seeds=len(SEEDS)), spread)
    return (
        f"{len(SEEDS)} seeds can show {test.detectable():.2f} points, {title} of {spread.sd:.2f} points between seeds "
        f"({test.power(1):.0%} power for 1 point)."
    )


def opened(out: Path, protocol: str) -> Source:
    """Return the runs that are there, by the paper's metric or the usual one."""
    return open_source(str(out / "store"), add_models=list(MODELS), protocol=protocol)


def table(out: Path) -> str:
    """Return means, differences and intervals as Markdown."""
    sources = [opened(out, protocol) for protocol in (PAPER, STANDARD)]
    settings = [source.with_interval(Settings()) for source in sources]
    tables = [source.scores(one) for source, one in zip(sources, settings, strict=True)]
    rows = [["model", "seeds", "the paper's F1 (95 %)", "entity F1 (95 %)"]]
    for name, title in MODELS.items():
        found = [
            scores[(scores.model == name) & (scores.dataset == DATASET)]
            for scores in tables
        ]
        if all(len(one) for one in found):
            cells = (
                f"{one['mean'].iloc[0]:.1f} [{one.low.iloc[0]:.1f}, {one.high.iloc[0]:.1f}]"
                for one in found
            )
            rows.append([title, str(found[0].n_seeds.iloc[0]), *cells])
    for first, second in ((ADAPTED, START), (ADAPTED, RANDOM)):
        if not {first, second} <= set(tables[0].model):
            continue
        pairs = [
            pd.DataFrame(records_of(compare(source, (first, second), one)))
            for source, one in zip(sources, settings, strict=True)
        ]
        both = [pair[pair.dataset == DATASET].iloc[0] for pair in pairs]
        cells = (f"{one.effect:+.1f} [{one.low:+.1f}, {one.high:+.1f}]" for one in both)
        rows.append(
            [f"{MODELS[first]} minus {MODELS[second]}", str(both[0].seeds), *cells]
        )
    return "\n".join(markdown_table(rows, range(1, 4)))


def study(
    start: Path,
    /,
    *,
    out: Path,
    text: Annotated[tuple[str, ...], MANY] = (),
    data: Path = Path("data"),
    steps: int = 50,
    tuning: int = 40,
    show: bool = False,
) -> None:
    """Make the study, or what is not done of it, and print its table.

    Args:
        start: folder of a decoder
        out: where everything is kept
        text: documents to adapt on, as `shards` reads them
        data: folder with the dataset uner_en
        steps: of MLM, 1,536 tokens each
        tuning: steps of fine-tuning, 32 sentences each
        show: only print the table of what is there
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if not show:
        print(what_seeds_show("with the paper's spread", PUBLISHED), flush=True)
        make(start, text, data, out, steps=steps, tuning=tuning)
    print(table(out))


if __name__ == "__main__":
    app = cli.program("tests.pretraining.adaptation_study")
    app.default(study)
    cli.run(partial(cli.call, app))
