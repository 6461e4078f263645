"""`clm-or-mlm`: its list, its names, its completion; each command helps with an example that it takes."""

import itertools
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from clm_or_mlm import __version__
from clm_or_mlm.__main__ import COMMANDS, GROUPS, app_of, main
from common.provenance import ROOT
from tests.commands import python
from workflow.study import workflow_of
from workflow.study_settings import load_settings

USED = rf"clm-or-mlm ({'|'.join(sorted(COMMANDS, key=len, reverse=True))})(?![a-z-])"
"""A command as the pages have it."""


def listed(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[str, dict[str, list[str]]]:
    """The help that the words print, and the commands under each of its titles."""
    assert main(words, "clm-or-mlm") == 0
    text = capsys.readouterr().out
    parts = re.split(r"^╭─ (.+?) ─.*$", text, flags=re.MULTILINE)
    return text, {
        title: re.findall(r"^│ ([a-z-]+(?: [a-z]+)?) ", part, flags=re.MULTILINE)
        for title, part in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_help_lists_the_daily_commands_by_group_and_all_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text, daily = listed(["--help"], capsys)
    assert listed([], capsys) == (text, daily)
    shown = {name for names in daily.values() for name in names}
    assert len(text.splitlines()) <= 45 and len(shown) == 19
    assert f"the 19 most used of {len(COMMANDS)} commands (`clm-or-mlm --all`" in text
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    used = {page: set(re.findall(USED, page.read_text())) for page in pages}
    assert {"claims", "models", "plan", "fetch-released"} <= used[pages[0]] <= shown
    complete, every = listed(["--all"], capsys)
    assert f"all {len(COMMANDS)}" in complete and set().union(*used.values()) <= set(
        COMMANDS
    )
    assert every == {title: list(commands) for title, commands in GROUPS.items()}
    assert listed(["--help", "--all"], capsys)[1] == every
    assert all(set(daily[title]) <= set(every[title]) for title in every)


def test_a_room_lists_the_commands_that_need_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["benchmarks"], ["benchmarks", "--help"]):
        assert list(listed(words, capsys)[1].values()) == [["run", "status"]]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_explained_in_more_than_two_lines(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["help", *name.split()]) == 0
    rows = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("│")
    ]
    starts = [
        place
        for place, row in enumerate(rows)
        if re.match(r"│ [* ]{0,3}([A-Z]+ )?--[a-z]", row)
    ]
    for first, following in itertools.pairwise([*starts, len(rows)]):
        assert following - first <= 2 or "--" not in rows[first], rows[first]


@pytest.mark.parametrize("started", ["clm-or-mlm", "python -m clm_or_mlm"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_examples_that_it_takes(
    name: str, started: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = name.split()
    assert main([*words, "--help"], started) == 0
    assert f"Usage: {started} {name}" in capsys.readouterr().out
    app = app_of(words)
    function = app[words[0]] if len(words) == 1 else app[words[0]][words[1]]
    assert function.default_command is not None
    text = re.sub(r"\s*\\\n\s*", " ", function.default_command.__doc__ or "")
    examples = re.findall(rf"clm-or-mlm ({name}(?= |$).*)", text, flags=re.MULTILINE)
    assert examples, name
    for example in examples:
        app.parse_args(
            shlex.split(re.split(r"\s{3,}", example)[0]),
            print_error=False,
            exit_on_error=False,
        )


@pytest.mark.parametrize("toy", ["smallest", "curves"])
def test_jobs_are_given_words_that_their_commands_take(toy: str) -> None:
    """What a job may not be asked is seen here, not after hours."""
    settings = load_settings(ROOT / "miniature" / toy / "settings.toml")
    study = workflow_of("all", replace(settings, text=("text.jsonl",)))
    # One of each command and its options; the thousands of others differ in names.
    shapes = {
        (
            *(word for word in words[:3] if word.isidentifier()),
            *(w for w in words if w.startswith("--")),
        ): words
        for job in study.jobs.values()
        for words in job.commands
    }
    assert len(shapes) >= 5
    for words in shapes.values():
        app_of(words).parse_args(words, print_error=False, exit_on_error=False)


TRAIN = ["train", "610m-clm", "--data", "a", "--out", "b", "--set"]


WRONG: list[tuple[list[str], list[str]]] = [
    (["tabel"], ["tabel", "'table'"]),
    (["benchmark", "run"], ["benchmark", "'benchmarks'"]),
    (
        ["run"],
        ["`clm-or-mlm benchmarks run`", "`clm-or-mlm container run`"],
    ),
    (["analysis", "table", "10"], ["analysis table", "`clm-or-mlm table`"]),
    (
        ["benchmarks", "run", "--modle", "x"],
        ["--model", "(see clm-or-mlm benchmarks run --help)"],
    ),
    (["benchmarks", "run", "--model", "nowhere"], ["nowhere"]),
    (["plan", "--modle", "x"], ["--model"]),
    (["train", "nosuchmodel", "--data", "x", "--out", "y"], ["nosuchmodel"]),
    (["train", "610m-clm-42k", "--data", "nowhere", "--out", "y"], ["nowhere"]),
    ([*TRAIN, "peak_rl=1"], ["peak_rl", "'peak_lr'"]),
    ([*TRAIN, "backend=flsh"], ["flsh", "'flash4'"]),
    (["table", "2", "--source", "nowhere"], ["nowhere"]),
]
"""Words, and what the sentence that refuses them names."""


def test_wrong_word_is_refused_before_heavy_imports() -> None:
    code = (
        "import sys\nfrom clm_or_mlm.__main__ import main\n"
        f"for words in {[words for words, _ in WRONG]!r}:\n"
        "    try:\n        main(words, 'clm-or-mlm')\n"
        "    except ValueError as error:\n        print(error)\n"
        "    if {'torch', 'transformers'} & set(sys.modules):\n        sys.exit(words)\n"
    )
    sentences = python("-c", code, code=0).stdout.splitlines()
    for sentence, (_, named) in zip(sentences, WRONG, strict=True):
        assert all(part in sentence for part in named), sentence


def test_the_version_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"clm-or-mlm {__version__} (commit ")


def test_an_interrupted_import_ends_in_one_line() -> None:
    """The signal comes while `clm_or_mlm` is imported, the first thing after the hook for it."""
    code = (
        "import builtins, os, runpy, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "real = builtins.__import__\n"
        "def slow(name, *rest, **named):\n"
        "    if name == 'cyclopts': os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest, **named)\n"
        "builtins.__import__ = slow\n"
        "runpy.run_module('clm_or_mlm', run_name='__main__')\n"
    )
    done = python("-c", code)
    said = "interrupted; run the same command again to continue\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


def test_bash_completes_commands_options_and_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert not main(["--install-completion"], "clm-or-mlm")
    (script,) = tmp_path.rglob("completions/clm-or-mlm")
    probe = f"source {script}; function=$(complete -p clm-or-mlm | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
    asked = {
        "cla": ["claims"],
        "table --for": ["--format"],
        "claims F5b": ["F5b"],
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
    done = subprocess.run(
        ["bash", "-c", probe], capture_output=True, text=True, check=True
    )
    assert [line.split() for line in done.stdout.splitlines()] == list(asked.values())
