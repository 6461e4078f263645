"""Folders of results that other tools wrote, each read as one table of scores with a row for each number.

lm-evaluation-harness   results_DATE.json: groups are left out beside their tasks; of several dates the newest counts
MTEB                    TASK.json: of several splits `test` counts; subsets are averaged
Trainer (transformers)  all_results.json, else trainer_state.json at the step that was kept

Where a file does not say which model, dataset or seed a score is of, its folders do. They become columns of the table:
`folder1` is the first folder below the one that was given.
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
"""A score with what its file says of it, by the roles of columns (`analysis.comparisons.table_options.ROLES`)."""
_TRAINER = ("all_results.json", "eval_results.json", "trainer_state.json")
"""Files of a run of the Trainer, the one that counts first."""
_METRIC = re.compile(r"(eval|test|predict)_(?!.*(loss|samples|per_second|time)$).+")
"""The key of a score among what the Trainer writes of an evaluation: eval_accuracy, but neither eval_loss nor
eval_samples_per_second."""


def table_of_folder(
    folder: Path, options: TableOptions
) -> tuple[TextTable, list[str]] | None:
    """Return the scores in a folder of another tool's results as a table, with sentences on what was chosen.

    None for a folder without such results, and for a run store of this package.

    Args:
        folder: a folder with results of one tool at any depth.
        options: which folders are the model, the dataset and the seed.

    Raises:
        UserError: results of no use, or neither a file nor a folder says which model or dataset they are of.
    """
    paths = _files_of_a_tool(folder)
    # What was chosen in reading, each with the names that it is about: tasks, splits, runs or a column.
    notes: dict[str, list[str]] = {}
    scores = _scores_in(folder, paths, notes)
    if not scores:
        return None

    # A row for each score, with the folders of its file below the one that was given.
    rows = []
    for path, row in scores:
        folders = path.relative_to(folder).parent.parts
        numbered = enumerate(folders, start=1)
        rows.append(row | {f"folder{number}": name for number, name in numbered})

    frame = pd.DataFrame(rows)
    # Model and dataset: as the owner names them, else as the files do.
    given = dict(options.titles)  # by role the column that the owner names

    # Where the owner names the folders that are a model, dataset or seed, these replace what a file says. `model=model`
    # keeps it.
    replaced = [role for role in given if role in frame and given[role] != role]
    frame = frame.drop(columns=replaced)
    for role in ("model", "dataset"):
        if role not in given and role not in frame:
            raise _nameless(folder, role, frame)

    # Seeds. Without folders of seeds, each model has one seed.
    if "seed" not in given:
        if "se" in frame:
            # lm-evaluation-harness writes standard errors: then a score is a mean over test instances.
            # The note is about the column `se` of these errors.
            notes["one seed; errors over test instances, unpaired"] = ["se"]
        else:
            frame["seed"] = "one"

    # The table, and sentences on what was chosen.
    sentences = []
    for note, names in notes.items():
        sentences.append(f"{note}: {first_of(sorted(set(names)), 3)}")

    # Refusals call a row by its file.
    places = [str(path.relative_to(folder)) for path, _ in scores]
    table = replace(text_table_of(frame, str(folder)), places=places)
    return table, sentences


def _files_of_a_tool(folder: Path) -> list[Path]:
    """Return the JSON files in a folder at any depth, sorted; none for a run store of this package."""
    paths = []
    for path in folder.rglob("*.json"):
        # A run store has a results.json (`RESULTS`). The first versions 0.4 of lm-evaluation-harness wrote a
        # file of the same name, but theirs has a key "versions". A run store also has a run.json (`RUN`) for
        # each run.
        is_of_store = path.name == RESULTS and b'"versions"' not in read_bounded(path)
        if is_of_store or path.name == RUN:
            return []
        paths.append(path)
    return sorted(paths)


def _scores_in(
    folder: Path, paths: Sequence[Path], notes: dict[str, list[str]]
) -> list[tuple[Path, ResultRow]]:
    """Return the scores of the tool that wrote some files, each with its file; none of files of no tool.

    Args:
        folder: the folder of the files, for refusals.
        paths: the files, sorted.
        notes: gets what was chosen.

    Raises:
        UserError: files of a tool in another form than its own, or without scores.
    """
    # results_DATE.json or results.json
    of_harness = [path for path in paths if re.match(r"results[_.]", path.name)]
    of_trainer = [path for path in paths if path.name in _TRAINER]
    try:
        # Pairs of a file and a row of scores from it. Each reader is a generator, which meets an unknown form
        # only while its pairs are listed.
        if of_harness:
            scores = [*_of_harness(of_harness, notes)]
        elif of_trainer:
            scores = [*_of_trainer(of_trainer, notes)]
        else:
            # MTEB names a file after its task: any file may be one, and the others are skipped.
            scores = [*_of_mteb(paths, notes)]
    except (AttributeError, KeyError, TypeError):
        # A key is missing, or a value is of another type than in the tool's own files.
        raise UserError(
            f"{folder} has results in a form that is not known; write their scores as a table (docs/compare.md)"
        ) from None

    if not scores and (of_harness or of_trainer):
        raise UserError(f"{folder} has results, but no scores in them")
    return scores


def _nameless(folder: Path, role: str, frame: pd.DataFrame) -> UserError:
    """Return the error for scores whose model or dataset nothing says: it lists which folders there are."""
    examples = []
    for title in map(str, frame):
        if title.startswith("folder"):
            names = sorted(set(frame[title].dropna()))
            examples.append(f"{title} is {first_of(names, 2)}")
    return UserError(
        f"{folder}: no file names its {role}; say which folder does, as in --columns "
        f"model=folder1,dataset=folder2,seed=folder3 ({', '.join(examples):.120})"
    )


def _load(path: Path) -> Any:
    """Return the content of a JSON file; a tool may write NaN in it."""
    try:
        return strict_json(read_bounded(path), finite=False)
    except BadJsonError as error:
        raise UserError(f"{path}: {error}; write it again or delete it") from None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of_harness(
    paths: Sequence[Path], notes: dict[str, list[str]]
) -> Iterator[tuple[Path, ResultRow]]:
    """Yield the scores of lm-evaluation-harness, each with its file; they have errors over test instances.

    Args:
        paths: its files, sorted. Their names have the date of an evaluation, so that in a folder they are by date.
        notes: gets what was chosen.
    """
    # By folder, model and task the file and the scores of the newest evaluation.
    newest: dict[tuple[Path, str, str], tuple[Path, list[ResultRow]]] = {}
    for path in paths:
        content = _load(path)
        results = content.get("results", {})
        # A file that does not name its model takes the name of its folder.
        model = content.get("model_name") or path.parent.name

        # A group's score is the mean of its tasks. It is left out if any of these is in the file.
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

            # An older evaluation of the same task is replaced.
            newest[key] = path, rows

    for path, rows in newest.values():
        for row in rows:
            yield path, row


def _numbers_of_task(
    content: Mapping[str, Any], task: str, numbers: Mapping[str, Any]
) -> Iterator[ResultRow]:
    """Yield a row for each metric of a task of lm-evaluation-harness.

    Keys of scores are `metric,filter` (`acc,none`), where the filter is how an answer was taken from the text. Keys of
    their errors are `metric_stderr,filter`, whose value may be "N/A". Other keys, such as `alias`, have no comma.

    Args:
        content: the whole file.
        task: the task's name.
        numbers: the task's own keys and values.
    """
    higher_is_better = content.get("higher_is_better", {}).get(task, {})
    # `effective` is how many instances were evaluated, which may be fewer than the task has.
    n_instances = content.get("n-samples", {}).get(task, {}).get("effective")
    for key, value in numbers.items():
        metric, comma, answer_filter = key.partition(",")
        if not comma or metric.endswith("_stderr") or not _is_number(value):
            continue
        error = numbers.get(f"{metric}_stderr,{answer_filter}")
        has_error = _is_number(error)
        yield {
            "metric": metric if answer_filter == "none" else key,
            "score": value,
            "se": error if has_error else None,
            # A score without an error is read as a mean over one seed, which needs no error.
            "n_instances": n_instances if has_error else 1,
            "higher_is_better": higher_is_better.get(metric),
        }


def _of_mteb(
    paths: Sequence[Path], notes: dict[str, list[str]]
) -> Iterator[tuple[Path, ResultRow]]:
    """Yield the main score of each task of MTEB, with its file; JSON files of other kinds are skipped.

    Args:
        paths: all JSON files of the folder.
        notes: gets what was chosen.
    """
    for path in paths:
        content = _load(path)
        # A task's file has a key with the version: mteb_version.
        if not isinstance(content, dict) or not any("mteb" in key for key in content):
            continue

        # By split a list with the scores of each subset, such as a language.
        splits = content.get("scores") or {}
        all_subsets = list(itertools.chain.from_iterable(splits.values()))
        if not splits or not all("main_score" in subset for subset in all_subsets):
            raise UserError(
                f"{path} is of MTEB before 1.11, without main_score; load and save it again with mteb"
            )

        names = list(splits)
        split = names[0] if len(names) == 1 else "test"
        if split not in splits:
            raise UserError(
                f"{path} has the splits {', '.join(splits):.80} and no test; keep the one to compare"
            )

        if len(names) > 1:
            others = [name for name in names if name != split]
            notes.setdefault("splits not read", []).extend(others)

        # MTEB writes MODEL/REVISION/TASK.json, with a card of the model next to its tasks.
        model = path.parent.parent.name
        card = path.parent / "model_meta.json"
        if card.exists():
            model = _load(card)["name"]
        scores = {one["hf_subset"]: one["main_score"] for one in splits[split]}

        # `split` and `subsets` have no role. Where they differ between models, the table is refused, as for every such
        # column (`analysis.comparisons.scores_table`).
        row = {
            "model": model,
            "dataset": content.get("task_name", path.stem),
            "metric": "main_score",
            "split": split,
            "subsets": " ".join(sorted(scores)),
            "score": math.fsum(scores.values()) / len(scores),
        }
        yield path, row


def _of_trainer(
    paths: Sequence[Path], notes: dict[str, list[str]]
) -> Iterator[tuple[Path, ResultRow]]:
    """Yield the scores of each run of the Trainer, from the first of its files that has any.

    Args:
        paths: the files of `_TRAINER`, of all runs.
        notes: gets what was chosen.
    """
    # By the folder of a run its files, each with its rank: those of the run itself come before those of
    # checkpoints, then they are in the order of `_TRAINER`, and later checkpoints come before earlier ones.
    # The path, at the end of a rank, is the file itself.
    files_of: dict[Path, list[tuple[bool, int, int, Path]]] = {}
    for path in paths:
        run, step = path.parent, 0
        checkpoint = re.fullmatch(r"checkpoint-(\d+)", path.parent.name)
        if checkpoint is not None:
            run, step = path.parent.parent, int(checkpoint[1])
        rank = (checkpoint is not None, _TRAINER.index(path.name), -step, path)
        files_of.setdefault(run, []).append(rank)

    for run, ranked_files in files_of.items():
        for *_, path in sorted(ranked_files):
            content = _load(path)
            numbers, note = content, ""
            # trainer_state.json has all evaluations of a run, the other files only the last one.
            if "log_history" in content:
                numbers, note = _kept(content["log_history"], content)
            scores = {}
            for key, value in numbers.items():
                # eval_accuracy is called accuracy; test_accuracy and predict_accuracy keep their names.
                if _METRIC.fullmatch(key) and _is_number(value):
                    scores[key.removeprefix("eval_")] = value

            if not scores:
                continue
            if note:
                notes.setdefault(note, []).append(run.name)
            for metric, score in scores.items():
                # As if the file were in the run's folder, so that the folders of all runs count alike.
                yield run / path.name, {"metric": metric, "score": score}

            # The other files of a run repeat its scores.
            break


def _kept(
    history: Sequence[Mapping[str, Any]], state: Mapping[str, Any]
) -> tuple[ResultRow, str]:
    """Return the numbers of the evaluation that counts, and words on which it is.

    It is the evaluation of the checkpoint that the Trainer kept as the best or, if it chose none, the last one.

    Args:
        history: the Trainer's log: of each step that it logged the numbers, of training or of an evaluation.
        state: the content of the file that has this log, with the best checkpoint.
    """
    # Entries about training have no scores.
    evaluations = [entry for entry in history if any(map(_METRIC.fullmatch, entry))]
    if not evaluations:
        return {}, ""

    # The kept checkpoint is named by its folder, such as out/checkpoint-10, or by its step alone.
    folder = state.get("best_model_checkpoint") or ""
    checkpoint = re.search(r"checkpoint-(\d+)$", folder)
    best_step = int(checkpoint[1]) if checkpoint else state.get("best_global_step")
    step = best_step or evaluations[-1].get("step")

    # Several test sets have an entry each at one step.
    numbers: ResultRow = {}
    for evaluation in evaluations:
        if evaluation.get("step") == step:
            numbers |= evaluation

    if not best_step:
        return numbers, "the last evaluation of"
    # The state has the best value, but not the name of the metric. Of several metrics with this value, the
    # first is named.
    best_value = state.get("best_metric")
    chosen_by = [key for key, value in numbers.items() if value == best_value]
    by = f" by {chosen_by[0]}" if chosen_by else ""
    return numbers, f"at the step that was chosen{by} on this split"
