"""Ten faults put into a study on purpose: does `clm-or-mlm certify` notice that it is no replication of the example?

    python -m tests.miniature.faults build/miniature/cpu-real build/faults

The first folder is what `clm-or-mlm miniature run --form cpu --data FOLDER` left. Each faulty study is a model that is
pretrained again, or fine-tuned again, with one line of the code replaced; `none` are honest ones. docs/miniature.md has
the table that this prints; 15 minutes on two cores.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.comparisons.replication import replication_of
from analysis.sources import open_source
from analysis.store.stand_ins import STAND_INS
from common.tables import markdown_table

ARM, AGAIN = "mini-m-mlm40-840", "-s7"
DATASETS, RATE, SEEDS = ("sst2", "uner_en", "nq"), 3e-3, range(5)


def _prepared(change: Callable[..., Any]) -> Callable[[], None]:
    """Return what lets `change` make the MLM batch, from the right one, the packed batch and the mask rule."""

    def put() -> None:
        from pretraining.training.objectives import MLM, mlm

        object.__setattr__(MLM, "prepare", lambda batch, rule: change(mlm, batch, rule))

    return put


def _shifted(mlm: Any, batch: Any, rule: Any) -> Any:
    right = mlm(batch, rule)
    return replace(right, labels=batch.tokens[(right.positions + 1) % len(batch.tokens)])


def _rate_of_pretraining(change: Callable[..., float]) -> Callable[[], None]:
    def put() -> None:
        from pretraining.training.optimizer import WSD

        right = WSD.__call__
        WSD.__call__ = lambda self, step: change(right, self, step)  # type: ignore[method-assign]

    return put


def _leak() -> None:
    from benchmarks.datasets.local_dataset import LocalDataset

    right = LocalDataset.train.fget  # type: ignore[attr-defined]
    LocalDataset.train = property(lambda self: self.tables.get("test", right(self)))  # type: ignore[assignment]


def _first_token() -> None:
    from benchmarks.finetuning.heads import MEAN, POOLINGS

    object.__setattr__(MEAN, "pool", POOLINGS["first"].pool)


def _fine_tuned(**change: Callable[[Any], Any]) -> Callable[[], None]:
    def put() -> None:
        from benchmarks.sweep import work

        right, reset = work.fine_tune, work.ResettableModel.reset
        seed = change.get("seed", int)
        work.fine_tune = lambda *given, **named: right(  # type: ignore[assignment]
            *given, **{name: change.get(name, lambda same: same)(value) for name, value in named.items()}
        )
        work.ResettableModel.reset = lambda self, dataset, number: reset(  # type: ignore[method-assign]
            self, dataset, seed(number)
        )

    return put


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong in a study."""

    name: str
    put: Callable[[], None]
    """Puts it into this process."""
    pretrained: bool = True
    """Whether it is in the pretraining; else in the fine-tuning."""


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(name="none, pretrained again", put=lambda: None),
        Fault(name="none, fine-tuned again", put=lambda: None, pretrained=False),
        Fault(name="labels shifted by a token", put=_prepared(_shifted)),
        Fault(name="another mask token", put=_prepared(
            lambda mlm, batch, rule: mlm(batch, replace(rule, mask_token_id=300)))),
        Fault(name="15 % masked for 40 %", put=_prepared(
            lambda mlm, batch, rule: mlm(batch, replace(rule, ratio=0.15)))),
        Fault(name="causal attention in MLM", put=_prepared(
            lambda mlm, batch, rule: replace(mlm(batch, rule), is_causal=True))),
        Fault(name="no decay of the rate", put=_rate_of_pretraining(
            lambda right, schedule, step: right(replace(schedule, decay_start=None), step))),
        Fault(name="a third of the peak rate", put=_rate_of_pretraining(
            lambda right, schedule, step: right(schedule, step) / 3)),
        Fault(name="trained on the test split", put=_leak, pretrained=False),
        Fault(name="first token for the mean", put=_first_token, pretrained=False),
        Fault(name="seeds exchanged", put=_fine_tuned(seed=lambda seed: (seed + 1) % 5), pretrained=False),
        Fault(name="a third of the fine-tuning rate", put=_fine_tuned(lr=lambda lr: lr / 3), pretrained=False),
    )
}  # fmt: skip


def make(fault: Fault, study: Path, out: Path) -> None:
    """Make the faulty study in `out`, in this process."""
    from clm_or_mlm.__main__ import main

    out.mkdir(parents=True, exist_ok=True)
    name = ARM + AGAIN if fault.pretrained else ARM
    if fault.pretrained:
        fault.put()
        words = ["train", name, "--study", study / "study.toml", "--data", study / "shards"]
        words += ["--out", out / "pretrained"]
        assert main(list(map(str, words))) == 0
        models = out / "pretrained"
    else:
        fault.put()
        models = study / "pretrained"
    words = [
        "benchmarks", "run", "--model", models / "models" / name, "--name", name, "--dataset", *DATASETS, "--lr", RATE,
        "--seed", *SEEDS, "--steps", 80, "--max-length", 128, "--data", study / "data", "--out", out / "store",
    ]  # fmt: skip
    assert main(list(map(str, words))) == 0
    content = json.loads((study / "store" / STAND_INS).read_text())
    content["models"] = {name: content["models"][ARM] + (AGAIN if fault.pretrained else "")}
    (out / "store" / STAND_INS).write_text(json.dumps(content))


def judged(fault: Fault, out: Path) -> list[str]:
    """Return the faults that the certificate names."""
    reference = open_source("miniature")
    assert reference.stand_ins is not None and reference.stand_ins.logs is not None
    logs = [out / "pretrained", reference.stand_ins.logs] if fault.pretrained else []
    source = open_source(str(out / "store"))
    return replication_of(source, reference, pretrained=fault.pretrained, logs=logs).faults


if __name__ == "__main__":
    study, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if sys.argv[3:]:
        make(FAULTS[sys.argv[3]], study, out)
    else:
        rows = [["fault", "caught", "first sign"]]
        for place, fault in enumerate(FAULTS.values()):
            folder = out / str(place)
            if not (folder / "store" / STAND_INS).is_file():
                words = [sys.executable, "-m", "tests.miniature.faults", str(study), str(folder), fault.name]
                subprocess.run(words, check=True, env={**os.environ, "MKL_NUM_THREADS": "1"})
            found = judged(fault, folder)
            rows.append([fault.name, "yes" if found else "no", found[0] if found else "-"])
        print("\n".join(markdown_table(rows)))
