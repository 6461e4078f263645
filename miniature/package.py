"""Packages what the toy study `curves` made as files small enough for the repository.

python -m miniature.package STUDY EXAMPLE
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from analysis.store.runs_table import manifest_path
from analysis.store.stand_ins import STAND_INS
from common.cli import run
from common.errors import UserError
from common.files import write_text
from common.reading import read_json
from pretraining.training.log import LOG, read_log, write_log

_COLUMNS = ("step", "split", "objective", "ratio", "stage", "lr", "predicted")
"""Columns of a log that are copied as they are; the loss is rounded, and all other columns are left out."""


def package(study: Path, example: Path) -> None:
    """Write a finished study's runs table, stand-ins, and the logs of its stages, for `--source EXAMPLE/runs.parquet`.

    Args:
        study: the study's folder.
        example: gets `runs.parquet` with its manifest, `stand_ins.json` and `logs/log.jsonl`: of every stage the
            steps that have a validation loss.

    Raises:
        UserError: the study is not finished.
    """
    table = study / "analysis" / "all" / "runs.parquet"
    if not table.is_file():
        raise UserError(f"{study} is not finished; run `clm-or-mlm workflow` again")
    example.mkdir(parents=True, exist_ok=True)
    for path in (table, manifest_path(table)):
        shutil.copyfile(path, example / path.name)
    stand_ins = read_json(study / STAND_INS, "prepare the study again")
    # `logs` is the folder of the logs that are written below, relative to the file.
    content = json.dumps({**stand_ins, "logs": "logs"}, indent=1)
    write_text(example / STAND_INS, f"{content}\n")
    copied_rows = []
    # Each stage has a folder with its log.
    for log in sorted((study / "pretraining" / "stages").glob(f"*/{LOG}")):
        rows = read_log(log)
        validated_steps = {row["step"] for row in rows if row["split"] == "validation"}
        for row in rows:
            # The figures draw validation losses: rows of steps without one would take megabytes.
            if row["step"] in validated_steps:
                # A row of validation has no learning rate.
                columns = {key: row[key] for key in _COLUMNS if key in row}
                copied_rows.append({**columns, "loss": round(row["loss"], 5)})

    write_log(example / "logs" / LOG, copied_rows)


def main(argv: Sequence[str]) -> None:
    """Package the study `argv[0]` as `argv[1]`."""
    if len(argv) != 2:
        raise UserError("give two folders: the study's, and the example's")
    study, example = map(Path, argv)
    package(study, example)


if __name__ == "__main__":
    run(main)
