"""For each command an example or more, which its help shows last."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXAMPLES", "epilogue"]

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "pretraining plan": ("--figure 3", "--model 610m-clm-10k-mlm40-42k --device A100"),
    "pretraining settings": ("--set global_batch=96",),
    "pretraining shards": (
        "--source 'documents/*.jsonl.zst' --tokenizer tokenizer/ --out shards/",
        "verify shards/",
    ),
    "pretraining tokenizer": (
        "--convert tokenizer.model --out tokenizer/",
        "--train documents.jsonl --vocab 2048 --out tokenizer/",
    ),
    "pretraining train": ("610m-clm-10k-mlm40-42k --data shards/ --out pretrained/",),
    "pretraining export": ("pretrained/stages/610m-clm/step-00010000 --data shards/ --out encoder/",),
    "benchmarks fetch": ("sst2 squad --out data/",),
    "benchmarks import": (),
    "benchmarks synthetic": ("sst2 nq --out made-up/ --train 128",),
    "benchmarks datasets": (),
    "benchmarks datasets list": ("--data data/",),
    "benchmarks datasets show": ("sst2 --split test --examples 5",),
    "benchmarks datasets verify": ("sst2 squad --data data/",),
    "benchmarks run": (
        "--model pretrained/models/610m-clm-42k --data data/ --out results/",
        "--model bert-base-uncased --dataset sst2 IR --lr 1e-5 5e-5 --seed 0 1",
    ),
    "benchmarks status": ("--out results/",),
    "benchmarks validate": ("--model bert-base-uncased --dataset sst2 --tflops 300",),
    "analysis ingest": ("results/ --out runs.parquet --instances instances/",),
    "analysis fetch-released": ("--for figure3 --model 610m-clm-42k",),
    "analysis scores": ("--model 610m-mlm40-42k --interval bootstrap --source results/",),
    "analysis table": ("10 11 --source released --format latex", "all --out build/tables"),
    "analysis audit": ("--source released --format html --out audit.html",),
    "analysis provenance": ("results/",),
    "analysis claims": (),
    "analysis compare": (
        "610m-clm-10k-mlm40-42k 610m-mlm40-42k",
        "my-model '610m-*-42k' --source results/ --add-model my-model",
    ),
    "analysis best": (),
    "analysis sensitivity": ("--format markdown --out sensitivity.md",),
    "analysis coverage": ("--trials 2000 --format csv",),
    "analysis power": ("--effect 0.5",),
    "analysis report": ("--source results/ --figures build/figures --out report.html",),
    "analysis reproduce": ("--source results/ --out build",),
    "analysis clean": ("--dry-run",),
    "paper_figures": (),
    "container build": ("analysis", "full --relock"),
    "container run": ("analysis analysis table 10",),
    "container test": ("analysis",),
    "container verify": ("analysis --file elsewhere/analysis.sif",),
    "container doctor": ("--study /scratch/me/study --site lumi",),
    "workflow": (),
    "workflow status": ("--dir /scratch/me/study",),
    "workflow detach": (),
    "workflow archive": ("--dir /scratch/me/study --agent https://orcid.org/0000-0002-1825-0097",),
    "workflow cancel": ("--dir /scratch/me/study",),
    "miniature run": ("--form quick", "--form cpu --data whole/ --workers 4"),
    "miniature show": ("--form quick",),
    "miniature random": ("--study study.toml --data shards/ --out untrained/",),
    "miniature sample": ("sst2 --form quick --data data/ --out samples/",),
}
"""The words after each command; empty where its own text has examples between its lines."""


def epilogue(command: str, prefix: str = "python -m") -> str:
    """Return what stands below the help of `ROOM COMMAND`, as the program is called; empty for nothing."""
    lines = [f"  {prefix} {command} {words}" for words in EXAMPLES.get(command, ())]
    return "\n".join([f"example{'s' if len(lines) > 1 else ''}:", *lines]) if lines else ""
