"""Every room's program: each command helps with an example that it takes, and wrong words are refused fast."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cyclopts import App

from clm_or_mlm import VERSION
from clm_or_mlm.__main__ import main
from clm_or_mlm.rooms import ROOMS, main_of
from common.cli import command_name
from miniature.data import MADE_UP, DataSource
from miniature.forms import FORMS
from miniature.plan import Miniature
from tests.commands import python
from workflow.study import workflow_of
from workflow.study_settings import load_settings
from workflow.tiny import write_tiny_study


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each room's name with the words of each of its commands, none for the default's."""
    for room in ROOMS.values():
        yield from ((room.name, (command_name(path),)) for path in room.commands)
        if room.default:
            yield room.name, ()


def function_of(room: str, words: tuple[str, ...]) -> tuple[App, Callable[..., object]]:
    app: App = ROOMS[room].program()
    for word in words:
        app = app[word]
    assert app.default_command is not None
    return app, app.default_command


def test_every_command_helps_with_examples_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    for room, words in commands():
        call = " ".join((f"python -m {room}", *words))
        assert not main_of(room)([*words, "--help"])
        assert f"Usage: {call}" in capsys.readouterr().out
        app, function = function_of(room, words)
        text = re.sub(r"\s*\\\n\s*", " ", function.__doc__ or "")
        typed = rf"(?:{room} )?{' '.join(words)}" if words else "(?:figure|workflow)"
        examples = re.findall(rf"clm-or-mlm {typed}(?= |$)(.*)", text, flags=re.MULTILINE)
        assert examples, call
        for example in examples:
            given = shlex.split(re.split(r"\s{3,}", example.strip())[0])
            if words or given[:1] not in (["status"], ["settings"]):
                app.parse_args(given, print_error=False, exit_on_error=False)


def test_jobs_are_given_words_that_their_commands_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every form of the miniature and of a study; what a job may not be asked is seen here, not after hours."""
    monkeypatch.setattr("miniature.data.jsonl", lambda documents: "")  # no command reads the text here
    study = workflow_of("all", load_settings(write_tiny_study(tmp_path)))
    jobs = list(study.jobs.values())
    for form in FORMS.values():
        for source in (MADE_UP, DataSource(place=tmp_path)):
            mini = Miniature(form=form, source=source, root=tmp_path / f"{form.name}-{source.folder}")
            jobs += [*mini.jobs(), mini.analysis_job((), report=True)]
    owners = {command_name(path): room.name for room in ROOMS.values() for path in room.commands}
    commands = (
        words if words[0] in ROOMS else (owners[words[0]], *words) for job in jobs for words in job.commands
    )
    # One of each command and its options; the thousands of others differ in names.
    shapes = {
        (
            room,
            *(word for word in words[:2] if word.isidentifier()),
            *(w for w in words if w.startswith("--")),
        ): words
        for room, *words in commands
    }
    assert len(shapes) > 20
    for (room, *_), words in shapes.items():
        ROOMS[room].program().parse_args(words, print_error=False, exit_on_error=False)


def test_a_room_without_words_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for room in ROOMS.values():
        assert not main_of(room.name)([])
        text = capsys.readouterr().out
        assert f"Usage: python -m {room.name}" in text
        assert all(command_name(path) in text for path in room.commands)


TRAIN = ["pretraining", "train", "610m-clm", "--data", "a", "--out", "b", "--set"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["benchmarks", "run", "--modle", "x"], "Did you mean --model"),
        (["pretraining", "plan", "--modle", "x"], "Did you mean --model"),
        (["benchmarks", "run", "--model", "nowhere"], "nowhere"),
        (["pretraining", "train", "nosuchmodel", "--data", "x", "--out", "y"], "nosuchmodel"),
        (["pretraining", "train", "610m-clm-42k", "--data", "nowhere", "--out", "y"], "nowhere"),
        (
            ["pretraining", "train", "610m-clm", "--dta", "a", "--out", "b"],
            "Did you mean --data instead of --dta?",
        ),
        ([*TRAIN, "peak_rl=1"], "--set: unknown key 'peak_rl'; did you mean 'peak_lr'?"),
        (
            [*TRAIN, "backend=flsh"],
            "unknown backend 'flsh'; use one of auto, varlen, flash4, sdpa; did you mean 'flash4'?",
        ),
        (["analysis", "table", "2", "--source", "nowhere"], "nowhere: no such source"),
    ],
    ids=" ".join,
)
def test_a_wrong_word_is_refused_before_anything_heavy_is_imported(words: list[str], sentence: str) -> None:
    code = (
        "import sys\nfrom clm_or_mlm.rooms import ROOMS, main_of\n"
        f"try:\n    main_of({words[0]!r})({words[1:]!r})\nexcept ValueError as error:\n    print(error)\n"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert sentence in python("-c", code, code=0).stdout.splitlines()[-1]


def test_every_program_states_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    for room in ROOMS:
        assert main_of(room)(["--version"]) == main(["--version"]) == 0
        first, second = capsys.readouterr().out.splitlines()
        assert first == second and first.startswith(f"clm-or-mlm {VERSION} (commit ")
