"""Folders of results that other tools wrote, each read as one table of scores with a row for each number.

lm-evaluation-harness   results_DATE.json: groups are left out beside their tasks; of several dates the newest counts
MTEB                    TASK.json: of several splits `test` counts; subsets are averaged
Trainer (transformers)  all_results.json, else trainer_state.json at the step that was kept

Where a file does not say whose score it is, its folders do: `folder1` is the first below the one that was given.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.comparisons.table_options import TableOptions
from analysis.store.text_table import TextTable, text_table_of
from benchmarks.runs import RESULTS, RUN
from common.errors import UserError
from common.plain_text import first_of
from common.reading import BadJsonError, read_bounded, strict_json

ResultRow = dict[str, Any]
_TRAINER = ("all_results.json", "eval_results.json", "trainer_state.json")
"""Files of a run, the one that counts first."""
_METRIC = re.compile(r"(eval|test|predict)_(?!.*(loss|samples|per_second|time)$).+")
"""A score among what the Trainer writes of an evaluation."""


def table_of_folder(
    folder: Path, options: TableOptions
) -> tuple[TextTable, list[str]] | None:
    """Return the scores in a folder of another tool's results, and what was chosen; None for other folders.

    Args:
        folder: with results of one tool at any depth.
        options: which folders are the model, the dataset and the seed.

    Raises:
        UserError: results of no use, or nothing says which model or dataset they are of.
    """
    paths = []
    for path in folder.rglob("*.json"):
        # The first versions of lm-evaluation-harness 0.4 write results.json as well.
        is_own = path.name == RESULTS and b'"versions"' not in read_bounded(path)
        if is_own or path.name == RUN:
            return None
        paths.append(path)
    paths.sort()
    notes: dict[str, list[str]] = {}
    of_harness = [path for path in paths if re.match(r"results[_.]", path.name)]
    of_trainer = [path for path in paths if path.name in _TRAINER]
    try:
        if of_harness:
            found = [*_of_harness(of_harness, notes)]
        elif of_trainer:
            found = [*_of_trainer(of_trainer, notes)]
        else:
            found = [*_of_mteb(paths, notes)]
    except (AttributeError, KeyError, TypeError):
        raise UserError(
            f"{folder} has results in a form that is not known; write their scores as a table (docs/compare.md)"
        ) from None
    if not found and (of_harness or of_trainer):
        raise UserError(f"{folder} has results, but no scores in them")
    if not found:
        return None
    rows = []
    for path, row in found:
        parts = enumerate(path.relative_to(folder).parent.parts, 1)
        rows.append(row | {f"folder{number}": name for number, name in parts})
    frame = pd.DataFrame(rows)
    given = dict(options.titles)
    # Where the owner names the folders that are a model, dataset or seed, these replace what a file says.
    replaced = [role for role in given if role in frame and given[role] != role]
    frame = frame.drop(columns=replaced)
    for role in ("model", "dataset"):
        if role in given or role in frame:
            continue
        folders = []
        for title in map(str, frame):
            if title.startswith("folder"):
                names = sorted(set(frame[title].dropna()))
                folders.append(f"{title} is {first_of(names, 2)}")
        raise UserError(
            f"{folder}: no file names its {role}; say which folder does, as in --columns "
            f"model=folder1,dataset=folder2,seed=folder3 ({', '.join(folders):.120})"
        )
    if "seed" not in given and "se" not in frame:
        frame["seed"] = "one"
    if "seed" not in given and "se" in frame:
        notes["one seed; errors over test instances, unpaired"] = ["se"]
    said = [f"{note}: {first_of(sorted(set(of)), 3)}" for note, of in notes.items()]
    places = [str(path.relative_to(folder)) for path, _ in found]
    return replace(text_table_of(frame, str(folder)), places=places), said


def _load(path: Path) -> Any:
    try:
        return strict_json(read_bounded(path), finite=False)
    except BadJsonError as error:
        raise UserError(f"{path}: {error}; write it again or delete it") from None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of_harness(
    paths: Sequence[Path], notes: dict[str, list[str]]
) -> Iterator[tuple[Path, ResultRow]]:
    """Yield the scores of lm-evaluation-harness with their errors over test instances."""
    newest: dict[tuple[Path, str, str], tuple[Path, list[ResultRow]]] = {}
    for path in paths:  # in a folder, by date
        content = _load(path)
        results = content.get("results", {})
        model = content.get("model_name") or path.parent.name
        # A group's score is the mean of its tasks, which are in the file as well.
        groups = set()
        for group, members in content.get("group_subtasks", {}).items():
            if any(member in results for member in members):
                groups.add(group)
        for task, numbers in results.items():
            if task in groups:
                notes.setdefault("without the groups", []).append(task)
                continue
            key = (path.parent, model, task)
            if key in newest:
                notes.setdefault("of several dates the newest", []).append(task)
            names = {"model": model, "dataset": task}
            rows = [names | row for row in _numbers_of_task(content, task, numbers)]
            newest[key] = path, rows
    for path, rows in newest.values():
        for row in rows:
            yield path, row


def _numbers_of_task(
    content: Mapping[str, Any], task: str, numbers: Mapping[str, Any]
) -> Iterator[ResultRow]:
    """Yield each metric of a task: its keys are `metric,filter`, and `metric_stderr,filter`, which may be "N/A"."""
    directions = content.get("higher_is_better", {}).get(task, {})
    size = content.get("n-samples", {}).get(task, {}).get("effective")
    for key, value in numbers.items():
        metric, comma, rule = key.partition(",")
        if not comma or metric.endswith("_stderr") or not _is_number(value):
            continue
        error = numbers.get(f"{metric}_stderr,{rule}")
        has_error = _is_number(error)
        yield {
            "metric": metric if rule == "none" else key,
            "score": value,
            "se": error if has_error else None,
            "n_instances": size if has_error else 1,
            "higher_is_better": directions.get(metric),
        }


def _of_mteb(
    paths: Sequence[Path], notes: dict[str, list[str]]
) -> Iterator[tuple[Path, ResultRow]]:
    """Yield the main score of each task; files of other kinds are passed over."""
    for path in paths:
        content = _load(path)
        if not isinstance(content, dict) or not any("mteb" in key for key in content):
            continue
        splits = content.get("scores") or {}
        of_subsets = list(itertools.chain.from_iterable(splits.values()))
        if not splits or not all("main_score" in one for one in of_subsets):
            raise UserError(
                f"{path} is of MTEB before 1.11, without main_score; load and save it again with mteb"
            )
        split = "test" if len(splits) > 1 else next(iter(splits))
        if split not in splits:
            raise UserError(
                f"{path} has the splits {', '.join(splits):.80} and no test; keep the one to compare"
            )
        if len(splits) > 1:
            others = [name for name in splits if name != split]
            notes.setdefault("splits not read", []).extend(others)
        # MTEB writes MODEL/REVISION/TASK.json, with a card of the model next to its tasks.
        model = path.parent.parent.name
        card = path.parent / "model_meta.json"
        if card.exists():
            model = _load(card)["name"]
        subsets = {one["hf_subset"]: one["main_score"] for one in splits[split]}
        row = {
            "model": model,
            "dataset": content.get("task_name", path.stem),
            "metric": "main_score",
            "split": split,
            "subsets": " ".join(sorted(subsets)),
            "score": math.fsum(subsets.values()) / len(subsets),
        }
        yield path, row


def _of_trainer(
    paths: Sequence[Path], notes: dict[str, list[str]]
) -> Iterator[tuple[Path, ResultRow]]:
    """Yield the scores of each run of the Trainer, from the first of its files that has some."""
    runs: dict[Path, list[tuple[bool, int, int, Path]]] = {}
    for path in paths:
        step = re.fullmatch(r"checkpoint-(\d+)", path.parent.name)
        run = path.parent if step is None else path.parent.parent
        age = 0 if step is None else -int(step[1])
        rank = (step is not None, _TRAINER.index(path.name), age, path)
        runs.setdefault(run, []).append(rank)
    for run, files in runs.items():
        for *_, path in sorted(files):
            content = _load(path)
            numbers, note = content, ""
            if "log_history" in content:
                numbers, note = _kept(content["log_history"], content)
            scores = {}
            for key, value in numbers.items():
                if _METRIC.fullmatch(key) and _is_number(value):
                    scores[key.removeprefix("eval_")] = value
            if not scores:
                continue
            if note:
                notes.setdefault(note, []).append(run.name)
            for metric, score in scores.items():
                yield run / path.name, {"metric": metric, "score": score}
            # The other files of a run repeat its scores.
            break


def _kept(
    history: Sequence[Mapping[str, Any]], state: Mapping[str, Any]
) -> tuple[ResultRow, str]:
    """Return the evaluation of the checkpoint that was kept, or the last evaluation, and words on which it is."""
    evaluations = [one for one in history if any(map(_METRIC.fullmatch, one))]
    if not evaluations:
        return {}, ""
    kept = re.search(r"checkpoint-(\d+)$", state.get("best_model_checkpoint") or "")
    best = int(kept[1]) if kept else state.get("best_global_step")
    step = best or evaluations[-1].get("step")
    numbers: ResultRow = {}
    for one in evaluations:
        if one.get("step") == step:
            numbers |= one
    if not best:
        return numbers, "the last evaluation of"
    # The state has the best value, but not the name of the metric.
    best_value = state.get("best_metric")
    chosen_by = [key for key, value in numbers.items() if value == best_value]
    by = f" by {chosen_by[0]}" if chosen_by else ""
    return numbers, f"at the step that was chosen{by} on this split"
