"""How many of the project's files one has to open to follow two journeys through the code.

    python -m tests.performance.files_entered          # --list names the files

Run it in the repository, with the full environment. The journeys: from `results.json` to a pixel of Figure 3, and
from a text document to a training loss. Every command runs as a user runs it, on made-up input. A file counts when
one of its functions or methods is called, by the command or a process it starts. Importing a file does not count, nor
do class bodies, what a decorator generates, and what is called while a module is imported. The command lines count
(`__main__.py`, `common/cli.py`), tests do not.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from itertools import product
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path.cwd()
"""The tree that is measured."""

OBJECTIVES = ("clm", "mlm20", "mlm30", "mlm40", "mlm50")
DATASETS = """SC/sst2 SC/qqp SC/mnli_m TC/ontonotes TC/conll2003_en TC/uner_en
QA/squad QA/squad_v2 QA/record IR/nq IR/msmarco IR/mldr_en"""
RATES = ("1e-05", "2e-05", "5e-05", "1e-04", "2e-04", "5e-04")
STUDY = """\
prefix = "mini-"
decay_steps = 1
sizes.s = {hidden = 32, layers = 2, heads = 4, kv_heads = 2, mlp = 64, vocab = 400, max_length = 64}
settings = {max_length = 64, min_length = 4, global_batch = 8, microbatch = 4, eval_sequences = 16}
"""
TOKENIZER = "pretraining tokenizer --train text.jsonl --vocab 300 --out tokenizer"
SHARDS = "pretraining shards --source text.jsonl --tokenizer tokenizer --validation-share 0.1 --workers 1 --out data"
TRAIN = "pretraining train mini-s-mlm40-2 --study study.toml --data data --out trained"


def follow(root: str, trace: str) -> None:
    """Append a line to `trace` for every function of the files below `root` that this process enters."""
    descriptor = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    own, others = f"{root}{os.sep}", (f"{root}{os.sep}tests{os.sep}", f"{root}{os.sep}.")
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code, file = frame.f_code, frame.f_code.co_filename
        # Functions are optimised code; modules and class bodies are not.
        if event != "call" or code in seen or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        ours = file.startswith(own) and not file.startswith(others)
        if ours and importing(frame):
            return  # it may be called again, on the way
        seen.add(code)
        if ours:
            os.write(descriptor, f"{file.removeprefix(own)}\t{code.co_qualname}\n".encode())

    threading.setprofile(note)
    sys.setprofile(note)


def importing(frame: FrameType | None) -> bool:
    """Return whether a call happens while a module is imported."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def entered(folder: Path, *commands: str) -> set[tuple[str, str]]:
    """Run commands in `folder` and return the functions entered, each as (file, function)."""
    trace, cache = folder / "trace", folder / "cache"
    trace.write_text("")
    # Python imports a module of this name when it starts, and so do the processes that a command starts.
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nfrom files_entered import follow\n"
        f"sys.path.pop()\nfollow({str(ROOT)!r}, {str(trace)!r})\n"
    )
    environ = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "CLM_OR_MLM_CACHE": str(cache)}
    for command in commands:
        words = [sys.executable, "-m", *command.split()]
        subprocess.run(words, cwd=folder, env=environ, stdout=subprocess.DEVNULL, check=True)
    return {(file, function) for file, function in map(str.split, trace.read_text().splitlines())}


def write_inputs(folder: Path) -> None:
    """Write a store of Figure 3's runs in the authors' layout, a study of one size, and documents."""
    models = [f"{size}-{objective}-42k" for size, objective in product(("210m", "610m", "1b"), OBJECTIVES)]
    for number, (model, dataset, rate, seed) in enumerate(product(models, DATASETS.split(), RATES, range(5))):
        split = {"score": (1 + number % 2) / 2, "scores_i": [1, number % 2]}
        run = f"{'msmarco_pairs_' if dataset.startswith('IR') else ''}lr{rate}_sd{seed}"
        file = folder / "store" / "results" / model / dataset / run / "results.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"validation": split, "test": split}, indent=4))
    (folder / "study.toml").write_text(STUDY)
    texts = (" ".join(f"word{place * number % 397}" for place in range(60)) for number in range(1, 300))
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def main() -> None:
    """Follow both journeys and print how many files each enters."""
    parser = argparse.ArgumentParser(description="Count the files that two journeys enter.")
    parser.add_argument("--list", action="store_true", help="name the files, and how many functions of each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        write_inputs(Path(name))
        entries = {
            "results.json to a pixel of Figure 3": entered(Path(name), "paper_figures 3 --source store")
        }
        entries["text to shards"] = entered(Path(name), TOKENIZER, SHARDS)
        entries["shards to a loss"] = entered(Path(name), TRAIN)
    entries["text to a loss"] = entries["text to shards"] | entries["shards to a loss"]
    for journey, functions in entries.items():
        files = Counter(file for file, _ in functions)
        print(f"{journey}: {len(files)} files, {len(functions)} functions")
        for file in sorted(files) if arguments.list else ():
            print(f"  {file}  {files[file]}")


if __name__ == "__main__":
    main()
