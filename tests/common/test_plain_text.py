"""Text that is shown: no control characters, no secrets, something for every terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.plain_text import counted, name_fault, redacted, visible


@given(st.text(st.characters(), max_size=50))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = visible(text)
    assert all(
        character.isprintable() or character in "\n\t " or character.isspace()
        for character in shown
    )
    assert "\x1b" not in shown and "\r" not in shown
    shown.encode("utf-8")
    assert visible(shown) == shown


def test_controls_are_shown_as_escapes() -> None:
    assert (
        visible("a\x1b[31m\x07\u202e\udc80 ± 中")
        == "a\\x1b[31m\\x07\\u202e\\udc80 ± 中"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("x" * 201, "201 bytes"),
        ("\udc80", "not UTF-8"),
        ("a\nb", "unprintable"),
        ("mine ", "blank at an end"),
        ("=1+1", "formula"),
        ("-x", "formula"),
        ("@x", "formula"),
    ],
)
def test_what_cannot_be_a_name(name: str, why: str) -> None:
    assert why in (name_fault(name) or "")


@pytest.mark.parametrize("name", ["610m-clm-42k", "modèle", "a b", "bert_base.v1"])
def test_what_can_be_a_name(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "text",
    [
        "https://user:HUSH@host/x.git",
        "https://HUSH@host/x",
        "https://h/x?access_token=HUSH&a=1",
        "password=HUSH",
        "hf_HUSHhushHUSHhush",
        "ssh://me:HUSH@h:22/x",
        "https://h/x?X-Amz-Date=1&X-Amz-Signature=HUSH",
        "https://h/x?X-Amz-Security-Token=HUSH&X-Amz-Credential=HUSH",
        "https://h/x?X-Goog-Signature=HUSH",
        "WANDB_API_KEY=HUSH",
        "AWS_SECRET_ACCESS_KEY=HUSH",
        "aws_session_token=HUSH",
        "KEY=HUSH",
        "AccountKey=HUSH",
        "Authorization: Bearer HUSHhush",
        "bearer HUSHhush.HUSH",
        "run --token HUSH",
        "run --hub-token=HUSH --x",
        "run --api-key HUSH",
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    assert "HUSH" not in redacted(f"fatal: unable to access '{text}': no")


@pytest.mark.parametrize(
    "text",
    [
        '{"token": "HUSH", "a": 1}',
        "'hf_token': 'HUSH'",
        "token: HUSH",
        "api_key: HUSH",
        "wandb login HUSH",
        "a token: HUSH4hush",
        "password: HUSH",
        "hf_token: HUSH",
        "x-api-key: HUSH",
        '"secretAccessKey": "HUSH"',
        "curl --passphrase=HUSH",
        "GITHUB_PAT=HUSH",
        "of xoxb-1234567890-HUSH",
        "of npm_1234567890123HUSH",
        "of AIza1234567890123HUSH",
        "of eyJhbGciOiJI.eyJzdWIiOiIx.HUSH",
        "-----BEGIN RSA PRIVATE KEY-----\nHUSH",
    ],
)
def test_secrets_in_json_and_commands_are_hidden(text: str) -> None:
    assert "HUSH" not in redacted(text) and "***" in redacted(text)


def test_what_is_no_secret_stays() -> None:
    keys = "--set takes key=value; a bearer of news; weighting = token: the mean; --tokenizer t; image_key = x; KEYS=3"
    assert redacted(keys) == keys
    for text in (
        "weighting = token: the loss is",
        "letters a token: 4.3; unknown",
        "by token: mean",
        "no token: 12",
    ):
        assert redacted(text) == text
    assert "hush" not in redacted("a token: hushhushhushhush") + redacted(
        "hf_token: hush"
    ) + redacted("a password: hush")
    assert "AKIA" not in redacted("as AKIAIOSFODNN7EXAMPLE")
    text = "python -m pretraining train --set eos_token=2 max_tokens=5 tokenizer=t https://h/x@v1 a@b.org"
    assert redacted(text) == text


def test_things_are_counted_in_words() -> None:
    words = [counted(number, "model") for number in (0, 1, 2, 1_520)]
    assert words == ["0 models", "1 model", "2 models", "1,520 models"]
