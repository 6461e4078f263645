"""What an artefact's side file records."""

import sys
from pathlib import Path

import pytest

from clm_or_mlm.__main__ import app_of
from common.files import sha256_file
from common.provenance import ROOT, SHOWN, provenance, provenance_path


def test_provenance_names_lock_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys,
        "argv",
        [
            *("/there/paper_figures/__main__.py", "3", "--data", "s3://me:HUSH@host/x"),
            *("--source", "/home/alice/text.txt", "--set=cache=/scratch/alice"),
        ],
    )
    found = provenance("analysis", ("numpy", "no-such-package"))
    lock = ROOT / "requirements" / "analysis.txt"
    assert found["lock"] == {
        "name": "requirements/analysis.txt",
        "sha256": sha256_file(lock),
    }
    assert list(found["versions"]) == ["numpy"]  # type: ignore[call-overload]
    assert found["command"] == [
        "python",
        "-m",
        "paper_figures",
        "3",
        "--data",
        "s3://***@host/x",
        "--source",
        "text.txt",
        "--set=cache=alice",
    ]


def test_a_file_and_a_folder_have_theirs_in_a_place_of_its_own(tmp_path: Path) -> None:
    assert provenance_path(tmp_path, folder=True) == tmp_path / "provenance.json"
    assert (
        provenance_path(tmp_path / "figure3.svg")
        == tmp_path / "figure3.provenance.json"
    )
    assert (
        provenance_path(tmp_path / "610m.v1.csv")
        == tmp_path / "610m.v1.provenance.json"
    )


SECRETS = (
    "https://user:HUSH@host/x.git", "https://HUSH@host/x", "ssh://me:HUSH@h:22/x", "https://h/x?access_token=HUSH&a=1",
    "https://h/x?X-Amz-Date=1&X-Amz-Signature=HUSH", "https://h/x?X-Amz-Security-Token=HUSH",
    "https://h/x?X-Goog-Signature=HUSH", "https://h/x?key=HUSH", "https://h/x?sv=1&se=HUSH", "hf_HUSHhushHUSHhush",
    "ghp_HUSHhushHUSHhush", "glpat-HUSHhushHUSH-hush", "sk-HUSHhushHUSHhush", "xoxb-1234567890-HUSH",
    "npm_1234567890123HUSH", "AIza1234567890123HUSH", "eyJhbGciOiJI.eyJzdWIiOiIx.HUSH",
    "-----BEGIN RSA PRIVATE KEY-----\nHUSH", "password=HUSH", "passphrase=HUSH", "GITHUB_PAT=HUSH", "KEY=HUSH",
    "WANDB_API_KEY=HUSH", "AWS_SECRET_ACCESS_KEY=HUSH", "aws_session_token=HUSH", "AccountKey=HUSH",
    "Authorization: Bearer HUSHhush", "x-api-key: HUSH", '"secretAccessKey": "HUSH"', "token: HUSH", "HUSH",
)  # fmt: skip
"""Forms of a secret; the last has none."""
ANYWHERE = 18
"""So many of them are known wherever they stand."""


def recorded(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["clm-or-mlm", "table", *words])
    return str(provenance("analysis", ())["command"])


@pytest.mark.parametrize("secret", SECRETS)
def test_undeclared_values_are_hidden(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = recorded(monkeypatch, "--header", secret, f"--new={secret}", "--steps", "4")
    assert "HUSH" not in text
    assert "'--header', '***', '--new=***', '--steps', '4'" in text


@pytest.mark.parametrize("secret", SECRETS[:ANYWHERE])
def test_known_secrets_are_hidden_in_shown_values(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "HUSH" not in recorded(monkeypatch, "--source", secret, f"--data={secret}")


WRITING = ("table", "figure", "report", "reproduce", "shards", "train", "adapt",
           "pretraining export", "benchmarks run")  # fmt: skip
"""Commands that record theirs."""


@pytest.mark.parametrize("name", WRITING)
def test_options_are_declared_harmless(name: str) -> None:
    app = app_of(name.split())
    for word in name.split():
        app = app[word]
    options = {
        option
        for argument in app.assemble_argument_collection()
        for option in argument.names
        if option.startswith("--") and not option.startswith(("--no-", "--empty-"))
    }
    assert options and options <= set(SHOWN)
