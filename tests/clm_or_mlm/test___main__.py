"""`python -m clm_or_mlm`: commands of all rooms, with the room's name where several rooms have one of a name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from clm_or_mlm import __main__ as package
from clm_or_mlm.__main__ import main
from common.errors import UserError


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["table", "--help"], "table [OPTIONS] NUMBER"),
        (["train", "--help"], "train --data DIR_OR_URL"),
        (["figure", "--help"], "figure [OPTIONS] [ARGS...]"),
        (["benchmarks", "run", "--help"], "benchmarks run --model PATH_OR_ID"),
        (["container", "run", "--help"], "container run [OPTIONS] IMAGE"),
    ],
)
def test_words_reach_the_room_whose_help_begins_with_them(
    words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for started in ("clm-or-mlm", "python -m clm_or_mlm"):
        assert main(words, started) == 0
        assert f"Usage: {started} {usage}" in " ".join(capsys.readouterr().out.split())


def test_a_command_of_several_rooms_needs_the_rooms_name() -> None:
    with pytest.raises(UserError, match="`clm-or-mlm pretraining export` or `clm-or-mlm analysis export`"):
        main(["export", "build/x"], "clm-or-mlm")


def test_a_command_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "10"]) == 0
    short = capsys.readouterr().out
    assert main(["analysis", "table", "10"]) == 0
    assert capsys.readouterr().out == short != ""


def test_no_words_list_commands_and_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = {line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert {"train", "table", "figure", *package.ROOMS} <= lines
    assert not {"run", "container:run"} & lines


def test_the_list_is_grouped_by_task_and_no_example_breaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([]) == 0
    text = capsys.readouterr().out
    for example in ("figure 3", "table 10", "claims --id F8", "benchmarks run --help", "completion bash"):
        assert f"\n  python -m clm_or_mlm {example}\n" in text
    parts = re.split(r"^╭─ (.+?) ─.*$", text, flags=re.MULTILINE)
    listed = {
        title: set(re.findall(r"^│ ([a-z][a-z_-]*) ", part, flags=re.MULTILINE))
        for title, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert list(listed)[1:4] == ["Reproduce", "Pretrain", "Fine-tune"]
    assert {"figure", "table", "claims"} <= listed["Reproduce"]
    assert {"train", "shards"} <= listed["Pretrain"] and "import" in listed["Fine-tune"]
    assert "compare" in listed["Analyse"]


@pytest.mark.parametrize(
    ("word", "near"), [("tabel", "table"), ("benchmark", "benchmarks"), ("figur", "figure")]
)
def test_a_misspelt_word_is_answered_with_the_nearest(word: str, near: str) -> None:
    with pytest.raises(UserError, match=f"Unknown command '{word}'; did you mean '{near}'"):
        main([word])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("claims", "--format", "paper_figures", "ingest", "markdown"):
        assert word in script


def test_bash_completes_commands_options_and_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["completion", "bash"])
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    probe = f"source {script}; function=$(complete -p clm-or-mlm | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
    asked = {
        "analysis cla": ["claims"],
        "analysis table --for": ["--format"],
        "claims --id F5b": ["F5b"],
        "figure 1": ["1", "10", "11", "12"],
        "table 17": ["17"],
        "train 1b-clm-1": ["1b-clm-10k-mlm40-42k"],
        "scores --model 1b-mlm4": ["1b-mlm40-42k"],
        "benchmarks run --dataset squ": ["squad", "squad_v2"],
        "fetch-released figure1": ["figure1", "figure10", "figure11", "figure12"],
    }
    for words in asked:
        count = len(words.split())
        probe += f'COMP_WORDS=(clm-or-mlm {words}); COMP_CWORD={count}; $function; echo "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == list(asked.values())
